"""Relevance of gallery items to queries: those that share at least one label."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.evaluation.ranking import CodesLike


class Relevance:
    """Relevance by shared labels, without storing the entire (queries, gallery) matrix.

    Labels are a vector of class numbers, or a bool matrix with one column per class. The matrix is packed 63 labels to
    an int64 word, so that "shares a label" is one bitwise `and` per word.

    >>> relevance = Relevance(torch.tensor([0, 1]), torch.tensor([1, 1, 0]), torch.device("cpu"))
    >>> relevance.totals().tolist()
    [1, 2]
    """

    def __init__(self, query_labels: CodesLike, gallery_labels: CodesLike, device: torch.device) -> None:
        asked, offered = _checked(query_labels, "query_labels"), _checked(gallery_labels, "gallery_labels")
        if asked.shape[1:] != offered.shape[1:]:
            raise EigenmapError(
                "query_labels and gallery_labels must have the same form and the same number of classes, "
                f"not shapes {tuple(asked.shape)} and {tuple(offered.shape)}"
            )
        self._packed = asked.ndim == 2
        self._asked = _words(asked.to(device))
        self._offered = _words(offered.to(device))

    def hits(self, first: int, items: Tensor) -> Tensor:
        """Return (b, m): whether gallery `items` (b, m) are relevant to the b queries starting at `first`."""
        return self._share(self._asked[first : first + len(items), None], self._offered[items])

    def totals(self, drop_self: bool = False, block: int = 128, gallery_block: int = 65_536) -> Tensor:
        """Count each query's relevant items in the gallery; `drop_self` leaves out the query itself."""
        total = torch.zeros(len(self._asked), dtype=torch.int64, device=self._asked.device)
        for offered in torch.split(self._offered, gallery_block):
            total += torch.cat(
                [self._share(asked[:, None], offered).sum(1) for asked in torch.split(self._asked, block)]
            )
        return total - self._share(self._asked, self._offered).long() if drop_self else total

    def _share(self, a: Tensor, b: Tensor) -> Tensor:
        """Compare labels; shapes broadcast, and the last axis contains the words or the class number."""
        return (a & b).ne(0).any(-1) if self._packed else (a == b).squeeze(-1)


def _checked(labels: CodesLike, name: str) -> Tensor:
    tensor = as_tensor(labels, name)
    numbers = not (tensor.is_floating_point() or tensor.dtype == torch.bool)
    if tensor.ndim == 2 and tensor.shape[1] > 0:
        return tensor
    if tensor.ndim == 1 and numbers:
        return tensor
    raise EigenmapError(f"{name} must be a vector of class numbers or a yes/no matrix with one column per class")


def _words(labels: Tensor) -> Tensor:
    """Return labels as (n, words) int64: the class number itself, or 63 labels per word (the sign bit is unused)."""
    if labels.ndim == 1:
        return labels.long()[:, None]
    bits = torch.arange(63, device=labels.device)
    return torch.stack(
        [((part != 0).long() << bits[: part.shape[1]]).sum(1) for part in torch.split(labels, 63, 1)], dim=1
    )

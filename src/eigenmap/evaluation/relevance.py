"""Relevance of gallery items to queries: those that share at least one label."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.evaluation.ranking import CodesLike


class Relevance:
    """Relevance by shared labels, without storing the entire (queries, gallery) matrix.

    Labels are a vector of class numbers, negative for none, or a bool matrix with one column per class. The matrix is
    packed 63 labels to an int64 word, so that "shares a label" is one bitwise `and` per word.

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
        self._words = list(zip(_words(asked.to(device)), _words(offered.to(device)), strict=True))

    def hits(self, first: int, items: Tensor) -> Tensor:
        """Return (b, m): whether gallery `items` (b, m) are relevant to the b queries starting at `first`."""
        queries = slice(first, first + len(items))
        return self._share((asked[queries, None], offered[items]) for asked, offered in self._words)

    def totals(self, drop_self: bool = False, block: int = 128, gallery_block: int = 65_536) -> Tensor:
        """Count each query's relevant items in the gallery; `drop_self` leaves out the query itself."""
        asked, offered = self._words[0]
        queries = [slice(start, start + block) for start in range(0, len(asked), block)]
        total = torch.zeros(len(asked), dtype=torch.int64, device=asked.device)
        for start in range(0, len(offered), gallery_block):
            gallery = slice(start, start + gallery_block)
            for rows in queries:
                total[rows] += self._share((a[rows, None], b[gallery]) for a, b in self._words).sum(1)
        return total - self._share(self._words).long() if drop_self else total

    def _share(self, words: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Compare labels word by word, so that memory does not grow with the number of classes; shapes broadcast."""
        return reduce(torch.logical_or, ((a & b).ne(0) if self._packed else (a == b) & (a >= 0) for a, b in words))


def _checked(labels: CodesLike, name: str) -> Tensor:
    tensor = as_tensor(labels, name)
    numbers = not (tensor.is_floating_point() or tensor.dtype == torch.bool)
    if tensor.ndim == 2 and tensor.shape[1] > 0:
        return tensor
    if tensor.ndim == 1 and numbers:
        return tensor
    raise EigenmapError(f"{name} must be a vector of class numbers or a yes/no matrix with one column per class")


def _words(labels: Tensor) -> list[Tensor]:
    """Return labels as words (n,) of int64: the class number itself, or 63 labels per word (the sign bit is unused)."""
    if labels.ndim == 1:
        return [labels.long()]
    bits = torch.arange(63, device=labels.device)
    return [((part != 0).long() << bits[: part.shape[1]]).sum(1) for part in torch.split(labels, 63, 1)]

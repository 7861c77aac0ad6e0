"""Evidence for the alignment: moments of a network's outputs over training pairs and over held-out pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.rows import spread
from eigenmap.fitting.align import Criteria, Evidence
from eigenmap.model import CodeSource
from eigenmap.networks import Network, code_rows
from eigenmap.relations.graph import GraphPairs, first_of_each
from eigenmap.relations.images import ImagePairs
from eigenmap.spectrum import Moments, unit_rms_rows

Outputs = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Network as a function: inputs -> (features, psi)."""

ALIGNMENT_PAIRS = 20_000
"""Number of pairs from which the rotation is estimated, for data sets with fewer images."""
JUDGING_PAIRS = 5_000
"""Number of held-out pairs on which alignments are compared."""
PLAIN_IMAGES = 10_000
"""Maximum number of images without augmentation whose mean is computed."""
LEAST_PAIRS, LEAST_JUDGING = 1_000, 500
"""The same numbers if time is short; `LEAST_PAIRS` is also that of images without augmentation."""
AGREEMENT_PAIRS = 2_000
"""Number of held-out pairs whose codes are kept to compare neighbours."""
EDGE_PAIRS = 50_000
"""Number of walks drawn: from large graphs for the rotation, and from any graph for comparing alignments."""
TABLE_NODES, TABLE_ENTRIES = 100_000, 20_000_000
"""Maximum nodes and entries of the adjacency matrix for which moments are computed exactly, over all walks."""
WALK_RIDGES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Candidates for the ridge on graphs. Leading eigenfunctions of a walk are often concentrated on a few nodes; a large
ridge avoids these: features are then the principal components of what the ends of edges share."""
WALK_EXPONENTS = (0.0, 1.0, 2.0, 4.0)
"""Candidates for t on graphs, where eigenvalues vary so much that a large t would leave a single feature."""
BATCH = 512
CONSTANT = (
    "The encoder returns the same features for every image, so there is nothing to order: give another encoder, or the "
    "weights of a trained one as encoder_weights=."
)


@torch.no_grad()
def image_evidence(
    network: Network,
    pairs: ImagePairs,
    held_pairs: ImagePairs,
    seed: int,
    source: CodeSource = "both",
    share: float = 1.0,
) -> Evidence:
    """Collect moments over views of training images and held-out images, in several passes if there are few.

    `source` is "both", or "encoder" if the projector was not trained. If time is short, `share` of the pairs are used,
    evenly spread, but at least `LEAST_PAIRS` of the training images and `LEAST_JUDGING` of the held-out ones.
    """

    def rows(x: Tensor) -> Tensor:
        features, psi = network(x)
        return code_rows(features, psi, source)

    passes, judging = _passes(len(pairs), len(held_pairs))
    fit, _ = row_moments(rows, _some(pairs, _generator(seed + 2), passes, share, LEAST_PAIRS))
    fit.reduce()  # each process has its share of the training images, and all of the held-out ones
    if source == "encoder" and not bool(fit.about(fit.mean())[0].any()):
        raise EigenmapError(CONSTANT)
    # Codes of the first pass only: further views of an image would be trivial neighbours.
    keep = min(AGREEMENT_PAIRS, len(held_pairs))
    held_out, codes = row_moments(rows, _some(held_pairs, _generator(seed + 3), judging, share, LEAST_JUDGING), keep)
    # At inference images are not augmented, and their mean differs from that of augmented views.
    mean = _plain_mean(rows, pairs, max(round(share * PLAIN_IMAGES), LEAST_PAIRS))
    width = network.projector.in_features
    return Evidence({source: fit}, {source: held_out}, {source: codes}, {source: mean}, staged=source, width=width)


def _some(pairs: ImagePairs, generator: torch.Generator, passes: int, share: float, least: int) -> Iterator[Batch]:
    """Iterate over `share` of the pairs of all passes, or `least` pairs: whole passes, or a part of the images."""
    wanted = max(share * passes * len(pairs), min(least, passes * len(pairs)))
    passes = max(1, int(wanted // len(pairs)))
    return pairs.pairs(generator, BATCH, passes, images=min(len(pairs), math.ceil(wanted / passes)))


def _passes(images: int, held_images: int) -> tuple[int, int]:
    """Return the number of passes over training images and over held-out images."""
    return max(1, min(8, ALIGNMENT_PAIRS // images)), max(1, min(32, JUDGING_PAIRS // held_images))


def pairs_to_align(images: int, held_images: int) -> int:
    """Return the number of pairs that `image_evidence` passes through the network; a plain image is half of one."""
    passes, judging = _passes(images, held_images)
    return passes * images + judging * held_images + min(images, PLAIN_IMAGES) // 2


@torch.no_grad()
def node_evidence(
    network: Network, pairs: GraphPairs, sources: Sequence[CodeSource], seed: int, ordered: bool
) -> Evidence:
    """Collect moments over walks on training edges and on held-out edges.

    On a small graph every node is evaluated once, and the moments are those of all walks; they are the same in every
    process. Without held-out edges, alignments are compared on walks over the training edges. That is right if
    the graph is all the data, and too optimistic if it is a sample. `ordered` tells whether training gave psi an order
    of its own, which is then a candidate.
    """
    small = pairs.walk.n_nodes <= TABLE_NODES and pairs.walk.n_entries <= TABLE_ENTRIES
    count = min(EDGE_PAIRS, max(10_000, 4 * pairs.walk.n_entries))
    if small:
        table = _table(network, pairs.walk.n_nodes, pairs.device)
        outputs: Outputs = lambda rows: (table[0][rows], table[1][rows])  # noqa: E731
        tables: dict[CodeSource, Tensor] = {"encoder": table[0], "projector": table[1]}
        fit: Mapping[CodeSource, Moments] = {source: all_moments(tables[source], pairs) for source in sources}
    else:
        outputs = network
        fit, _ = pair_moments(outputs, pairs.pairs(_generator(seed + 2), BATCH, count))
    judging = list(pairs.held_out_pairs(_generator(seed + 3), BATCH, count))
    held_out, codes = pair_moments(outputs, judging, AGREEMENT_PAIRS)
    if pairs.held_out is None or pairs.hops == 2:
        # Drawn walks reach the same nodes repeatedly, and copies of a node are not neighbours.
        _, once = first_of_each(torch.cat([batch.x_plus for batch in judging])[:AGREEMENT_PAIRS])
        codes = {source: (first[once], second[once]) for source, (first, second) in codes.items()}
    own: tuple[CodeSource, ...] = ("projector",) if ordered else ()
    return Evidence(fit, held_out, codes, criteria=Criteria(WALK_RIDGES, WALK_EXPONENTS, "agreement", own))


def all_moments(psi: Tensor, pairs: GraphPairs) -> Moments:
    r"""Return the moments over all walks of a graph, weighted by their probability, from psi (n, k) of all nodes.

        one hop:   R = psi^T diag(m) P psi        two hops:   R = (P psi)^T diag(m) (P psi)

    with m the measure of the centres and P their steps (`GraphPairs.transitions`). This is one sparse product and has
    no sampling noise.
    """
    m, P = pairs.transitions()
    rows = pad(unit_rms_rows(psi).double(), (0, 1), value=1.0)
    ahead = P @ rows
    arrived = P.transpose(0, 1) @ m[:, None]  # the measure of the steps

    def within(measure: Tensor) -> Tensor:
        return rows.T @ (measure.view(-1, 1) * rows)

    moments = Moments(psi.shape[1], psi.device)
    moments.within += within(m if pairs.hops == 1 else arrived)
    moments.within_plus += within(arrived)
    moments.across += (rows if pairs.hops == 1 else ahead).T @ (m[:, None] * ahead)
    moments.squares += 1 / pairs.walk.n_entries  # as many independent walks as there are entries
    return moments


def _table(network: Network, nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return both outputs of a network for all nodes."""
    parts = [network(chunk) for chunk in torch.split(torch.arange(nodes, device=device), BATCH)]
    features, psi = (torch.cat(side) for side in zip(*parts, strict=True))
    return features, psi


def row_moments(
    rows: Callable[[Tensor], Tensor], batches: Iterable[Batch], keep: int = 1
) -> tuple[Moments, tuple[Tensor, Tensor]]:
    """Return the moments of rows(x) over all pairs, and the rows of the first `keep` pairs."""
    moments: Moments | None = None
    kept: list[tuple[Tensor, Tensor]] = []
    for batch in batches:
        first, second = rows(batch.x), rows(batch.x_plus)
        moments = moments or Moments(first.shape[1], first.device)
        moments.update(first, second, batch.kernel)
        if sum(len(part) for part, _ in kept) < keep:
            kept.append((first, second))
    assert moments is not None  # there is at least one batch
    return moments, _joined(kept)


def pair_moments(
    network: Outputs, batches: Iterable[Batch], keep: int = 1
) -> tuple[dict[CodeSource, Moments], dict[CodeSource, tuple[Tensor, Tensor]]]:
    """Return the moments of both outputs over all pairs, and the codes of the first `keep` pairs."""
    moments: dict[CodeSource, Moments] = {}
    kept: dict[CodeSource, list[tuple[Tensor, Tensor]]] = {"encoder": [], "projector": []}
    for batch in batches:
        (features, psi), (features_plus, psi_plus) = network(batch.x), network(batch.x_plus)
        outputs: dict[CodeSource, tuple[Tensor, Tensor]] = {
            "encoder": (unit_rms_rows(features), unit_rms_rows(features_plus)),
            "projector": (unit_rms_rows(psi), unit_rms_rows(psi_plus)),
        }
        for source, (first, second) in outputs.items():
            if source not in moments:
                moments[source] = Moments(first.shape[1], first.device)
            moments[source].update(first, second, batch.kernel)
            if sum(len(part) for part, _ in kept[source]) < keep:
                kept[source].append((first, second))
    return moments, {source: _joined(parts) for source, parts in kept.items()}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = (torch.cat(side)[:AGREEMENT_PAIRS] for side in zip(*parts, strict=True))
    return first, second


def _plain_mean(rows: Callable[[Tensor], Tensor], pairs: ImagePairs, at_most: int) -> Tensor:
    """Return the mean of rows(x) over at most `at_most` training images without augmentation, evenly spread."""
    numbers = spread(len(pairs), at_most, pairs.store.index_device)
    sums = [
        rows(pairs.views.plain(pairs.store.take(chunk), pairs.aspects_at(chunk))).double().sum(0)
        for chunk in torch.split(numbers, BATCH)
    ]
    return torch.stack(sums).sum(0) / len(numbers)

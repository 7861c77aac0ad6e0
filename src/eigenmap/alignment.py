"""Order what a trained network says about images: collect its moments over pairs, and align both of its outputs.

`spectrum` does the mathematics; this module feeds it with training pairs, held-out pairs and the mean of plain images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from eigenmap.model import Source
from eigenmap.networks import Network
from eigenmap.relations.images import ImagePairs
from eigenmap.spectrum import Alignment, Moments, best_alignment, unit_rows

ALIGNMENT_PAIRS = 20_000
"""Pairs from which the rotation is estimated, where the data set has fewer images than that."""
JUDGING_PAIRS = 5_000
"""Held-out pairs on which it is judged."""
AGREEMENT_PAIRS = 2_000
"""Of those, as many are kept as codes, to compare neighbours."""


@torch.no_grad()
def align_outputs(
    network: Network, pairs: ImagePairs, held_pairs: ImagePairs, sources: Sequence[Source], n_components: int, seed: int
) -> dict[Source, Alignment]:
    """The alignment of each of the network's outputs: rotated on training pairs, judged on held-out images."""
    network.eval()
    passes = max(1, min(8, ALIGNMENT_PAIRS // len(pairs)))
    judging = max(1, min(32, JUDGING_PAIRS // len(held_pairs)))
    fit, _ = pair_moments(network, pairs, passes, seed + 2)
    for moments in fit.values():
        moments.reduce()  # each process saw its share of the training images; held-out images are the same for all
    held_out, codes = pair_moments(network, held_pairs, judging, seed + 3)
    # Codes are made from plain images, whose mean differs from that of their augmented views.
    mean = _plain_means(network, pairs)
    aligned = {}
    for source in sources:
        best = best_alignment(fit[source], held_out[source], codes[source], n_components=n_components)
        aligned[source] = replace(best, mean=mean[source]).to("cpu")
    return aligned


def pair_moments(
    network: Network, pairs: ImagePairs, passes: int, seed: int
) -> tuple[dict[Source, Moments], dict[Source, tuple[Tensor, Tensor]]]:
    """Moments of both outputs over all pairs, and the codes of the first few."""
    generator = torch.Generator().manual_seed(seed)
    moments: dict[Source, Moments] = {}
    kept: dict[Source, list[tuple[Tensor, Tensor]]] = {"encoder": [], "projector": []}
    for batch in pairs.pairs(generator, 512, passes):
        (features, psi), (features_plus, psi_plus) = network(batch.x), network(batch.x_plus)
        outputs: dict[Source, tuple[Tensor, Tensor]] = {
            "encoder": (unit_rows(features), unit_rows(features_plus)),
            "projector": (unit_rows(psi), unit_rows(psi_plus)),
        }
        for source, (first, second) in outputs.items():
            if source not in moments:
                moments[source] = Moments(first.shape[1], first.device)
            moments[source].update(first, second)
            # The first pass only: two views of one image among the neighbours would make agreement too easy.
            if sum(len(part) for part, _ in kept[source]) < min(AGREEMENT_PAIRS, len(pairs)):
                kept[source].append((first, second))
    return moments, {source: _joined(parts) for source, parts in kept.items()}


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    first, second = (torch.cat(side)[:AGREEMENT_PAIRS] for side in zip(*parts, strict=True))
    return first, second


def _plain_means(network: Network, pairs: ImagePairs, at_most: int = 10_000) -> dict[Source, Tensor]:
    """Mean of both outputs over plain training images, up to `at_most` of them spread over the set."""
    rows = torch.linspace(0, len(pairs) - 1, min(len(pairs), at_most), device=pairs.store.index_device).long()
    totals: dict[Source, list[Tensor]] = {"encoder": [], "projector": []}
    for chunk in torch.split(rows, 512):
        features, psi = network(pairs.views.plain(pairs.store.take(chunk)))
        totals["encoder"].append(unit_rows(features).double().sum(0))
        totals["projector"].append(unit_rows(psi).double().sum(0))
    return {source: torch.stack(parts).sum(0) / len(rows) for source, parts in totals.items()}

"""Criteria without labels for choosing a code, compared with retrieval with labels over many codes.

    python -m benchmarks.vision.transfer --set tiny80 --seed 3 --outputs OUTPUTS/tiny80-s3 ...  # GPU
    python -m benchmarks.vision.criteria OUTPUTS/tiny80-s3 --set tiny80 --json criteria-tiny80-s3.json  # CPU

For one trained network, every code of `candidates` is measured at a few lengths: by each criterion on held-out images,
which sees no label, and by mAP over found@1000 on a sample of each set (3,000 images, 1,000 queries). A criterion is
good if its rank correlation with mAP over the codes is high, and if the code it picks is near the best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common import harness
from benchmarks.vision.transfer import METRICS, TRAINED, score
from eigenmap.evaluation.relevance import Relevance
from eigenmap.evaluation.retrieval import pca
from eigenmap.spectrum import Moments, align, neighbour_agreement
from eigenmap.spectrum.staged import staged_alignment

LENGTHS = (4, 8, 16, 32, 64, 128, 512)
HEADS, LIFTS, RIDGES = (4, 6, 8, 16, 32), (1.0, 2.0), (0.1, 1.0)
EXPONENTS = (0.0, 1.0, 4.0)
TEMPERATURES = (0.05, 0.1, 0.2)
PROTOCOL = (
    "one network; criteria on two views of 2,000 held-out images; mAP over found@1000 of 1,000 queries against 3,000 "
    "images of each set, cosine"
)


@dataclass(frozen=True)
class Outputs:
    """A sample of a network's outputs, as `sample.store` writes it."""

    width: int
    fit: Moments
    held_out: Moments
    pairs: dict[str, Tensor]
    searched: dict[str, dict[str, Tensor]]

    @classmethod
    def open(cls, folder: Path) -> Outputs:
        parts = {path.stem: dict(np.load(path)) for path in sorted(folder.glob("*.npz"))}
        pairs, sums = parts.pop("pairs"), parts.pop("moments")
        return cls(
            int(pairs.pop("width")),
            _moments({name.removeprefix("fit_"): x for name, x in sums.items() if name.startswith("fit_")}),
            _moments({name.removeprefix("held_"): x for name, x in sums.items() if name.startswith("held_")}),
            {name: torch.from_numpy(x).float() for name, x in pairs.items()},
            {name: {key: _tensor(x, key) for key, x in arrays.items()} for name, arrays in parts.items()},
        )


def _tensor(x: np.ndarray, key: str) -> Tensor:
    return torch.from_numpy(x).float() if key.endswith("_x") else torch.from_numpy(x)


def _moments(sums: dict[str, np.ndarray]) -> Moments:
    found = Moments(len(sums["across"]) - 1)
    found.within, found.within_plus, found.across = (
        torch.from_numpy(sums[name]).double() for name in ("within", "within_plus", "across")
    )
    found.squares += found.within[-1, -1]  # pairs of equal weight
    return found


@dataclass(frozen=True)
class Code:
    """A linear map of both outputs, after their mean is taken away."""

    name: str
    part: slice
    matrix: Tensor
    centred: bool = True

    def __call__(self, rows: Tensor, mean: Tensor) -> Tensor:
        own = rows[:, self.part]
        return (own - mean[self.part] if self.centred else own) @ self.matrix.to(own)


def candidates(of: Outputs, trained_on: str) -> Iterator[Code]:
    """Codes to choose from."""
    encoder, projector = slice(0, of.width), slice(of.width, None)
    images = of.searched[trained_on]["gallery_x"]
    for centred in (True, False):
        components = pca(images[:, encoder], centred=centred).components
        yield Code(f"encoder PCA, {'centred' if centred else 'uncentred'}", encoder, components, centred)
    for source, part in (("encoder", encoder), ("projector", projector)):
        for ridge in (0.0, *RIDGES):
            found = align(of.fit.part(part), of.held_out.part(part), ridge)
            for t in EXPONENTS:
                yield Code(f"{source}, ridge {ridge:g}, t {t:g}", part, found.rotation * found.weights(t))
    for head in HEADS:
        for lift in LIFTS:
            staged = staged_alignment(
                of.fit, of.held_out, (of.pairs["own_x"], of.pairs["own_x_plus"]), width=of.width, head=head, lift=lift
            )
            yield Code(f"staged, head {head}, lift {lift:g}", slice(None), staged.rotation)


def infonce(x: Tensor, x_plus: Tensor) -> float:
    """Mean log-likelihood of the partner among all, at the best of a few temperatures."""
    similarity = x @ x_plus.T
    return max(float((similarity / tau).log_softmax(1).diagonal().mean()) for tau in TEMPERATURES)


def reciprocal_rank(x: Tensor, x_plus: Tensor) -> float:
    """Mean reciprocal rank of the partner."""
    similarity = x @ x_plus.T
    return float((1 / (similarity >= similarity.diagonal()[:, None]).sum(1)).mean())


def shared_with_pixels(x: Tensor, pixels: Tensor, top: int = 10) -> float:
    """Share of the nearest neighbours that are also nearest by their pixels."""
    found = [(rows @ rows.T).fill_diagonal_(-torch.inf).topk(top, dim=1).indices for rows in (x, pixels)]
    return float((found[0][:, :, None] == found[1][:, None, :]).sum((1, 2)).double().mean() / top)


def judged(code: Code, of: Outputs, d: int) -> dict[str, float]:
    """Every criterion for one code at one length."""
    own, own_plus, other, other_plus = (
        normalize(code(of.pairs[name], of.pairs[name].mean(0))[:, :d], dim=1)
        for name in ("own_x", "own_x_plus", "other_x", "other_x_plus")
    )
    pixels = normalize(of.pairs["pixels"] - of.pairs["pixels"].mean(0), dim=1)
    return {
        "agreement about neighbours": neighbour_agreement(own, own_plus),
        "partner found: MRR": reciprocal_rank(own, own_plus),
        "partner found: InfoNCE": infonce(own, own_plus),
        "partner found, other views: InfoNCE": infonce(other, other_plus),
        "partner found, other views: MRR": reciprocal_rank(other, other_plus),
        "neighbours shared with pixels": shared_with_pixels(own, pixels),
    }


@torch.no_grad()
def run(folder: Path, trained_on: str) -> dict[str, Any]:
    """Measure every candidate at every length."""
    of = Outputs.open(folder)
    mean = of.searched[trained_on]["gallery_x"].mean(0)
    rows = []
    relevance = {
        name: Relevance(part["query_y"], part["gallery_y"], torch.device("cpu")) for name, part in of.searched.items()
    }
    for code in candidates(of, trained_on):
        codes = {key: (code(part["query_x"], mean), code(part["gallery_x"], mean)) for key, part in of.searched.items()}
        full = next(iter(codes.values()))[0].shape[1]
        for d in LENGTHS:
            scores = {
                key: score(query[:, :d], gallery[:, :d], relevance[key])[METRICS[0]][0]
                for key, (query, gallery) in codes.items()
            }
            rows.append({"code": code.name, "dim": min(d, full), "criteria": judged(code, of, d), "map": scores})
    return {
        "benchmark": "criteria",
        "protocol": PROTOCOL,
        "trained_on": trained_on,
        "rows": rows,
        **harness.environment(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="OUTPUTS")
    parser.add_argument("--set", choices=TRAINED, required=True, help="set that the network was trained on")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    harness.write(given.json, run(given.folder, given.set))


if __name__ == "__main__":
    main()

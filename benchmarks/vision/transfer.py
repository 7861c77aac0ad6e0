"""Codes on what training saw and on what it never saw: train on one set, search it and every other.

    python -m benchmarks vision run 'transfer-*' --data FOLDER
    python -m benchmarks.vision.transfer --data FOLDER --set tiny80 --seed 1 --variants
    python -m benchmarks.vision.transfer --data FOLDER --set coco --seed 3 --method matryoshka-scl

Trained on: CIFAR-10, 80 of the 100 classes of Tiny-ImageNet (`tiny80`; every fifth class is held back), COCO; the
recipe of each set, 50 epochs. Searched: each of them, the 20 classes held back (`tiny20`), with images resized to what
the network takes. Gallery: all training images of the set searched; queries: its first 2,000 test images. Alignments,
PCA and means come from images of the training set alone. One JSON file per training.

HEAD, LIFT and RIDGE of `spectrum.staged` were chosen with the labels of the test queries, on the networks trained on
CIFAR-10 and COCO with seeds 0 and 1. The kinds of codes to compare were chosen after looking at all networks of these
seeds, those trained on Tiny-ImageNet included. Seeds 2 and 3 are clean confirmations.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common import harness
from benchmarks.vision import RESULTS, sets
from benchmarks.vision.jobs import Job
from benchmarks.vision.measure import Trained
from benchmarks.vision.retrieval import Checks
from benchmarks.vision.sample import sample, store
from benchmarks.vision.sets import Split
from eigenmap.evaluation.relevance import Relevance
from eigenmap.evaluation.retrieval import lengths, pca
from eigenmap.fitting import pipeline
from eigenmap.fitting.align import Evidence, align_outputs, best_output
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import CodeSource, ImageInput
from eigenmap.networks import code_rows
from eigenmap.relations.images import split_held_out
from eigenmap.spectrum import Alignment
from eigenmap.spectrum.staged import staged_alignment
from eigenmap.training import CollapseError, DivergedError, start

EPOCHS, QUERIES, TOP, DRAWS = 50, 2_000, 1_000, 3
SEARCHED = ("cifar10", "tiny80", "tiny20", "coco")
TRAINED = {"cifar10": ("cifar10", "-wide"), "tiny80": ("tiny", ""), "coco": ("coco", "")}
"""Set of each training, and the end of its methods' names: those have the views of the set's recipe."""
DEFAULT = "scl"
RATES = {DEFAULT: 0.75, "matryoshka-scl": 0.75, "paper": 0.6}
"""The default and its rivals, each at the rate that was best for it on CIFAR-10 (`docs/benchmarks.md`)."""
SEEDS = {DEFAULT: (1, 2, 3), "matryoshka-scl": (3,), "paper": (3,)}
VARIANTS = ((4, 2.0), (8, 2.0), (12, 2.0), (6, 1.5), (6, 3.0), (0, 1.0))
"""Heads and lifts beside those of the default."""
METRICS = (f"map_over_found@{TOP}", "map_over_relevant", "precision@10")
PROTOCOL = (
    "cosine, final epoch; gallery: all training images of the set searched, queries: its first 2,000 test images, "
    "resized to the network; the standard error is that over queries"
)


def load(data: Path, name: str) -> tuple[Split, Split]:
    """Gallery and test part of a set; Tiny-ImageNet comes in two, by class."""
    if not name.startswith("tiny"):
        return sets.load(data, name)
    train, test = (_of_classes(part, held_back=name == "tiny20") for part in sets.load(data, "tiny"))
    return train, test


def _of_classes(part: Split, held_back: bool) -> Split:
    kept = (part.labels % 5 == 4) == held_back
    return Split(part.images[kept], part.labels[kept])


@dataclass(frozen=True)
class Code:
    """A kind of code: a linear map of both outputs."""

    name: str
    source: CodeSource
    mean: Tensor
    rotation: Tensor

    def __call__(self, features: Tensor, psi: Tensor) -> Tensor:
        """Codes of any norm, in float32."""
        rows = code_rows(features, psi, self.source)
        return (rows - self.mean.to(rows)) @ self.rotation.to(rows)


def aligned_code(name: str, source: CodeSource, alignment: Alignment) -> Code:
    """The code of an alignment."""
    return Code(name, source, alignment.mean, alignment.rotation * alignment.weights())


def principal_codes(features: Tensor, psi: Tensor) -> Iterator[Code]:
    """Principal components of each output, centred and not, fitted on these outputs."""
    for source in ("encoder", "projector"):
        rows = code_rows(features, psi, source)  # type: ignore[arg-type]
        for centred in (True, False):
            basis = pca(rows, centred=centred)
            words = "centred" if centred else "uncentred"
            yield Code(f"{source} PCA, {words}", source, basis.mean, basis.components)  # type: ignore[arg-type]


def own_order(k: int, device: torch.device) -> Code:
    """Features of the projector as they come."""
    return Code("projector, own order", "projector", torch.zeros(k), torch.eye(k, device=device))


def random_codes(k: int, device: torch.device) -> Iterator[Code]:
    """Features of the projector in random order, a few draws."""
    for draw in range(DRAWS):
        order = torch.randperm(k, generator=torch.Generator().manual_seed(draw))
        yield Code(f"random features, draw {draw}", "projector", torch.zeros(k), torch.eye(k)[:, order].to(device))


@torch.no_grad()
def score(query: Tensor, gallery: Tensor, relevance: Relevance, block: int = 250) -> dict[str, list[float]]:
    """Mean and standard error of each metric over queries, for codes cut already."""
    query, gallery = normalize(query, dim=1), normalize(gallery, dim=1)
    parts: list[Tensor] = []
    for first in range(0, len(query), block):
        ranked = (query[first : first + block] @ gallery.T).argsort(dim=1, descending=True)
        hits = relevance.hits(first, ranked).float()
        found = hits.cumsum(1)
        gain = (found / torch.arange(1, hits.shape[1] + 1, device=hits.device) * hits).cumsum(1)
        last = min(TOP, hits.shape[1]) - 1
        parts.append(
            torch.stack(
                [
                    gain[:, last] / found[:, last].clamp(min=1),
                    gain[:, -1] / found[:, -1].clamp(min=1),
                    found[:, 9] / 10,
                ]
            )
        )
    values = torch.cat(parts, dim=1).double()
    errors = values.std(dim=1) / values.shape[1] ** 0.5
    return {
        name: [float(mean), float(error)] for name, mean, error in zip(METRICS, values.mean(1), errors, strict=True)
    }


@torch.no_grad()
def search(trained: Trained, codes: list[Code], gallery: Split, test: Split) -> dict[str, list[dict[str, Any]]]:
    """Every code at every length on one set."""
    queries = min(QUERIES, len(test))
    known, asked = (trained.outputs(part) for part in (gallery.images, test.images[:queries]))
    relevance = Relevance(test.labels[:queries], gallery.labels, known["encoder"].device)
    rows: dict[str, list[dict[str, Any]]] = {}
    for code in codes:
        of_gallery, of_query = (code(x["encoder"], x["projector"]) for x in (known, asked))
        rows[code.name] = [
            {"dim": d} | score(of_query[:, :d], of_gallery[:, :d], relevance) for d in lengths(of_query.shape[1])
        ]
    return rows


def trained_problem(job: Job, train: Split, weights: Path | None) -> tuple[Trained, Tensor, dict[str, Any]]:
    """The trained network of a job, its training rows, and what is worth storing about it."""
    recipe = job.recipe()
    rows, held = split_held_out(len(train), fraction=0.1, seed=job.seed, maximum=5_000)
    image = ImageInput(recipe.image_size or train.images.shape[-1], train.images.shape[1])
    task, options = ImageTask(recipe, train.images, rows, held, image), RunOptions(seed=job.seed, progress=Checks())
    about: dict[str, Any] = {"recipe": asdict(recipe), "images": len(rows), "held_out_images": len(held)}
    if weights is None:
        done = pipeline.train(task, options)
        problem, about["seconds_training"] = done.problem, done.result.seconds
    else:
        config = options.config(recipe, 1)
        fabric = start(config)
        problem = task.problem(fabric, config)
        state = torch.load(io.BytesIO(weights.read_bytes()), weights_only=True, map_location="cpu")
        problem.network.load_state_dict(state)
        problem.network.to(fabric.device)
    problem.network.eval()
    return Trained(problem, recipe.n_components), rows, about


def variants(evidence: Evidence, components: int) -> Iterator[Code]:
    """Staged codes with other heads and lifts."""
    fit, held_out, codes, mean = evidence.of("both")
    for head, lift in VARIANTS:
        found = staged_alignment(
            fit, held_out, codes, width=evidence.width, n_components=components, head=head, lift=lift
        )
        assert mean is not None
        yield Code(f"staged, head {head}, lift {lift:g}", "both", mean, found.rotation)


def other_order(evidence: Evidence, components: int) -> Code:
    """Return the default with its features ordered by the shared variance of the code itself, not of the encoder."""
    fit, held_out, codes, mean = evidence.of("both")
    found = staged_alignment(fit, held_out, codes, width=evidence.width, n_components=components, order="code")
    assert mean is not None
    return Code("staged, ordered by the code", "both", mean, found.rotation)


def run(
    name: str,
    seed: int,
    data: Path,
    weights: Path | None = None,
    components: int = 2048,
    others: bool = False,
    method: str = DEFAULT,
    outputs: Path | None = None,
) -> dict[str, Any]:
    """Train on a set (or take trained weights), and search all of them; with `others` by staged variants too.

    `outputs` is a folder for a sample of the network's outputs.
    """
    on, ending = TRAINED[name]
    job = Job(on, method + ending, RATES[method], EPOCHS, seed, components)
    train, _ = load(data, name)
    result = {"benchmark": "transfer", "protocol": PROTOCOL, "trained_on": name, "method": job.method, "seed": seed}
    try:
        trained, rows, about = trained_problem(job, train, weights)
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error), **harness.environment()}
    evidence = trained.evidence
    began = time.perf_counter()
    landed = align_outputs(evidence, ("encoder", "projector"), components)
    seconds = {"before": time.perf_counter() - began}
    began = time.perf_counter()
    staged = align_outputs(evidence, ("both",), components)["both"]
    seconds["staged"] = time.perf_counter() - began
    source, _ = best_output(landed, 0, print)
    if outputs is not None:
        held = torch.ones(len(train), dtype=torch.bool).index_fill_(0, rows.cpu(), False)
        store(sample(trained, evidence, train.images[held], {other: load(data, other) for other in SEARCHED}), outputs)
    own = trained.outputs(train.images[rows[:10_000]])
    codes = [
        aligned_code("staged", "both", staged),
        other_order(evidence, components),
        *(aligned_code(f"{of} aligned", of, alignment) for of, alignment in landed.items()),
        own_order(components, own["encoder"].device),
        *principal_codes(own["encoder"], own["projector"]),
        *random_codes(components, own["encoder"].device),
        *(variants(evidence, components) if others else ()),
    ]
    return {
        **result,
        **about,
        "before": source,
        "alignment_seconds": seconds,
        "staged": {"head": staged.head, "eigenvalues": staged.eigenvalues[:64].tolist(), "recall": staged.recall},
        "searched": {other: search(trained, codes, *load(data, other)) for other in SEARCHED},
        **harness.environment(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
    parser.add_argument("--set", choices=TRAINED, required=True)
    parser.add_argument("--method", choices=RATES, default=DEFAULT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", type=Path, help="a trained network's state, in place of training")
    parser.add_argument("--variants", action="store_true", help="search by other heads and lifts too")
    parser.add_argument("--outputs", type=Path, help="folder for a sample of the network's outputs (sample.py)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    result = run(
        *(given.set, given.seed, given.data, given.weights),
        others=given.variants,
        method=given.method,
        outputs=given.outputs,
    )
    harness.write(given.results / f"{result_name(given.set, given.seed, given.method)}.json", result)


def result_name(name: str, seed: int, method: str = DEFAULT) -> str:
    """Name of the result of a training on the set `name`."""
    return f"transfer-{name}-s{seed}" if method == DEFAULT else f"transfer-{name}-{method}-s{seed}"


if __name__ == "__main__":
    main()

"""Jobs and pages of the study of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS, ROOT
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.paper import RESULTS
from benchmarks.vision import RESULTS as VISION
from benchmarks.vision.jobs import Job as VisionJob

SIDE_BY_SIDE = 4
SECONDS = 45.0
"""Seconds of a whole GPU for 50 epochs of SCL on CIFAR-10."""
START = 30.0
OURS = ROOT / "src" / "eigenmap" / "reproduce" / "ours.json"
CIFAR, HERE = ("cifar10.npz",), ("--data", "{data}", "--results", "{results}")
UNORDERED = (VisionJob("coco", "paper-unordered", 0.3, 50), VisionJob("tiny", "paper-unordered", 0.3, 50))
"""Curves without stop-gradient that are missing in the vision study."""


def jobs(place: Place) -> Iterator[Job]:
    """Every run of every item, most valuable first."""
    stored = Stored(VISION, RESULTS, place.results)
    yield from table_1_jobs(place, stored)
    yield from retrieval_jobs(place, stored)
    yield from graph_jobs(place, stored)
    yield from probe_jobs(place, stored)
    yield from detection_jobs(place, stored)
    yield from other_jobs(place, stored)


def table_1_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """Yield one seed of each method first; SimCLR, SCL and Barlow Twins share their runs with the vision study."""
    from benchmarks.paper import table_1
    from benchmarks.vision.study import words_of

    for run in table_1.every():
        words = (*HERE, "--method", run.method, "--seed", str(run.seed))
        seconds = START + SECONDS * table_1.METHODS[run.method].cost * place.side_by_side
        yield Job(run.name, "paper.table_1", words, seconds, "table-1", CIFAR, gpu=True, done=stored.has(run.name))
    for run in (run for runs in table_1.SHARED.values() for run in runs):
        if not stored.has(run.name):
            seconds = 2 * START + SECONDS * place.side_by_side
            yield Job(run.name, "vision.retrieval", words_of(run), seconds, "table-1", CIFAR, gpu=True)


def retrieval_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """The curve without stop-gradient on COCO and Tiny-ImageNet, and the variant with few features."""
    from benchmarks.paper import small_k
    from benchmarks.vision.study import words_of

    for run in UNORDERED:
        needs = tuple(f"{name}.npz" for name in (run.data, run.set.transfer) if name is not None)
        seconds = 2 * START + 1.2 * SECONDS * place.side_by_side
        if not stored.has(run.name):
            yield Job(run.name, "vision.retrieval", words_of(run), seconds, "figure-retrieval", needs, gpu=True)
    name = small_k.NAME.format(seed=0)
    seconds = 2 * START + 3 * SECONDS * place.side_by_side
    words = (*HERE, "--seed", "0")
    yield Job(name, "paper.small_k", words, seconds, "figure-retrieval", CIFAR, gpu=True, done=stored.has(name))


def graph_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """Table 6 on our five graphs: four rivals; two runs on node blocks and one of the default, each probed 30 times."""
    from benchmarks.graphs.jobs import SETS
    from benchmarks.paper import nodes

    for graph in SETS:
        name = nodes.NAME.format(graph=graph, seed=0)
        words = (*HERE, "--graph", graph, "--seed", "0")
        seconds = START + 60.0 + 25.0 * place.side_by_side
        needs = (f"{graph}.npz",)
        yield Job(name, "paper.nodes", words, seconds, "table-6", needs, gpu=True, done=stored.has(name))


def probe_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """Tables 4, 2 and 3; a run with equal settings in another study counts as done."""
    from benchmarks.paper import probes, table_1

    elsewhere = {run.name for run in table_1.every()}  # to be run there
    for run, item in probes.every().items():
        wide = {4096: 1.4, 8192: 2.2}.get(run.n_components, 1.0) * (1.3 if run.batch_size < 512 else 1.0)
        seconds = START + SECONDS * run.epochs / 50 * wide * place.side_by_side
        done = stored.has(run.name)
        if not done and (probes.stored_result(run, stored) is not None or elsewhere & set(run.others)):
            continue
        yield Job(run.name, "paper.probes", (*HERE, *run.words()), seconds, item, CIFAR, gpu=True, done=done)


def detection_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """Table 5: each initialisation is pre-trained and fine-tuned."""
    from benchmarks.paper import detection
    from eigenmap.reproduce.table_5 import TITLES

    for method in TITLES:
        name = detection.NAME.format(method=method, seed=0)
        words = (*HERE, "--method", method, "--seed", "0")
        training = 0.0 if method == "random" else 0.5 * SECONDS
        seconds = START + 90.0 + (training + 5.0) * place.side_by_side  # fine-tuning waits for the processor
        yield Job(name, "paper.detection", words, seconds, "table-5", ("tiny.npz",), gpu=True, done=stored.has(name))


def other_jobs(place: Place, stored: Stored) -> Iterator[Job]:
    """The cost of inference, which is timed, the pictures, and the Gaussian kernel."""
    from benchmarks.paper import cost, gaussian, pictures

    words = ("--results", "{results}", "--device", "{device}")
    yield Job(cost.NAME, "paper.cost", words, 60.0, "test-cost", gpu=True, alone=True, done=stored.has(cost.NAME))
    words = (*HERE, "--figures", "{results}/figures")
    yield Job(
        *(pictures.NAME, "paper.pictures", words, START + 30.0 + SECONDS * place.side_by_side, "figures", CIFAR),
        gpu=True,
        done=stored.has(pictures.NAME),
    )
    for seed in gaussian.SEEDS:
        name = gaussian.NAME.format(seed=seed)
        words = ("--results", "{results}", "--seed", str(seed))
        yield Job(name, "paper.gaussian", words, 60.0, "figures", done=stored.has(name))


def pages() -> Iterator[tuple[Path, str]]:
    """docs/paper.md, and our results for `eigenmap reproduce --list`."""
    from benchmarks.paper import ours, page

    yield DOCS / "paper.md", page.page(RESULTS)
    yield OURS, ours.text(RESULTS)

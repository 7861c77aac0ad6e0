"""Search among real codes, and among a million and ten million like them: speed, recall, bytes, memory.

    python -m benchmarks.search.measure catalogue codes.npz
    python -m benchmarks.search.measure speed codes.npz --name cifar10 --items real --work DIR
    python -m benchmarks.search.measure speed codes.npz --name cifar10 --items 1000000 --work DIR --ways "funnel" "int8"
    python -m benchmarks.search.measure quality codes.npz --name cifar10
    python -m benchmarks.search.measure rankings codes.npz --name cifar10
    python -m benchmarks.search.measure large codes.npz --name cifar10 --items 10000000 --work DIR

`codes.npz` contains `gallery`, `queries`, `gallery_labels`, `query_labels` and `eigenvalues`. Every figure is written
to a JSON file in `results/`; existing ones are not measured again, so an interrupted run continues. Each way is
measured in a separate process, with the exact search at full length before and after it, so that ratios come from one
run. `catalogue` trains a model on the embedded catalogue and makes such a file from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import harness
from benchmarks.common.codes import Codes, Floats, Mixture, unit
from benchmarks.common.timing import status_bytes
from benchmarks.search import RESULTS
from benchmarks.search.ways import DATABASE, NAMES, TOP, Ids, recall, ways

QUERIES, TUNE = 1000, 100
SECONDS = 0.5
"""Duration of each measurement."""
Result = dict[str, Any]


def result_file(args: argparse.Namespace, part: str) -> Path:
    folder: Path = args.folder
    return folder / f"search-{args.name}-{part}.json"


def stored(file: Path) -> Result:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": {}}


def add_row(file: Path, name: str, row: Result, protocol: Result) -> None:
    """Add one measurement to a result file, with its provenance."""
    result = stored(file)
    result["rows"][name] = row | harness.environment()
    harness.write(file, result | {"protocol": protocol})


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of threads for faiss and for matrix products."""
    import faiss
    from threadpoolctl import threadpool_limits

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    with threadpool_limits(count):
        yield
    faiss.omp_set_num_threads(before)


def cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


def queries_per_second(search: Callable[[Floats], Any], queries: Floats, batch: int) -> float:
    """Queries answered in about `SECONDS`, `batch` at a time."""
    search(queries[: min(batch, 10)])  # creates what is cached between searches
    done, began = 0, time.perf_counter()
    while not done or time.perf_counter() - began < SECONDS:
        start = done % max(1, len(queries) - batch + 1)
        search(queries[start : start + batch])
        done += batch
    return done / (time.perf_counter() - began)


def exact(rows: Floats) -> Callable[[Floats], Ids]:
    """Return the exact search at full length, the reference of ratios: faiss on one matrix of unit vectors."""
    import faiss

    return lambda queries: faiss.knn(unit(queries), rows, TOP, metric=faiss.METRIC_INNER_PRODUCT)[1]


@dataclass(frozen=True)
class Task:
    """Stored items, queries and true results; settings are chosen on the stored items in `tune`."""

    gallery: Floats
    queries: Floats
    truth: Ids
    tune: Ids
    tune_truth: Ids


def task(codes: Path, items: str, work: Path) -> Task:
    """Return real or drawn codes, with the truth; each array is stored in `work` as soon as it exists."""
    work.mkdir(parents=True, exist_ok=True)

    def kept(name: str, make: Callable[[], Any]) -> Any:
        file = work / f"{codes.stem}-{items}-{name}.npy"
        if not file.exists():
            partial = file.with_suffix(".partial.npy")
            np.save(partial, make())
            partial.replace(file)
        return np.load(file)

    def drawn() -> Mixture:
        return Mixture.fit(Codes.load(codes).gallery)

    if items == "real":
        gallery = kept("gallery", lambda: Codes.load(codes).gallery)
        queries = kept("queries", lambda: Codes.load(codes).queries[:QUERIES])
    else:
        gallery = kept("gallery", lambda: drawn().items(int(float(items))))
        queries = kept("queries", lambda: drawn().queries(QUERIES))
    tune = kept("tune", lambda: np.sort(np.random.default_rng(3).permutation(len(gallery))[:TUNE]))
    with threads(cores()):
        truth = kept("truth", lambda: exact(unit(gallery))(queries))
        tune_truth = kept("tune_truth", lambda: exact(unit(gallery))(gallery[tune]))
    return Task(gallery, queries, truth, tune, tune_truth)


def measure(way_name: str, of: Task, postgres: str | None) -> Result:
    """Build one way and measure it, with the exact search before and after it."""
    gallery, queries = of.gallery, of.queries
    baseline = exact(unit(gallery))
    with threads(cores()):
        way, before = ways(postgres)[way_name](), status_bytes("RssAnon")
        began = time.perf_counter()
        way.build(gallery, lambda line: print(f"  {way_name}: {line}", flush=True))
        built = time.perf_counter() - began
        memory = status_bytes("RssAnon") - before
        print(f"  {way_name}: built in {built:.0f} s", flush=True)
        way.tune(gallery[of.tune], of.tune_truth)
        print(f"  {way_name}: {way.setting}", flush=True)
        found = way.search(queries)
    speeds: Result = {}
    for count in sorted({1, cores()}):
        with threads(count):
            for mode, batch in (("batch", 100), ("single", 1)):
                first = queries_per_second(baseline, queries, batch)
                own = queries_per_second(way.search, queries, batch)
                last = queries_per_second(baseline, queries, batch)
                speeds[f"{mode}, {count} threads"] = {"queries_per_second": own, "exact": (first + last) / 2}
    return {
        "setting": way.setting,
        "recall@10": recall(found, of.truth),
        "bytes_per_item": way.bytes_per_item,
        "build_seconds": built,
        "memory_bytes": memory,
        "items": len(gallery),
        "speeds": speeds,
    }


def catalogue(args: argparse.Namespace) -> None:
    """Train on the embedded catalogue, and store the codes of its training images and queries."""
    from eigenmap import fit_images
    from eigenmap.data.images import catalogue

    gallery, queries = catalogue.load("train"), catalogue.load("query")
    model = fit_images(gallery, steps=args.steps, seed=0, device="cpu")
    parts = {"gallery": gallery, "queries": queries}
    arrays = {name: model.encode(images.pixels).astype(np.float16) for name, images in parts.items()}
    labels = {"gallery_labels": gallery.labels, "query_labels": queries.labels}
    arrays |= {name: one.matrix.int().argmax(1).numpy() for name, one in labels.items() if one is not None}
    np.savez(args.codes, **arrays, eigenvalues=model.eigenvalues_)


def speed(args: argparse.Namespace) -> None:
    file = result_file(args, args.items)
    if args.one is not None:
        of = task(args.codes, args.items, args.work)
        row = measure(args.one, of, args.postgres)
        protocol = {
            "features": of.gallery.shape[1],
            "queries": len(of.queries),
            "batch": 100,
            "recall": "share of the exact full-length top 10, of queries that chose nothing",
            "chosen": f"on {TUNE} stored items: the least effort with recall 0.99",
        }
        add_row(file, args.one, row, protocol)
        print(json.dumps(row, indent=1))
        return
    for name in args.ways or NAMES:
        if name in stored(file)["rows"]:
            print(f"{name}: already measured")
            continue
        words = [sys.executable, "-m", "benchmarks.search.measure", "speed", str(args.codes), "--name", args.name]
        words += ["--items", args.items, "--work", str(args.work), "--folder", str(args.folder), "--one", name]
        with database(args.postgres) if name in DATABASE else nullcontext(None) as url:
            if subprocess.run([*words, *(["--postgres", url] if url else [])], check=False).returncode:
                print(f"{name}: failed")


def database(given: str | None) -> AbstractContextManager[str]:
    """Return the given database, or start one."""
    from benchmarks.scale.postgres import end_on_sigterm, server

    end_on_sigterm()
    return server() if given is None else nullcontext(given)


def quality(args: argparse.Namespace) -> None:
    from benchmarks.search.quality import BYTES, METHODS, full_quality, mean_average_precision

    file, codes = result_file(args, "quality"), Codes.load(args.codes, args.queries)
    protocol = {
        "gallery": len(codes.gallery),
        "queries": len(codes.queries),
        "features": codes.gallery.shape[1],
        "t": codes.t,
        "metric": "mAP over the top 100 and 1,000; queries are not compressed",
    }
    if "full length, float32" not in stored(file)["rows"]:
        add_row(file, "full length, float32", full_quality(codes), protocol)
    for name, method in METHODS.items():
        for n_bytes in BYTES:
            if (key := f"{name}, {n_bytes} bytes") not in stored(file)["rows"]:
                row = mean_average_precision(codes, *method(codes, n_bytes))
                add_row(file, key, {"method": name, "bytes": n_bytes, **row}, protocol)
                print(key, row, flush=True)


def rankings(args: argparse.Namespace) -> None:
    from benchmarks.search.rankings import BYTES, compared, ranked, scores

    file, codes = result_file(args, "rankings"), Codes.load(args.codes)
    full = ranked(codes, None)["cosine"]
    truth = full[:, :TOP]
    protocol = {
        "gallery": len(codes.gallery),
        "queries": len(codes.queries),
        "features": codes.gallery.shape[1],
        "metric": "of the same bytes ranked both ways; error: standard error of the gain over the queries",
        "full": {name: float(one.mean()) for name, one in scores(codes, full, truth).items()},
    }
    for n_bytes in BYTES:
        if (key := f"{n_bytes} bytes") not in stored(file)["rows"]:
            row = compared(codes, n_bytes, truth)
            add_row(file, key, {"bytes": n_bytes, **row}, protocol)
            print(key, row, flush=True)


def large(args: argparse.Namespace) -> None:
    from benchmarks.search.large import fill, measure_large

    mixture = Mixture.fit(Codes.load(args.codes).gallery)
    path = args.work / f"{args.name}-{args.items}.index"
    if not fill(path, mixture, int(float(args.items)), args.seconds):
        print("not full yet: run the same command again")
        return
    row = measure_large(path, mixture.queries(20), args.memory_mb * 2**20)
    protocol = {"precision": "float16", "features": mixture.means.shape[1], "queries": 20}
    add_row(result_file(args, "large"), f"{args.items} items, {args.memory_mb} MiB", row, protocol)
    print(json.dumps(row, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb, run in (
        ("catalogue", catalogue),
        ("speed", speed),
        ("quality", quality),
        ("rankings", rankings),
        ("large", large),
    ):
        one = verbs.add_parser(verb)
        one.set_defaults(run=run)
        one.add_argument("codes", type=Path)
        if verb == "catalogue":
            one.add_argument("--steps", type=int, default=450)
            continue
        one.add_argument("--name", required=True, help="name of the data set; part of the result's name")
        one.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
        if verb == "speed":
            one.add_argument("--items", default="real", help='"real", or the number to draw')
            one.add_argument("--work", type=Path, required=True, help="folder for intermediate vectors and the truth")
            one.add_argument("--ways", nargs="*", help="default: all that have not been measured")
            one.add_argument("--one", help=argparse.SUPPRESS)
            one.add_argument("--postgres", help="database for the row of pgvector; by default one is started")
        if verb == "quality":
            one.add_argument("--queries", type=int, default=5000)
        if verb == "large":
            one.add_argument("--items", default="10000000")
            one.add_argument("--work", type=Path, required=True, help="folder for the index, which is large")
            one.add_argument("--memory-mb", type=int, default=512)
            one.add_argument("--seconds", type=float, default=240, help="stop filling after this many seconds")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()

r"""The missing rows of the study on a lent machine: vectors on its GPU first, then one process per task.

    python -m benchmarks.vectors.packed pack PACK ...                                # here, see README.md; carry PACK
    python -m benchmarks.vectors.lent run PACK --results R --cores 12 --gpu 2 --seconds 1200       # there
    python -m benchmarks.vectors.lent merge R                                        # here, once R is back

A task is some rows of one result. Trained heads run on the GPU, `--gpu` of them side by side (0: on the CPU, with
several threads each); everything else on one core. Each row is written to R as soon as it is measured, rows that R or
the repository has of the same texts are not repeated, and R/results.tar.gz always contains all that there is. Tasks
that are likely to take longer than the time left are not started, and those that run at the end are stopped. A second
call goes on with the rest. `merge` puts the rows into the results of the repository; a result of other pairs or texts
is only replaced by one with all of its rows. Packages that the machine lacks, cca-zoo say, can be in PACK/python.zip.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import harness
from benchmarks.common.archive import archived
from benchmarks.common.sharing import shared_gpu
from benchmarks.vectors import RESULTS, paired, sets, translated, unlabelled, upgrade, variants
from benchmarks.vectors.rows import Row, require_same_texts, with_origin
from benchmarks.vectors.study import PAIRED, UNLABELLED

PAUSE = 0.5
THREADS = 4
"""Threads of a trained head if there is no GPU for it."""
BESIDE = 2
"""Threads of a trained head on the GPU, for the closed form that it starts from."""
SLOWER = 20
"""Time of a trained head on the CPU, relative to a shared GPU."""
PLAIN = ("prefix", "pca", "cca", "one-space", "two-spaces")
"""Methods of translations that take seconds."""


@dataclass(frozen=True)
class Task:
    """Some rows of one result."""

    name: str
    """Name of the result."""
    module: str
    words: tuple[str, ...]
    methods: tuple[str, ...]
    seconds: float
    gpu: bool = False
    protocol: tuple[tuple[str, int], ...] = ()
    """Counts that a stored result must have for its rows to be valid."""
    texts: str | None = None
    """Digest of the texts."""
    current: Callable[[Row], bool] = field(default=lambda row: True, compare=False)
    """Whether a stored row is of the settings that the task has."""

    @property
    def file(self) -> str:
        """Name of the file of its rows."""
        return f"{self.name}.{re.sub('[^a-z0-9]+', '-', self.methods[0])}.json"

    def command(self, data: Path, results: Path) -> list[str]:
        """Return the command that measures the rows."""
        separator = ";" if self.module == "variants" else ","
        where = ["--data", str(data), "--json", str(results / self.file), "--methods", separator.join(self.methods)]
        return [sys.executable, "-m", f"benchmarks.vectors.{self.module}", *where, *self.words]


def tasks(data: Path) -> Iterator[Task]:
    """Yield all tasks whose vectors are there, most valuable first."""
    order = (
        *_paired(data, TRAINED, "minilm"),
        *_translated(data, ("german", "japanese", "french")),
        *_paired(data, TRAINED, "wordllama"),
        *_upgrade(data),
        *_paired(data, [method for method in paired.ALL_PAIRS if method not in TRAINED], "minilm"),
        *_paired(data, [method for method in paired.ALL_PAIRS if method not in TRAINED], "wordllama"),
        *(each for each in _unlabelled(data) if not each.name.endswith("s0")),
        *(each for each in _unlabelled(data) if each.name.endswith("s0")),
        *_variants(data),
    )
    yield from order


TRAINED = ("neural", "matryoshka", "csr")
SECONDS = {"neural": 60.0, "csr": 40.0, "matryoshka": 90.0}
"""Time beside seven others on an H200; the first is that of the head and of the closed form."""


def _paired(data: Path, methods: Sequence[str], model: str) -> Iterator[Task]:
    settings = variants.best(json.loads((RESULTS / "variants.json").read_text())["rows"])
    for method, seed, name in product(methods, sets.SEEDS, [name for name, one in PAIRED if one == model]):
        if count := _rows(data, name, "left", model):
            yield Task(
                f"paired-{name}-{model}-s{seed}",
                "paired",
                ("--set", name, "--model", model, "--seed", str(seed), "--neural", json.dumps(settings)),
                (method,),
                SECONDS.get(method, 20.0),
                method in TRAINED,
                (("pairs", count - sets.TEST), ("test", sets.TEST)),
                sets.texts(data, name),
                paired.of_settings(settings),
            )


def _translated(data: Path, names: Sequence[str]) -> Iterator[Task]:
    groups = ((PLAIN, 60.0), (("neural",), 200.0), (("deep-cca",), 200.0))
    assert {method for group, _ in groups for method in group} == set(translated.METHODS)
    for (methods, seconds), seed, name in product(groups, sets.SEEDS, names):
        if count := _rows(data, name, "left", "minilm"):
            test = translated.SETS[name]
            words = ("--set", name, "--seed", str(seed), "--test", str(test))
            counts = (("pairs", count - test), ("test", test))
            texts = sets.texts(data, name)
            yield Task(f"translated-{name}-s{seed}", "translated", words, methods, seconds, False, counts, texts)


def _upgrade(data: Path) -> Iterator[Task]:
    for seed in sets.SEEDS:
        if _rows(data, "debian", "left", "minilm") and _rows(data, "debian", "left", "wordllama"):
            words, texts = ("--seed", str(seed)), sets.texts(data, "debian")
            yield Task(f"upgrade-s{seed}", "upgrade", words, upgrade.METHODS, 120.0, gpu=True, texts=texts)


def _unlabelled(data: Path) -> Iterator[Task]:
    for (name, model), seed in product(UNLABELLED, sets.SEEDS):
        side = "documents" if name in ("cisi", "dbpedia") else "right"
        count, other = (_rows(data, name, side, one) for one in (model, unlabelled.SECOND[model]))
        if count and other:
            documents = count if side == "documents" else min(unlabelled.DOCUMENTS, count - sets.TEST)
            words = ("--set", name, "--model", model, "--seed", str(seed))
            job, counts = f"unlabelled-{name}-{model}-s{seed}", (("documents", documents),)
            texts = sets.texts(data, name)
            yield Task(job, "unlabelled", words, unlabelled.METHODS, 100.0, protocol=counts, texts=texts)


def _variants(data: Path) -> Iterator[Task]:
    if all(_rows(data, name, "left", "minilm") for name in variants.SETS):
        texts = variants.texts(data, variants.SETS)
        for name in variants.VARIANTS:
            yield Task("variants", "variants", ("--side-by-side", "2"), (name,), 90.0, gpu=True, texts=texts)


def _rows(data: Path, name: str, side: str, model: str) -> int:
    """Return the number of vectors of one side of a set; 0 if there are none."""
    file = data / name / f"{side}.{model}.npy"
    return len(np.load(file, mmap_mode="r")) if file.is_file() else 0


def missing(task: Task, results: Path, again: Sequence[str] = ()) -> bool:
    """Tell whether some row of a task is neither in `results` nor among the results of the repository."""
    new = _read(results / task.file)
    there = {row["method"] for row in new.get("rows", []) if task.current(row)}
    old = _read(RESULTS / f"{task.name}.json")
    if all(old.get("protocol", {}).get(name) == count for name, count in task.protocol):
        kept = of_texts(old.get("rows", []), task.texts, counted=bool(task.protocol))
        there |= {row["method"] for row in kept if row["method"] not in again and task.current(row)}
    return not there.issuperset(task.methods)


def of_texts(rows: Iterable[Row], texts: str | None, counted: bool) -> list[Row]:
    """Return rows of these texts; those of unknown texts belong to them if the numbers of pairs are equal."""
    return [row for row in rows if texts is None or row.get("texts", texts if counted else None) == texts]


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def run(given: argparse.Namespace) -> int:
    """Embed the packs, then run the missing tasks within the time."""
    began = time.monotonic()
    results: Path = given.results
    data: Path = given.data or results / "data"
    results.mkdir(parents=True, exist_ok=True)
    say = _Log(results / "lent.log", began)
    for pack in given.packs:
        if not (data / f"{pack.name}.done").is_file():
            words = [sys.executable, "-m", "benchmarks.vectors.packed", "embed", str(pack), "--out", str(data)]
            with (results / "embed.log").open("ab") as log:
                code = subprocess.run(words, stdout=log, stderr=log, env=_environment(data, 1, gpu=True)).returncode
            say(f"embedded {pack}" if code == 0 else f"FAILED to embed {pack}: see {results / 'embed.log'}")
            if code:
                return 1
            (data / f"{pack.name}.done").write_text("")
        if (pack / "python.zip").is_file() and not (data / "python").is_dir():
            with zipfile.ZipFile(pack / "python.zip") as archive:
                archive.extractall(data / "python")
    again = given.again.split(",") if given.again else []
    waiting = [task for task in tasks(data) if missing(task, results, again)]
    if given.only:
        waiting = [task for task in waiting if re.search(given.only, task.file)]
    say(f"{len(waiting)} tasks")
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # stops the tasks too
    try:
        with archived(results, results / "results.tar.gz"), shared_gpu() if given.gpu else nullcontext() as shared:
            say("the GPU is shared" if shared else "no service shares the GPU")
            failed = _sweep(waiting, data, given, began, say)
    finally:
        signal.signal(signal.SIGTERM, before)
    say(f"ended; {len(failed)} failed" + "".join(f", {name}" for name in failed))
    return 0


class _Log:
    """Lines with seconds, on the screen and in a file."""

    def __init__(self, file: Path, began: float) -> None:
        self.file, self.began = file, began

    def __call__(self, line: str) -> None:
        line = f"{time.monotonic() - self.began:6.0f} s  {line}"
        print(line, flush=True)
        with self.file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


def _sweep(waiting: list[Task], data: Path, given: argparse.Namespace, began: float, say: _Log) -> list[str]:
    """Run tasks side by side while there is time, and return the files of those that failed."""
    running: dict[Task, tuple[subprocess.Popen[bytes], float]] = {}
    failed: list[str] = []
    try:
        while waiting or running:
            for task in [task for task, (process, _) in running.items() if process.poll() is not None]:
                process, started = running.pop(task)
                taken = f"{task.file} after {time.monotonic() - started:.0f} s"
                say(f"done   {taken}" if process.returncode == 0 else f"FAILED {taken}")
                failed += [task.file] if process.returncode else []
            left = given.seconds - (time.monotonic() - began)
            if left <= 0:
                say(f"out of time: {len(running)} stopped, {len(waiting)} not started")
                return failed
            for task in list(waiting):
                cores, seconds, gpu = _needs(task, given)
                busy = sum(_needs(one, given)[0] for one in running)
                if busy + cores > given.cores or seconds > left:
                    continue
                if gpu and sum(_needs(one, given)[2] for one in running) >= given.gpu:
                    continue
                waiting.remove(task)
                with (given.results / task.file).with_suffix(".log").open("wb") as log:
                    words, env = task.command(data, given.results), _environment(data, cores, gpu)
                    process = subprocess.Popen(words, stdout=log, stderr=log, env=env, start_new_session=True)
                    running[task] = process, time.monotonic()
                say(f"start  {task.file}{' on the GPU' if gpu else ''}")
            if not running:
                say(f"too little time for the other {len(waiting)}")
                return failed
            time.sleep(PAUSE)
        return failed
    finally:
        for process, _ in running.values():
            os.killpg(process.pid, signal.SIGKILL)  # its own processes too
            process.wait()


def _needs(task: Task, given: argparse.Namespace) -> tuple[int, float, bool]:
    """Return the cores, the likely seconds, and whether it runs on the GPU."""
    if task.gpu and not given.gpu:
        return min(THREADS, given.cores), task.seconds * SLOWER, False
    return BESIDE if task.gpu else 1, task.seconds, task.gpu


def _environment(data: Path, threads: int, gpu: bool) -> Mapping[str, str]:
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(data / "python")])
    made = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    return made if gpu else {**made, "CUDA_VISIBLE_DEVICES": ""}


def merge(given: argparse.Namespace) -> int:
    """Put new rows into the results of the repository."""
    files: dict[str, list[Path]] = {}
    for file in sorted(given.results.glob("*.*.json")):
        files.setdefault(file.name.partition(".")[0], []).append(file)
    for name, parts in files.items():
        there, new = given.into / f"{name}.json", _read(parts[-1])
        rows = {row["method"]: row for file in parts for row in with_origin(_read(file)["rows"], file)}
        require_same_texts(rows.values(), there)
        texts = next((row["texts"] for row in rows.values() if "texts" in row), None)
        counted = any(isinstance(new["protocol"].get(word), int) for word in ("pairs", "documents"))
        same = of_texts(harness.stored_rows(there, new["protocol"]), texts, counted)
        kept = {row["method"]: row for row in with_origin(same, there)}
        lost = [row["method"] for row in _read(there).get("rows", []) if row["method"] not in {**kept, **rows}]
        if lost:
            print(f"{name}: NOT MERGED, since rows of other pairs or texts would be lost: {', '.join(lost)}")
            continue
        harness.write(there, {**new, "rows": list((kept | rows).values())})
        print(f"{name}: {', '.join(rows)} (beside {len(kept.keys() - rows.keys())} rows)")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = made.add_subparsers(required=True)
    running = verbs.add_parser("run", help="embed packs and run the missing tasks")
    running.add_argument("packs", type=Path, nargs="*", metavar="PACK", help="none if their vectors are there")
    running.add_argument("--results", type=Path, required=True)
    running.add_argument("--data", type=Path, help="folder of vectors (default: RESULTS/data)")
    running.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    running.add_argument("--gpu", type=int, default=0, help="heads that are trained on the GPU at a time (default: 0)")
    running.add_argument("--seconds", type=float, default=1200.0)
    running.add_argument("--again", help="rows of codes from pairs to repeat, separated by commas")
    running.add_argument("--only", help="regular expression of the files to write")
    running.set_defaults(verb=run)
    merging = verbs.add_parser("merge", help="put new rows into the results of the repository")
    merging.add_argument("results", type=Path)
    merging.add_argument("--into", type=Path, default=RESULTS)
    merging.set_defaults(verb=merge)
    return made


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    code: int = given.verb(given)
    return code


if __name__ == "__main__":
    sys.exit(main())

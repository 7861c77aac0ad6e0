"""The study of reliability: its page names failures first, and its experiments notice faults."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.plan import Stored
from benchmarks.reliability import database, growth, reachable, tables
from benchmarks.reliability.busy import lateness
from benchmarks.reliability.checking import Bench
from benchmarks.reliability.children import Ended
from benchmarks.reliability.clients import Asker
from benchmarks.reliability.commands import run_content, timeless
from benchmarks.reliability.outcome import Outcome
from benchmarks.reliability.steady import Work, history_bytes, judge, slope_of
from eigenmap import Eigenmap, EigenmapError, fit_images
from eigenmap.description import WEIGHTS
from eigenmap.saved import WAITING
from tests.end_to_end.photos import pictures

ROOT = Path(__file__).parents[3]


def stored(tmp_path: Path, **results: dict[str, Any]) -> Stored:
    common = {"commit": "abc", "device": "cpu", "cores": 2, "protocol": {"seed": 0}}
    for name, result in results.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(common | result))
    return Stored(tmp_path)


def test_failures_come_first_and_what_was_not_run_is_said(tmp_path: Path) -> None:
    bad = {"rounds": 2, "counts": {"good": 1, "bad": 1}, "failed": 1, "failures": ["it was torn"]}
    page = tables.page(stored(tmp_path, **{"kills-embed": bad}))
    assert page.index("`kills-embed` (commit abc): it was torn") < page.index("## Kills")
    assert "| embed | 2 | 1 | 1 |" in page and "| fit images | not run |" in page
    good = {"rounds": 5, "counts": {"good": 5}, "failed": 0, "failures": []}
    assert "None in 5 rounds of 1 experiments" in tables.page(stored(tmp_path, **{"kills-embed": good}))


def test_memory_that_grows_and_files_that_stay_open_are_failures() -> None:
    seconds = np.arange(0, 1800, 5.0)
    noise = np.random.default_rng(0).normal(0, 2e5, len(seconds))
    found = Outcome()
    answers, none = 20 * seconds, np.zeros(len(seconds))
    seven, resident = np.full(len(seconds), 7), np.full(len(seconds), 2e8)

    def judged(role: str, files: Any, done: Any, taken: Any, blocks: Any) -> None:
        judge(role, np.stack([seconds, resident, files, done, taken, blocks], 1), found)

    judged("steady", seven, answers, 1e8 + noise, 1e5 + noise / 100)
    assert found.failures == []
    judged("leaking", 7 + seconds // 300, answers, 1e8 + 5e3 * seconds + noise, 1e5 + 10 * seconds)
    grows, keeps, stays_open = found.failures
    assert "bytes per operation" in grows and "0.5 blocks" in keeps and "open files" in stays_open
    assert found.measured["leaking"]["bytes_per_operation"] == pytest.approx(250, rel=0.05)
    judged("idle", seven, none, 1e8 + noise, 1e5 + noise / 100)
    assert "did nothing" in found.failures[-1]
    slope, low, high = slope_of(seconds, 1e8 + 5e3 * seconds + noise)
    assert low < 5e3 < high and slope == pytest.approx(5e3, rel=0.05)


def test_growth_per_answer_is_a_failure_and_noise_is_not() -> None:
    answers = np.arange(0, 10_000, 100.0)
    noise = np.random.default_rng(0).normal(0, 2e4, len(answers))
    rest = [np.full(len(answers), value) for value in (2e8, 3e7, 14)]
    for each, words in ((0.0, []), (100.0, ["99.6 bytes"]), (1.0, [])):
        found = Outcome()
        growth.judge(np.stack([answers, 1e8 + each * answers + noise, 1e5 + noise / 100, *rest], 1), found)
        assert [word in failure for word, failure in zip(words, found.failures, strict=True)] == [True] * len(words)
        assert found.measured["answers"] == 4900
    found = Outcome()
    growth.judge(np.empty((0, 6)), found)
    assert "only 0 samples" in found.failures[0]


def test_a_late_command_is_a_failure_unless_reading_took_long() -> None:
    run = {"training_seconds": 30.0, "ordering_seconds": 15.0}
    assert lateness(run | {"command_seconds": 60.0}, 60) == []
    run["ordering_seconds"] = 5.0
    assert lateness(run | {"command_seconds": 76.0}, 60) == []  # 41 s of imports and reading: eleven more than half
    assert "took 67 s" in lateness({"training_seconds": 30.0, "ordering_seconds": 25.0, "command_seconds": 67.0}, 60)[0]
    assert len(lateness({"training_seconds": 70.0, "ordering_seconds": 0.0, "command_seconds": 75.0}, 60)) == 2


class Broken(Bench):
    """A bench whose content is given, and whose command is never run."""

    def __init__(self, left: dict[str, str], place: Path) -> None:
        self.before, self.wanted, self.left, self.place = {"a": "old"}, {"a": "new"}, left, place
        self.words: tuple[object, ...] = ()
        self.command = type("Command", (), {"repeatable": True, "again": (), "name": "broken"})()

    def content(self) -> dict[str, str]:
        return self.left


@pytest.mark.parametrize(
    ("left", "hidden", "words"),
    [({"a": "half"}, False, "neither"), ({"a": "old"}, False, "another result"), ({"a": "new"}, True, "left behind")],
)
def test_what_a_fault_may_not_leave_is_named(
    left: dict[str, str], hidden: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.reliability.checking.eigenmap", lambda *_: Ended(0, ""))
    if hidden:
        (tmp_path / ".leftover").touch()
    assert any(words in fault for fault in Broken(left, tmp_path).faults())
    assert list(Broken({"a": "new"}, tmp_path / "clean").faults()) == []


def test_clocks_are_left_out_and_nothing_else() -> None:
    about = {"seconds": 1, "training": [{"images_per_second": 2, "loss": 3}], "finished": "now"}
    assert timeless(about) == {"training": [{"loss": 3}]}


def test_the_history_of_training_is_known(tmp_path: Path) -> None:
    work, file = Work(tmp_path, Outcome()), tmp_path / "run" / "metrics.jsonl"
    assert work.done("training") == work.done("appending") == work.done("serving") == (0, 0)
    file.parent.mkdir()
    line = '{"step": 50, "eigenvalues": [0.5, 0.25]}\n'
    file.write_text(line + '{"step": 10')
    steps, size = work.done("training")
    assert steps == 50 and size == history_bytes(json.loads(line)) > 200
    file.write_text(line + '{"step": 100}\n')
    assert work.done("training") == (100, size + history_bytes({"step": 100})) == work.done("training")


MEASURED = """
from benchmarks.reliability.reachable import sizes
read = [sizes()]
kept = [bytearray(30_000_000), [object() for _ in range(50_000)]]
read.append(sizes())
kept.clear()
read.append(sizes())
print(read)
"""


def test_what_a_process_can_reach_is_measured() -> None:
    """A large block counts, and so do small objects, until they are released; measured in a process of its own."""
    printed = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, cwd=ROOT)
    (taken, blocks), (more, others), (again, fewer) = ast.literal_eval(printed.stdout)
    assert 29e6 < more - taken < 40e6 and 49_000 < others - blocks < 60_000
    assert abs(again - taken) < 3e6 and abs(fewer - blocks) < 5_000


def test_sizes_are_read_from_the_file_of_a_process(tmp_path: Path) -> None:
    assert reachable.read(tmp_path / "sizes") == (0, 0)
    (tmp_path / "sizes").write_text("12 34")
    assert reachable.read(tmp_path / "sizes") == (12, 34)


def test_weights_that_a_killed_save_left_beside_their_place_are_read(tmp_path: Path) -> None:
    small = {"steps": 1, "batch_size": 16, "hidden": 8, "device": "cpu", "progress": False}
    fit_images(pictures(30), 4, out=tmp_path / "run", **small)
    whole = run_content(tmp_path)
    (tmp_path / "run" / WEIGHTS).rename(tmp_path / "run" / WAITING)
    assert run_content(tmp_path) == whole and Eigenmap.load(tmp_path / "run").n_components == 4


def test_requests_repeat_from_their_seed() -> None:
    def some(seed: int) -> list[Any]:
        asker = Asker(seed, ["a.png", "b.png"], [b"1", b"2"])
        return [asker.request() for _ in range(50)] + [asker.upload()]

    assert some(3) == some(3) != some(4)
    assert {request.operation for request in some(3)} >= {"/api/search", "/api/search/image", "/api/images/{key}"}


class Table:
    """A table in memory that refuses every change whose turn it is, after making a part of it."""

    def __init__(self, torn: bool) -> None:
        self.items: dict[str, Any] = {}
        self.torn, self.turn = torn, 0

    def upsert(self, codes: Any, names: list[str]) -> None:
        self.turn += 1
        if self.turn % 3 == 0:
            if self.torn:
                self.items[names[0]] = codes[0]
            raise EigenmapError("the connection to the database was lost")
        self.items.update(zip(names, codes, strict=True))

    def delete(self, names: list[str]) -> None:
        for name in names:
            del self.items[name]

    def search(self, codes: Any, top: int, where: object) -> Any:
        return type("Results", (), {"ids": [["item 0"]]})()

    def close(self) -> None: ...


@pytest.mark.parametrize("torn", [False, True])
def test_a_change_that_was_made_in_part_is_found(torn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found, enough, table = Outcome(), threading.Event(), Table(torn)
    enough.set()
    client = database.Client("", 0, 0, np.eye(database.ITEMS), [["item 0"]] * database.ITEMS, found, threading.Lock())
    monkeypatch.setattr(client, "_open", lambda: table)
    monkeypatch.setattr(client, "_content", lambda: dict(table.items))
    client.work(60, enough)
    client.compare()
    assert found.counts["change refused"] > 3 and found.rounds == 60
    assert bool(found.failures) == torn and all("in part" in failure for failure in found.failures)

"""The generic plan and sweep, with processes that do nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.common import plan, sweep
from benchmarks.common.errors import BenchmarkError
from benchmarks.common.plan import Job, Place, Stored, chosen, listing, planned
from benchmarks.scale import study

CODE = {"good": "pass", "bad": "print('why'); raise SystemExit(3)", "slow": "import time; time.sleep(60)"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Jobs are the programs above, by their modules."""
    monkeypatch.setattr(plan.Job, "command", lambda self, *_: [sys.executable, "-c", CODE[self.module]])
    monkeypatch.setattr(sweep, "PAUSE", 0.01)
    return Place(tmp_path / "results", tmp_path, side_by_side=2)


def run(jobs: list[Job], place: Place, seconds: float = 600.0) -> tuple[list[str], list[str]]:
    said: list[str] = []
    return sweep.sweep(lambda: jobs, place, seconds, say=said.append), said


def test_a_sweep_runs_what_fits_and_has_its_data(place: Place) -> None:
    jobs = [
        Job("a", "good"),
        Job("long", "good", seconds=10_000),
        Job("absent", "good", needs=("set.npz",)),
        Job("early", "good", waits_for="its rate"),
        Job("stored", "bad", done=True),
        Job("b", "bad"),
    ]
    failed, said = run(jobs, place)
    assert failed == ["b"]
    assert said[0] == f"1 job is left out for lack of set.npz: {place.data}/set.npz does not exist"
    log = place.results / "b.log"
    assert sorted(said[1:]) == ["FAILED b: see " + str(log), "done   a", "start  a", "start  b"]
    assert log.read_text() == "why\n"


def test_a_sweep_ends_in_time(place: Place) -> None:
    job = Job("late", "slow", seconds=float("-inf"))  # begun, however late it is
    assert run([job], place, seconds=0)[1] == ["start  late", "out of time: late"]


def test_a_job_that_can_pause_may_take_longer_and_continues_in_the_next_sweep(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Job("long", "pause", ("{until}",), seconds=10_000, pausable=True)
    began = time.time()
    monkeypatch.setitem(CODE, "pause", "import sys; sys.exit(75)")
    for _ in range(2):
        assert run([long], place) == ([], ["start  long", "paused long"])
    assert run([long], place, seconds=sweep.PACKING)[1] == []  # it could not keep anything
    monkeypatch.undo()
    asked = replace(place, until=began + 600 - sweep.PACKING)
    assert float(long.command(asked)[-1]) == began + 600 - sweep.PACKING
    assert float(long.command(place)[-1]) == math.inf


def test_jobs_are_told_when_to_pause(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def command(job: Job, place: Place, *_: object) -> list[str]:
        asked.append(place.until)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(plan.Job, "command", command)
    began = time.time()
    run([Job("long", "good", pausable=True)], place, seconds=600)
    assert began + 600 - sweep.PACKING <= asked[0] <= time.time() + 600 - sweep.PACKING


def test_nothing_runs_beside_a_job_that_is_timed(place: Place) -> None:
    timed, first, second = Job("timed", "good", alone=True), Job("first", "good"), Job("second", "good")

    def begin(jobs: list[Job], running: list[Job]) -> list[str]:
        return [job.name for job in sweep.fitting(jobs, running, set(), place, 600)]

    assert begin([timed, first, second], []) == ["timed"]
    assert begin([first, timed, second], []) == ["first", "second"]
    assert begin([timed], [first]) == begin([first], [timed]) == []
    assert run([first, timed, second], place)[1][-2:] == ["start  timed", "done   timed"]


def test_a_job_for_a_gpu_is_left_out_without_one(place: Place) -> None:
    on_cpu = Place(place.results, place.data, "cpu")
    assert run([Job("a", "good", gpu=True)], on_cpu)[1] == ["1 job is left out for lack of a GPU"]


def test_a_result_tells_which_jobs_come_next(place: Place) -> None:
    begun: list[str] = []

    def jobs() -> Iterator[Job]:
        yield Job("first", "good", done="first" in begun)
        if "first" in begun:
            yield Job("second", "good")

    def say(line: str) -> None:
        begun.extend(line.split()[1:] if line.startswith("start") else [])

    sweep.sweep(jobs, place, 600, say=say)
    assert begun == ["first", "second"]


def test_jobs_find_the_benchmarks_and_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("PYTHONPATH", "src")
    made = sweep.environment(4)
    assert made["OMP_NUM_THREADS"] == "2" and made["PYTHONPATH"].endswith(":src")
    assert (Path(made["PYTHONPATH"].split(":")[0]) / "benchmarks" / "__main__.py").is_file()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert sweep.environment(4)["OMP_NUM_THREADS"] == "1"


def test_stored_results_are_found_in_every_folder(tmp_path: Path) -> None:
    for folder, name, text in (("a", "one", '{"rows": [{"x": 1}]}'), ("b", "two", "{}"), ("b", "one", '{"rows": []}')):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.json").write_text(text)
    stored = Stored(tmp_path / "a", tmp_path / "b", tmp_path / "none")
    assert stored.has("one") and stored.has("two") and not stored.has("three")
    assert stored.read("three") is None and stored.rows("three") == stored.rows("one") == []
    assert Stored(tmp_path / "a").rows("one") == [{"x": 1}]


def test_a_run_of_two_stages_belongs_to_the_first() -> None:
    stages = {"a": lambda done: [1, 2], "b": lambda done: [2, 3, done]}
    assert planned(stages, 9) == {1: "a", 2: "a", 3: "b", 9: "b"}
    assert planned(stages, 9, "b") == {2: "b", 3: "b", 9: "b"}


def test_jobs_are_chosen_by_name_and_stage() -> None:
    jobs = [Job("cost-cora", "x", stage="cost"), Job("cora-gcn", "x", stage="rivals"), Job("physics-gcn", "x")]

    def names(*given: str, stage: str = "all") -> list[str]:
        return [job.name for job in chosen(jobs, given, stage)]

    assert names() == [job.name for job in jobs] and names(stage="cost") == ["cost-cora"]
    assert names("*gcn", "cost-cora") == [job.name for job in jobs] and names("cora-???") == ["cora-gcn"]
    with pytest.raises(BenchmarkError, match=r"no job 'cost-coro'\. Did you mean cost-cora"):
        names("cost-coro")
    with pytest.raises(BenchmarkError, match="no job 'cora-gcn'"):
        names("cora-gcn", stage="cost")
    with pytest.raises(BenchmarkError, match="no stage 'costs': choose one of all, cost, rivals"):
        names(stage="costs")


def test_a_list_adds_up_seconds_of_the_machine() -> None:
    jobs = [Job("a", "x", seconds=100), Job("b", "x", seconds=50, alone=True), Job("c", "x", seconds=7, done=True)]
    lines = listing([*jobs, Job("d", "x", seconds=30, waits_for="its rate")], Place(Path(), side_by_side=2))
    assert [line.split()[0] for line in lines] == ["50", "50", "4", "15", "115"]
    assert lines[2].endswith("(done)") and lines[3].endswith("(waits for its rate)")
    assert lines[4].endswith("s of the machine in all, 2 jobs side by side")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "run"], "no study 'nothing': choose one of catalogue, "),
        (["scale", "run", "embeding"], "no job 'embeding'. Did you mean embedding?"),
        (["scale", "missing", "--stage", "all of it"], "no stage 'all of it'"),
        (["scale", "run", "--data", "no-such-folder"], "--data no-such-folder"),
        (["scale", "run", "--side-by-side", "0"], "--side-by-side must be at least 1, not 0"),
        (["scale", "run", "--again"], "--again needs the names of jobs"),
        (
            ["scale", "run", "postgres-coco-200k", "--again"],
            "needs codes-coco.npz in the folder --data",
        ),
        (["eigenfunctions", "run", "kernel-cost-cuda", "--again", "--device", "cpu"], "kernel-cost-cuda needs a GPU"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == "" and said in error and error.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["vision"], ["vision", "walk"], ["vision", "run", "--speed", "fast"]])
def test_a_wrong_command_line_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2 and "usage: python -m benchmarks" in capsys.readouterr().err


def test_help_lists_the_studies(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    said = capsys.readouterr().out
    assert stopped.value.code == 0 and "catalogue       Codes of the embedded catalogue" in said and "examples:" in said


def test_a_finished_job_is_repeated_only_if_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "jobs", lambda place: [Job("a", "good", done=True), Job("b", "bad")])
    words = ["scale", "run", "a", "--results", str(place.results)]
    assert main(words) == 0
    assert capsys.readouterr().out == "a has its result: --again repeats finished jobs\n"
    assert main([*words, "--again"]) == 0
    assert capsys.readouterr().out == "start  a\ndone   a\n"
    assert main(["scale", "run", "--results", str(place.results)]) == 1
    assert capsys.readouterr().out == "start  b\nFAILED b\n"

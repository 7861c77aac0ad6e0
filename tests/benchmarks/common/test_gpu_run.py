"""The order and the time of parts that run one after another."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.__main__ import load, parser
from benchmarks.common import gpu_run
from benchmarks.common.gpu_run import PARTS, Part
from benchmarks.common.plan import Place
from benchmarks.vision.jobs import Job


def test_every_part_is_a_command_with_the_options_it_is_given(tmp_path: Path) -> None:
    for name, part in PARTS.items():
        words = gpu_run.words_of(f"{name}:all" if part.sweeps else name, tmp_path, tmp_path, 100)
        assert words[1] == "-m" and not any("{" in word for word in words)
        if words[2] == "benchmarks":
            rest = words[3 : words.index("--")] if "--" in words else words[3:]
            given = parser().parse_args(rest)
            known = {job.name for job in load(given.study).jobs(Place(tmp_path))}
            assert given.verb == "run" and set(given.jobs) <= known and given.results == tmp_path / given.study
            assert given.again == bool(given.jobs)
        else:
            text = inspect.getsource(importlib.import_module(words[2]))
            assert all(f'"{word}"' in text for word in words[3:] if word.startswith("--"))


def test_a_sweep_leaves_time_to_what_follows() -> None:
    sweep, short = Part("a", 60, sweeps=True), Part("b", 100)
    assert gpu_run.share(sweep, [], 500) == 500
    assert gpu_run.share(sweep, [short], 500) == 400
    assert gpu_run.share(sweep, [short, sweep], 500) == 200
    assert gpu_run.share(short, [sweep], 500) == 500


def test_sweeps_share_the_card_and_timed_parts_do_not(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (scripts / "good.py").write_text("import os; print(os.environ.get('SHARED'))")
    parts = {"timed": Part("good", 1), "sweep": Part("good", 1, sweeps=True)}

    @contextmanager
    def service() -> Iterator[bool]:
        with monkeypatch.context() as during:
            during.setenv("SHARED", "yes")
            yield True

    monkeypatch.setattr(gpu_run, "PARTS", parts)
    monkeypatch.setattr(gpu_run, "shared_gpu", service)
    assert [each.code for each in gpu_run.run(list(parts), scripts, scripts / "out", 60)] == [0, 0]
    said = {name: (scripts / "out" / f"{name}.txt").read_text().strip() for name in parts}
    assert said == {"timed": "None", "sweep": "yes"}


def test_a_part_out_of_time_is_killed_with_its_processes(tmp_path: Path) -> None:
    child = f"import subprocess, sys; subprocess.run(['sh', '-c', 'sleep 2; touch {tmp_path / 'survived'}'])"
    assert gpu_run.finished([sys.executable, "-c", child], tmp_path / "said.txt", 0.5) == 124
    time.sleep(2.5)
    assert not (tmp_path / "survived").exists()


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two scripts in the place of the benchmarks: one that works, one that fails."""
    (tmp_path / "good.py").write_text("print('a warning'); print('fine')")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu_run, "PARTS", {"good": Part("good", 1), "bad": Part("bad", 1), "long": Part("good", 1e6)})
    return tmp_path


def test_a_part_that_fails_or_has_no_time_does_not_stop_the_others(scripts: Path) -> None:
    done = list(gpu_run.run(["bad", "long", "good"], scripts, scripts / "out", 60))
    assert [(each.name, each.code) for each in done] == [("bad", 3), ("long", None), ("good", 0)]
    assert str(done[1]) == "long: left out, no time" and str(done[0]).endswith("ended with 3")
    assert gpu_run.told(scripts / "out" / "good.txt", 5) == ["fine"]


def test_the_command_says_what_was_found(
    scripts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (scripts / "good.py").write_text(
        "import json, pathlib\n"
        f"folder = pathlib.Path({str(scripts / 'out' / 'vision')!r})\n"
        "folder.mkdir()\n"
        f"(folder / 'run.json').write_text(json.dumps({json.loads(RESULT)!r}))"
    )
    words = ["good", "--data", str(scripts), "--out", str(scripts / "out"), "--archive", str(scripts / "all.tar.gz")]
    monkeypatch.setattr(sys, "argv", ["gpu_run.py", *words])
    with pytest.raises(SystemExit) as stopped:
        gpu_run.main()
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    (found,) = [line for line in said.splitlines() if line.startswith("cifar10 scl")]
    assert "test 0.800" in found and "10+2 s" in found and found.endswith(" 0.500 0.600")
    assert "PCA" not in found
    with tarfile.open(scripts / "all.tar.gz") as archive:
        assert set(archive.getnames()) == {"good.txt", "vision/run.json"}


RESULT = json.dumps(
    {
        "job": asdict(Job("cifar10", "scl", 0.75, 50)),
        "history": [{"images_per_second": 1000.0}],
        "seconds_training": 10.0,
        "seconds_measuring": 2.0,
        "knn_test": 0.8,
        "chosen_source": "encoder",
        "alignment": {"encoder": {"t": 4.0, "ridge": 0.0, "quality": 0.8}},
        "retrieval": {
            "encoder PCA centred": [{"map_over_found@1000": 0.4}],
            "encoder aligned": [{"map_over_found@1000": 0.5}, {"map_over_found@1000": 0.6}],
        },
    }
)

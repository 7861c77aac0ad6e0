"""The order and the time of parts that run one after another."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
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


def test_a_sweep_shares_the_card_only_where_the_service_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_run, "SERVICE", "no-such-program")
    with gpu_run.multi_process_service() as service:
        assert service == {}
    service_calls = tmp_path / "calls"
    program = tmp_path / "service"
    program.write_text(f'#!/bin/sh\necho "start $1" >> {service_calls}\n[ -n "$1" ] || cat >> {service_calls}\n')
    program.chmod(0o755)
    monkeypatch.setattr(gpu_run, "SERVICE", str(program))
    for code, works in (
        ("import os, sys; sys.exit('CUDA_MPS_PIPE_DIRECTORY' not in os.environ)", True),
        ("1/0", False),
    ):
        monkeypatch.setattr(gpu_run, "FIRST_CONTEXT", code)
        with gpu_run.multi_process_service() as service:
            assert set(service) == ({"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"} if works else set())
    # Started and told to end, both times.
    assert service_calls.read_text().split() == ["start", "-d", "start", "quit"] * 2
    assert "is used" in capsys.readouterr().out


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
    monkeypatch.setattr(sys, "argv", ["gpu_run.py", "good", "--data", str(scripts), "--out", str(scripts / "out")])
    with pytest.raises(SystemExit) as stopped:
        gpu_run.main()
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    (found,) = [line for line in said.splitlines() if line.startswith("cifar10 scl")]
    assert "test 0.800" in found and "10+2 s" in found and found.endswith(" 0.500 0.600")
    assert "PCA" not in found


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

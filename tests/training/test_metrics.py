from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.training.metrics import MetricsFile, Record, Window, finite, read


def record(step: int) -> Record:
    return Record(step=step, loss=-float(step), monitor={"knn": 0.5, "undefined": None}, eigenvalues=[0.9, 0.8])


def test_resuming_drops_later_lines_and_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path)
    for step in (1, 2, 3):
        metrics.write(record(step))
    with path.open("a") as file:
        file.write('{"step": 4, "lo')
    resumed = MetricsFile(path, resume_step=2)
    resumed.write(record(3))
    assert read(path) == resumed.history == [record(1), record(2), record(3)]
    assert len(path.read_text().splitlines()) == 3
    assert MetricsFile(path).history == [] and path.read_text() == ""  # started over


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(EigenmapError, match=r"metrics\.jsonl.*damaged"):
        MetricsFile(path, resume_step=3)


def test_lines_after_a_checkpoint_that_a_power_cut_damaged_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path)
    for step in (1, 2, 3, 4):
        metrics.write(record(step))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], bytes(len(lines[2])), *lines[3:]]))
    with pytest.raises(EigenmapError, match=r"metrics\.jsonl.*damaged.*4"):
        MetricsFile(path, resume_step=4)
    assert MetricsFile(path, resume_step=2).history == [record(1), record(2)]


def test_without_a_path_only_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    metrics = MetricsFile(None)
    metrics.write(record(1))
    metrics.close()
    assert metrics.history == [record(1)] and list(tmp_path.iterdir()) == []


def test_tensorboard_gets_flat_numbers_and_forgets_what_a_resume_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: Path, purge_step: int) -> None:
            calls.append((folder.name, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            calls.append((name, value, step))

        def close(self) -> None:
            calls.append("closed")

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    metrics = MetricsFile(tmp_path / "metrics.jsonl", resume_step=10, tensorboard=True)
    metrics.write(record(11))
    metrics.close()
    assert calls == [
        ("tensorboard", 11),
        ("loss", -11.0, 11),
        ("monitor/knn", 0.5, 11),
        ("eigenvalues/1", 0.9, 11),
        ("eigenvalues/2", 0.8, 11),
        "closed",
    ]


def test_tensorboard_that_is_not_installed_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(EigenmapError, match=r"pip install 'eigenmap\[tensorboard\]'"):
        MetricsFile(tmp_path / "metrics.jsonl", tensorboard=True)


def test_a_window_gives_mean_loss_largest_norm_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    window = Window(seconds=5.0)
    for loss, norm in ((1.0, 7.0), (3.0, 2.0)):
        window.add(torch.tensor(loss), torch.tensor(norm), images=30)
    now[0] += 3.0
    expected = Record(step=2, loss=2.0, lr=0.1, gradient_norm=7.0, images_per_second=20.0, seconds=8.0)
    assert window.read(step=2, rate=0.1) == expected
    now[0] += 100.0  # a check
    window.clear()
    window.add(torch.tensor(5.0), torch.tensor(1.0), images=30)
    now[0] += 1.0
    after = window.read(step=3, rate=0.1)
    assert (after["loss"], after["images_per_second"], after["seconds"]) == (5.0, 30.0, 109.0)


def test_values_that_are_not_finite_become_null() -> None:
    assert finite({"a": 1, "b": float("inf"), "c": float("nan")}) == {"a": 1.0, "b": None, "c": None}


def test_a_line_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.path = Path("/dev/full")
    with pytest.raises(EigenmapError, match=r"/dev/full.*No space left.*resume"):
        metrics.write(record(1))

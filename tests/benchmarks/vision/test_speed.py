"""The measurements of speed run, and measure the same thing."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.vision import speed, speed_tables
from eigenmap.objectives import build


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    setting = speed.Setting("small-cnn", 8, 4, 4, repeat=1)
    monkeypatch.setitem(speed.PRESETS, "cifar", setting)
    monkeypatch.setattr(speed, "LARGE_BATCH", 8)
    yield


def test_the_papers_objective_written_out_is_ours() -> None:
    torch.manual_seed(0)
    psi, psi_plus = (torch.randn(20, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours, written = build("neuralef")(psi, psi_plus), speed.two_products(psi, psi_plus)
    assert ours.item() == pytest.approx(written.item(), rel=1e-10)
    for mine, theirs in zip(
        torch.autograd.grad(ours, (psi, psi_plus)), torch.autograd.grad(written, (psi, psi_plus)), strict=True
    ):
        assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_one_run_measures_everything_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def transform(image: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255

    monkeypatch.setattr(speed, "usual_transform", lambda size: transform)
    out = tmp_path / "speed-test.json"
    words = ["--modes", "eager", "--accumulate", "2", "--loader", "--workers", "0", "--objectives", "--widths", "4"]
    monkeypatch.setattr("sys.argv", ["speed.py", *words, "--json", str(out)])
    speed.main()
    result = json.loads(out.read_text())
    assert result["settings"]["encoder"] == "small-cnn"
    assert result["rows"][0]["share"] > 0 and not result["rows"][0]["compiled"]
    assert (result["accumulated"]["batch_size"], result["accumulated"]["chunks"]) == (8, 2)
    assert result["loader"]["images_per_second"] > 0
    assert [row["objective"] for row in result["objectives"]] == [
        "the paper's, written out",
        "neuralef (ours)",
        "neuralef-gram (ours)",
        "scl (ours)",
    ]
    assert "batch 8 in 2 exact chunks" in capsys.readouterr().out


def test_without_torchvision_the_loader_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("torchvision"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert speed.usual_transform(32) is None
    assert speed.measure_loader(speed.PRESETS["cifar"], None, 0) == {"not_run": "torchvision not installed"}


def test_the_largest_batch_that_fits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bench:
        def __init__(self, setting: speed.Setting) -> None:
            self.batch_size = setting.batch_size

        def step(self, step: int) -> None:
            if self.batch_size > 300:
                raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(speed, "Bench", Bench)
    assert speed.largest_batch(speed.PRESETS["imagenet"]) == 256
    monkeypatch.setattr(speed, "BATCHES", (1024, 512))
    with pytest.raises(SystemExit, match="Not even a batch of 512 fits"):
        speed.largest_batch(speed.PRESETS["imagenet"])


def test_what_is_timed_meets_no_batch_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[int] = set()
    new: list[set[int]] = []

    class Bench(speed.Bench):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            batch = self.pairs.batch

            def noted(step: int, rows: slice = slice(None)) -> Any:
                made.add(step)
                return batch(step, rows)

            monkeypatch.setattr(self.pairs, "batch", noted)

    def seconds(work: Any, device: torch.device, repeat: int, warmup: int = speed.WARM_UP) -> float:
        before = set(made)
        took = real(work, device, repeat, warmup)
        new.append(made - before)
        return took

    real = speed.seconds
    monkeypatch.setattr(speed, "Bench", Bench)
    monkeypatch.setattr(speed, "seconds", seconds)
    setting = speed.Setting("small-cnn", size=8, components=4, batch_size=4, repeat=3)
    found = speed.measure(setting, compiled=False)
    assert set(found["seconds"]) == {"limit", "full step", *speed_tables.PARTS}
    assert made >= set(range(speed.WARM_UP + setting.repeat + 1))
    assert new == [set()] * 5

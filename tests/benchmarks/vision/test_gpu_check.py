from __future__ import annotations

import sys
from functools import partial

import lightning_fabric.wrappers  # noqa: F401  (replaces torch.compile by its own: before the fixture keeps it)
import pytest
import torch

from benchmarks.vision import gpu_check

CPU = torch.device("cpu")


@pytest.fixture
def compiled_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))


@pytest.mark.usefixtures("compiled_eagerly")
def test_the_same_views_are_not_apart() -> None:
    ((name, apart, allowed),) = gpu_check.check_views(8, ["cifar"], CPU)
    assert name == "views cifar, 8 pixels" and apart <= allowed


@pytest.mark.usefixtures("compiled_eagerly")
def test_the_same_steps_are_not_apart() -> None:
    found = list(gpu_check.check_steps(8, ["32-true"], CPU, steps=2))
    words = "small stem, 8 pixels, 32-true"
    names = [
        f"{what}, {words}{crops}"
        for crops in ("", ", 2 small crops")
        for what in ("first loss", "mean loss of 2 steps")
    ]
    assert [name for name, *_ in found] == names
    assert all(apart <= allowed for _, apart, allowed in found)


@pytest.mark.usefixtures("compiled_eagerly")
def test_gradients_of_objectives_as_training_computes_them() -> None:
    cases = list(gpu_check.check_objectives(CPU, ["scl", "nested"], k=4))
    assert [name for name, *_ in cases] == ["gradient of scl, k = 4", "gradient of nested, k = 4"]
    assert all(apart <= allowed for _, apart, allowed in cases)


def test_what_is_not_a_number_is_infinitely_far_apart() -> None:
    a = torch.tensor([1.0, 2.0])
    assert gpu_check._apart(a, torch.tensor([1.0, 2.5])) == 0.5
    assert gpu_check._apart(a, torch.tensor([1.0, torch.nan])) == float("inf")


@pytest.mark.parametrize(
    ("options", "sizes", "views", "precisions"),
    [
        ([], (32,), ("cifar", "barlow_twins"), ("bf16-mixed",)),
        (["--sizes", "48", "--views", "weak"], [48], ["weak"], ("bf16-mixed",)),
        (["--all"], (32, 96), gpu_check.VIEWS, ("32-true", "bf16-mixed")),
    ],
)
def test_every_case_is_compiled_afresh_and_one_that_is_wrong_counts(
    options: list[str],
    sizes: list[int],
    views: list[str],
    precisions: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, resets = [], []
    monkeypatch.setattr(gpu_check, "cases", lambda *given: asked.append(given) or [("a", 0.0, 0.1), ("b", 0.2, 0.1)])
    monkeypatch.setattr(gpu_check, "check_objectives", lambda device: [("gradient", 0.0, 0.1)])
    monkeypatch.setattr(torch._dynamo, "reset", lambda: resets.append(1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", *options])
    with pytest.raises(SystemExit) as stopped:
        gpu_check.main()
    assert stopped.value.code == 1 and len(resets) == 3
    assert asked == [(sizes, views, precisions, torch.device("cuda"))]
    said = capsys.readouterr().out.splitlines()
    assert said == ["ok    gradient: 0 apart", "ok    a: 0 apart", "WRONG b: 0.2 apart"]
    monkeypatch.setattr(sys, "argv", ["gpu_check.py", "--objectives"])
    with pytest.raises(SystemExit) as stopped:
        gpu_check.main()
    assert not stopped.value.code and capsys.readouterr().out.splitlines() == ["ok    gradient: 0 apart"]

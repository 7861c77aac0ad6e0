from __future__ import annotations

from functools import partial

import pytest
import torch

import gpu_check


def test_the_same_views_are_not_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    monkeypatch.setattr(gpu_check, "RECIPES", ("cifar",))
    ((name, apart, allowed),) = gpu_check.check_views(8, torch.device("cpu"))
    assert name == "views cifar, 8 pixels" and apart <= allowed


def test_what_is_not_a_number_is_infinitely_far_apart() -> None:
    a = torch.tensor([1.0, 2.0])
    assert gpu_check._apart(a, torch.tensor([1.0, 2.5])) == 0.5
    assert gpu_check._apart(a, torch.tensor([1.0, torch.nan])) == float("inf")

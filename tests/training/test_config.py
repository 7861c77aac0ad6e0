from __future__ import annotations

from typing import Any

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import TrainingConfig


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("steps", 0, "1"),
        ("optimizer", "adam", "adamw, sgd, lars"),
        ("lr", 0.0, "above 0"),
        ("lr", float("nan"), "a finite number"),
        ("weight_decay", -1.0, "0"),
        ("momentum", 1.0, r"in \[0, 1\)"),
        ("warmup_steps", 11, "10"),
        ("final_lr_fraction", 1.5, r"in \[0, 1\]"),
        ("lr", float("inf"), "a finite number"),
        ("weight_decay", float("inf"), "a finite number"),
        ("weight_decay", "small", "a finite number"),
        ("steps", 1.5, "1"),
        ("devices", "2", "1"),
        ("clip_norm", -1.0, "0"),
        ("projector_lr_scale", -1.0, "above 0"),
        ("precision", "16-mixed", "32-true, bf16-mixed"),
        ("seed", -1, "0.*9223372036854775807"),
        ("accumulate", 0, "1"),
        ("log_every", 0, "1"),
        ("check_every", 0, "1"),
        ("checkpoint_every", 0, "1"),
        ("accelerator", "tpu", "auto, cpu, cuda"),
        ("devices", 0, "1"),
        ("decay", "slow", "cosine, linear, late"),
        ("clip_relative", 0.0, "above 0"),
        ("clip_relative", "much", "above 0"),
        ("weight_average", 1.0, r"in \[0, 1\)"),
        ("weight_average", "much", "a finite number"),
        ("crops", -1, "0"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(setting: str, value: Any, allowed: str) -> None:
    with pytest.raises(EigenmapError, match=f"^{setting} .*{allowed}.*{value!r}"):
        TrainingConfig(**{"steps": 10, setting: value})


def test_the_trajectory_leaves_bookkeeping_out() -> None:
    config = TrainingConfig(steps=10)
    assert config.trajectory() == TrainingConfig(steps=10, check_every=7, devices=2, tensorboard=True).trajectory()
    assert config.trajectory() != TrainingConfig(steps=10, accumulate=2).trajectory()


def test_later_settings_count_only_if_they_are_used() -> None:
    assert not {"decay", "clip_relative", "weight_average", "crops"} & TrainingConfig(steps=10).trajectory().keys()
    used = {"decay": "linear", "clip_relative": 0.1, "weight_average": 0.9, "crops": 2}
    assert used.items() <= TrainingConfig(steps=10, **used).trajectory().items()


def test_small_crops_need_undivided_batches() -> None:
    with pytest.raises(EigenmapError, match=r"^crops .*accumulate.*3"):
        TrainingConfig(steps=10, crops=3, accumulate=2)

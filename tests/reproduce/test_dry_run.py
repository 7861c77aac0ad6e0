from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.reproduce import recipe_of
from eigenmap.reproduce.dry_run import dry_run, find_data, kept_bytes, objective_bytes, share_of, steps_of
from tests.reproduce.test_sets import write


def test_data_are_counted_and_incomplete_ones_named(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"scale=paper needs a folder as data="):
        find_data("paper", None)
    with pytest.raises(EigenmapError, match=r"train does not exist.*ImageNet as released"):
        find_data("paper", tmp_path)
    write(tmp_path / "train", ["n01440764", "n01443537"])
    (tmp_path / "val").mkdir()
    with pytest.raises(EigenmapError, match=r"val has no class folders"):
        find_data("paper", tmp_path)
    write(tmp_path / "val", ["n01440764"], count=3)
    found = find_data("paper", tmp_path)
    assert found.counts == {"train": 4, "val": 3} and not found.complete and "1,281,167" in found.in_words()
    assert found.train == 1_281_167  # steps are those of the whole set
    assert find_data("tiny", None).complete


def test_steps_and_shares() -> None:
    probe = recipe_of("unordered", "paper")
    assert steps_of(probe, 1_281_167) == 100 * (1_276_167 // 2048) == 62_300
    assert share_of(probe, 8) == 256 and share_of(probe, 3) == 683


def test_what_is_kept_is_counted_once() -> None:
    layer = nn.Linear(10, 20, bias=False)
    x = torch.randn(5, 10)

    def forward() -> torch.Tensor:
        h = layer(x)  # keeps x, not its weight
        return (h * h).sum()  # keeps h once

    assert kept_bytes(forward, layer) == 4 * (5 * 10 + 5 * 20)


def test_what_the_objective_keeps_grows_with_the_features() -> None:
    few, many = (objective_bytes(recipe_of("unordered", "tiny").but(n_components=k), 16) for k in (64, 256))
    assert many > 3 * few and objective_bytes(recipe_of("simsiam", "tiny"), 16) > 0


def test_runs_of_one_kind_are_measured_once() -> None:
    recipe = recipe_of("scl", "tiny")
    said: list[str] = []
    rows = dry_run([recipe, recipe.but(epochs=4)], 120, 2, "cpu", seconds=0.5, say=said.append)
    assert len(said) == 1 and rows[1]["hours"] == pytest.approx(2 * rows[0]["hours"])
    assert rows[0]["steps"] == 6 and rows[0]["images_per_device"] == 16 and rows[0]["measured_images"] == 8
    assert rows[0]["hours"] == pytest.approx(rows[0]["steps"] * rows[0]["step_seconds"] / 3600)
    assert 0 < rows[0]["memory_gib"] < 1

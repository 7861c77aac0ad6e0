"""Pictures and names: what is read, and that no emoji of the test is fitted to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks.vectors import emoji, pictures, translated
from benchmarks.vectors.sets import Pairs
from tests.linear.planted import two_spaces


def test_pictures_with_a_name_are_read_on_white(tmp_path: Path) -> None:
    named = [{"hexcode": "1F600", "label": "grin", "tags": ["face", "happy"]}, {"hexcode": "1F601", "label": "beam"}]
    (tmp_path / "data.json").write_text(json.dumps(named))
    names = pictures.names_of(tmp_path / "data.json")
    assert names == {"1F600": "grin: face, happy", "1F601": "beam"}
    folder = tmp_path / "img" / "google" / "64"
    folder.mkdir(parents=True)
    listed = [{"unified": code, "image": f"{code}.png"} for code in ("1F600", "1F601", "1F9FF")]
    (tmp_path / "emoji.json").write_text(json.dumps(listed))
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(folder / "1F600.png")
    ((code, file),) = pictures.pictures(tmp_path, "google", names)
    assert code == "1F600"
    found = pictures.pixels(pictures.on_white(file))
    assert found.shape == (3, pictures.SIZE, pictures.SIZE) and bool((found == 1.0).all())  # transparent: white


def test_pictures_of_test_emoji_are_not_fitted_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "emoji"
    folder.mkdir()
    meaning = rng.normal(size=(300, 8)).astype(np.float32)
    shown = np.tile(meaning, (2, 1)) + 0.1 * rng.normal(size=(600, 8)).astype(np.float32)
    np.save(folder / "left.efficientnet.npy", shown.astype(np.float32))
    np.save(folder / "right.minilm.npy", (meaning @ rng.normal(size=(8, 40))).astype(np.float32))
    np.save(folder / "names.npy", np.tile(np.arange(300), 2))
    parts = emoji.split(tmp_path, 0, 50)
    assert parts.fit.count == 500 and parts.test.count == 50
    assert not set(map(bytes, parts.fit.right)) & set(map(bytes, parts.test.right))
    monkeypatch.setattr(emoji, "COMPONENTS", (8,))
    file = tmp_path / "one.json"
    emoji.main(["--data", str(tmp_path), "--json", str(file), "--test", "50", "--methods", "cca,two-spaces"])
    rows = {row["method"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["two-spaces"]["scores"]["8"]["ndcg@10"] > 0.8 and 0 < rows["cca"]["correlation"] <= 8
    assert set(emoji.METHODS) <= {*translated.METHODS, "neural-chosen"}


def test_deep_cca_is_chosen_on_names_that_it_was_not_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    names = rng.normal(size=(150, 6)).astype(np.float32)
    pairs = Pairs(rng.normal(size=(300, 6)).astype(np.float32), np.repeat(names, 2, axis=0))
    fitted: list[Pairs] = []
    judged: list[Pairs] = []

    def fit(pairs: Pairs, seed: int, components: int, rate: float) -> Any:
        fitted.append(pairs)
        return lambda rows, side, length: rows[:, :length]

    def score(encode: Any, pairs: Pairs, lengths: Any) -> float:
        judged.append(pairs)
        return float(len(fitted))

    monkeypatch.setattr(translated, "_deep_cca", fit)
    monkeypatch.setattr(translated, "ndcg", score)
    _, about = emoji.encoder_of("deep-cca", pairs, 0)
    assert not {row for one in fitted for row in map(bytes, one.right)} & set(map(bytes, judged[0].right))
    assert about["settings"] == {"components": 128, "rate": 1e-3} and about["tried"] == [1.0, 2.0, 3.0, 4.0]


def test_the_settings_of_a_head_are_chosen_on_held_out_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = two_spaces(600)
    monkeypatch.setattr(emoji, "SETTINGS", ({"steps": 2, "n_components": 8}, {"steps": 2}, {"steps": 3}))
    monkeypatch.setattr(emoji, "COMPONENTS", (8,))
    encode, about = emoji.chosen(Pairs(x.astype(np.float32), y.astype(np.float32)), 0)
    assert about["quality"] == max(about["tried"]) and len(about["tried"]) == 3
    assert about["settings"] == emoji.SETTINGS[about["tried"].index(about["quality"])]
    assert encode(x[:3], "left", 4).shape == (3, 4)

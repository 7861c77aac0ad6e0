from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap
from eigenmap.cli.evaluate.classes import _class_numbers
from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels, load_images
from eigenmap.evaluation.classes import evaluate_classes
from tests.cli.run import refused, succeed
from tests.end_to_end.photos import KINDS, pictures


def arrays(file: Path, labels: list[str], seed: int = 1) -> Path:
    np.savez(file, images=pictures(len(labels), seed=seed), labels=np.array(labels))
    return file


def test_scores_are_those_of_the_library(model_dir: Path, photos: Path, array_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    result = succeed(
        *("evaluate", "classes", model_dir, "--train", photos, "--test", array_file),
        *("--dims", 2, 8, "--labels", 20, 100, "--neighbours", 3, "--json", file),
    )
    model, train, test = Eigenmap.load(model_dir), load_images(photos, size=16), load_images(array_file)
    assert train.labels is not None and test.labels is not None
    expected = evaluate_classes(
        model.encode(train, normalize=False),
        train.labels.to_integers(),
        model.encode(test, normalize=False),
        test.labels.in_classes(train.labels.names).to_integers(),
        dims=[2, 8],
        shares=(0.2, 1.0),
        n_neighbours=3,
    )
    written = json.loads(file.read_text())
    assert written["rows"] == expected
    assert (written["protocol"]["train_images"], written["protocol"]["test_images"]) == (15, 12)
    assert re.search("20.*training.*3.*12", result.out)
    assert f"{expected[-1]['linear']:.4f}" in result.out


@pytest.mark.parametrize("probe", ["ridge", "sgd"])
def test_the_encoder_is_probed_whole(
    probe: str, model_dir: Path, photos: Path, array_file: Path, tmp_path: Path
) -> None:
    words = ("evaluate", "classes", model_dir, "--train", photos, "--test", array_file, "--of", "encoder")
    succeed(*words, "--labels", 100, "--probe", probe, "--json", tmp_path / "r.json", "--quiet")
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert row["dim"] == Eigenmap.load(model_dir).network.encoder.out_features
    assert "--dims" in refused(*words, "--dims", 4)


def test_images_without_a_label_are_left_out() -> None:
    pixels = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    known = ImageSet(pixels, list("abcd"), Labels.from_names([["cat"], [], ["dog"], ["cat"]]))
    asked = ImageSet(pixels, list("efgh"), Labels.from_names([["dog"], ["zebra"], [], ["cat"]]))
    said: list[str] = []
    y, y_test = _class_numbers(known, asked, said.append)
    assert (y.tolist(), y_test.tolist(), len(said)) == ([0, -1, 1, 0], [1, 2, -1, 0], 1)
    empty = ImageSet(pixels, list("abcd"), Labels.from_names([[], [], [], []]))
    with pytest.raises(EigenmapError, match=r"training.*label"):
        _class_numbers(empty, asked, said.append)


def test_unknown_classes_count_as_errors(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    file = arrays(tmp_path / "test.npz", [*KINDS, "zebra"])
    result = succeed(
        *("evaluate", "classes", model_dir, "--train", photos, "--test", file, "--labels", 100, "--dims", 8),
        *("--json", tmp_path / "r.json"),
    )
    assert re.search("1 test.*class", result.err)
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert max(row["knn"], row["linear"]) <= 3 / 4


def test_mistakes_are_told_in_a_sentence(model_dir: Path, photos: Path, array_file: Path, tmp_path: Path) -> None:
    words = ("evaluate", "classes", model_dir, "--quiet", "--train", photos, "--test")
    assert "same images" in refused(*words, photos)
    np.save(tmp_path / "bare.npy", pictures(4))
    assert "class folder" in refused(*words, tmp_path / "bare.npy")
    other = arrays(tmp_path / "other.npz", ["zebra", "gnu"])
    assert re.search("Training.*test.*class", refused(*words, other))
    assert re.search("0.*100.*0", refused(*words, array_file, "--labels", 0))
    assert "from 1 to 8" in refused(*words, array_file, "--dims", 9)
    (tmp_path / "r.json").write_text("mine")
    assert "exists" in refused(*words, array_file, "--json", tmp_path / "r.json")

from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.networks import SmallCNN
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS, detection_sets, of_first_classes, transfer_recipe, transferred


def test_the_papers_schedule_and_pretraining() -> None:
    paper = TRANSFERS["paper"]
    assert (paper.schedule.steps, paper.schedule.lr, paper.schedule.drops) == (90_000, 0.05, (60_000, 80_000))
    assert paper.sides == (640, 672, 704, 736, 768, 800) and paper.settings.pooled == 14
    recipe = transfer_recipe("unordered", "paper")
    assert recipe.epochs == 200 and recipe.warmup * 200 == pytest.approx(10) and recipe.encoder == "resnet50"
    assert {"random", "supervised", "barlow-twins", "unordered"} < set(TITLES)


def test_the_generated_set_is_made_once(tmp_path: Path) -> None:
    sets = load_sets("tiny", None)
    train, test = detection_sets("tiny", sets, tmp_path)
    stamp = (tmp_path / "annotations" / "instances_train.json").stat().st_mtime_ns
    again, _ = detection_sets("tiny", sets, tmp_path)
    assert (len(train), len(test)) == (12, 6) and again.content == train.content
    assert (tmp_path / "annotations" / "instances_train.json").stat().st_mtime_ns == stamp
    with pytest.raises(EigenmapError, match=r"instances_train2017.json .*COCO 2017"):
        detection_sets("paper", sets, tmp_path)
    with pytest.raises(EigenmapError, match=r"a ResNet, not SmallCNN"):
        transferred("random", SmallCNN(3), "tiny", Runs(sets, device="cpu"), train, test)


def test_objects_of_the_first_classes_only() -> None:
    images = load_sets("tiny", None).train
    few = of_first_classes(images, 2)
    assert few.labels is not None and len(few.labels.names) == 2 and len(few) == len(images) // 2
    assert few.labels.to_integers().unique().tolist() == [0, 1] and of_first_classes(images, 0) is images
    assert TRANSFERS["small"].classes == 20 and TRANSFERS["paper"].classes == 0

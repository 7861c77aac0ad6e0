from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from eigenmap.detection import MaskRCNN
from eigenmap.detection.average_precision import average_precision, segmentation_mask
from eigenmap.detection.dataset import DetectionSet
from eigenmap.detection.finetune import Schedule, detections, finetune
from eigenmap.detection.generated import generate_detection_set
from eigenmap.detection.settings import TINY
from eigenmap.reproduce import load_sets
from tests.detection.thin import thin_encoder
from tests.end_to_end.process import ENVIRONMENT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("set")
    generate_detection_set(load_sets("tiny", None).train, path, "train", 6, 32, seed=0)
    return path


def small_detector() -> MaskRCNN:
    return MaskRCNN(thin_encoder(), 4, TINY)


def test_training_repeats_and_detections_are_in_cocos_format(folder: Path) -> None:
    part = DetectionSet.open(folder, "train", sides=(32, 40))
    schedule = Schedule(steps=3, batch_size=2, lr=0.01, drops=(2,), warmup=1)
    losses = []
    for _ in range(2):
        detector = small_detector()
        losses.append(finetune(detector, part, schedule, device="cpu"))
    assert losses[0] == losses[1] and len(losses[0]) == 3 and not detector.training
    found = detections(detector, part, batch_size=4)
    assert found and {row["image_id"] for row in found} <= set(range(6))
    for row in found:
        assert row["category_id"] in (1, 2, 3, 4) and 0 < row["score"] <= 1 and min(row["bbox"][2:]) > 0
        x, y, width, height = row["bbox"]
        assert x >= 0 and y >= 0 and x + width <= 32.01 and y + height <= 32.01
        assert segmentation_mask(row["segmentation"], (32, 32)).shape == (32, 32)


def test_a_detector_learns_four_pictures(tmp_path: Path) -> None:
    """What it was trained on it finds again, boxes and masks; with its first weights it finds nothing."""
    generate_detection_set(load_sets("tiny", None).train, tmp_path, "train", 4, 48, seed=0, most=2)
    part = DetectionSet.open(tmp_path, "train")
    detector = small_detector()

    def precision(kind: Literal["bbox", "segm"]) -> float:
        return average_precision(part.content, detections(detector, part), kind)["AP"]

    assert precision("bbox") < 0.05
    schedule = Schedule(steps=100, batch_size=4, lr=0.05, drops=(80,), warmup=10)
    losses = finetune(detector, part, schedule, device="cpu")
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert precision("bbox") > 0.3 and precision("segm") > 0.3


def test_rates_rise_and_fall() -> None:
    schedule = Schedule(steps=10, warmup=4, drops=(6, 8))
    rates = [schedule.rate(step) for step in range(10)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])


@pytest.mark.slow
def test_two_processes_train_one_detector(folder: Path, tmp_path: Path) -> None:
    """Each takes half of every batch, and both end with the same weights."""
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import sys
from pathlib import Path
from typing import Literal
import torch
from eigenmap.detection.dataset import DetectionSet
from eigenmap.detection.finetune import Schedule, finetune
from tests.detection.test_finetune import small_detector

torch.set_num_threads(1)
detector = small_detector()
part = DetectionSet.open(Path({str(folder)!r}), "train")
losses = finetune(detector, part, Schedule(steps=2, batch_size=2, lr=0.01, warmup=1), device="cpu", devices=2)
total = sum(float(each.double().sum()) for each in detector.parameters())
rank = torch.distributed.get_rank()
Path({str(tmp_path)!r}, f"{{rank}}.txt").write_text(f"{{losses}} {{total!r}}")
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""
    )
    root = Path(__file__).parents[2]
    environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = f"{root}:{environment.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, script], env=environment, cwd=root, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    first, second = ((tmp_path / f"{rank}.txt").read_text() for rank in (0, 1))
    assert first == second

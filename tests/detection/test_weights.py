from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.detection.weights import detectron2_weights, save_weights, torchvision_weights
from eigenmap.networks import load_encoder_weights
from eigenmap.networks.resnet import resnet18, resnet50

# Names that detectron2's R_50_C4 models have, as published in its model zoo.
KNOWN = {
    "stem.conv1.weight": "conv1.weight",
    "stem.conv1.norm.running_mean": "bn1.running_mean",
    "res2.0.shortcut.weight": "layer1.0.downsample.0.weight",
    "res2.0.shortcut.norm.bias": "layer1.0.downsample.1.bias",
    "res3.3.conv2.norm.weight": "layer2.3.bn2.weight",
    "res4.5.conv3.weight": "layer3.5.conv3.weight",
    "res5.2.conv1.norm.running_var": "layer4.2.bn1.running_var",
}


def test_names_of_detectron2() -> None:
    encoder = resnet50()
    theirs, ours = detectron2_weights(encoder), torchvision_weights(encoder)
    for name, own in KNOWN.items():
        assert torch.equal(theirs[name], ours[own])
    kept = [name for name in ours if not name.endswith("num_batches_tracked")]
    assert len(theirs) == len(kept) == 265
    assert not any(part in name for name in theirs for part in ("layer", "bn", "downsample"))


def test_files(tmp_path: Path) -> None:
    encoder, other = resnet18(), resnet18()
    save_weights(encoder, tmp_path / "r18.pth", "torchvision")
    load_encoder_weights(other, tmp_path / "r18.pth")
    assert all(torch.equal(a, b) for a, b in zip(encoder.parameters(), other.parameters(), strict=True))
    save_weights(encoder, tmp_path / "d2.pth", "detectron2")
    content = torch.load(tmp_path / "d2.pth", weights_only=True)
    assert content["matching_heuristics"] is True and "stem.conv1.weight" in content["model"]
    with pytest.raises(EigenmapError, match=r"torchvision or detectron2.*'keras'"):
        save_weights(encoder, tmp_path / "x.pth", "keras")  # type: ignore[arg-type]

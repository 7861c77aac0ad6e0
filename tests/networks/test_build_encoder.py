from __future__ import annotations

import builtins
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks import ENCODERS, build_encoder, require_encoder


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_states_its_width(name: str) -> None:
    with torch.device("meta"):
        encoder = build_encoder(name, channels=1, image_size=8)
        assert encoder(torch.rand(2, 1, 8, 8)).shape == (2, encoder.out_features)


def test_same_seed_same_weights() -> None:
    def weights() -> torch.Tensor:
        torch.manual_seed(3)
        return torch.cat([p.flatten() for p in build_encoder("small-cnn").parameters()])

    assert torch.equal(weights(), weights())


def test_unknown_stem() -> None:
    with pytest.raises(EigenmapError, match="stem"):
        build_encoder("resnet18", stem="large")  # type: ignore[arg-type]


def test_unknown_name_lists_the_names_and_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(EigenmapError, match=r"'resnet19'.*small-cnn, resnet18, resnet34, resnet50.*timm"):
        build_encoder("resnet19")


class FakeTimm:
    """Stand-in for timm: one model, whose width differs from its `num_features`."""

    def __init__(self) -> None:
        self.calls: list[dict[str, object]] = []

    def is_model(self, name: str) -> bool:
        return name in ("convy", "resnet18", "vitty")

    def create_model(self, name: str, **options: object) -> nn.Module:
        self.calls.append({"name": name, **options})
        if "img_size" in options and not name.startswith("vit"):
            raise TypeError("unexpected keyword argument 'img_size'")
        model = nn.Sequential(nn.Conv2d(int(str(options["in_chans"])), 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model.num_features = 99  # type: ignore[assignment]
        return model


def test_timm_names(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = FakeTimm()
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(is_model=timm.is_model, create_model=timm.create_model))
    for name in ("convy", "timm:convy", "timm:resnet18"):
        encoder = build_encoder(name, channels=1, image_size=16)
        assert encoder.out_features == 6
        assert encoder(torch.rand(2, 1, 16, 16)).shape == (2, 6)
    made = [call for call in timm.calls if "img_size" not in call]
    assert made[0] == {"name": "convy", "pretrained": False, "num_classes": 0, "in_chans": 1}
    assert [call["name"] for call in made] == ["convy", "convy", "resnet18"]
    # A transformer is built for one image size.
    build_encoder("vitty", channels=1, image_size=16)
    assert timm.calls[-1] == {"name": "vitty", "pretrained": False, "num_classes": 0, "in_chans": 1, "img_size": 16}
    with pytest.raises(EigenmapError, match=r"'resnet19'.*timm"):
        build_encoder("resnet19")
    with pytest.raises(EigenmapError, match=r"input.*\(1, 2, 2\)"):
        build_encoder("convy", channels=1, image_size=2)


def test_a_name_is_checked_without_building(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = FakeTimm()
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(is_model=timm.is_model, create_model=timm.create_model))
    for name in (*ENCODERS, "convy", "timm:resnet18"):
        require_encoder(name)
    assert timm.calls == []
    with pytest.raises(EigenmapError, match=r"'resnet19'.*timm"):
        require_encoder("resnet19")


def test_a_timm_that_cannot_be_imported_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any, **more: Any) -> Any:
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(EigenmapError, match=r"'convy'.*timm.*torchvision::nms"):
        require_encoder("convy")

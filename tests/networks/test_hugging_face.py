"""Encoders of transformers and timm with their trained weights."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import eigenmap as em
from eigenmap.augment.views import IMAGENET_STANDARDISATION
from eigenmap.networks import build_encoder, require_encoder


@pytest.fixture(scope="module", params=["vit", "resnet"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, as transformers saves one."""
    import transformers

    torch.manual_seed(0)
    if request.param == "vit":
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        model = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **sizes))
    else:
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16], depths=[1], layer_type="basic")
        model = transformers.ResNetModel(config)
    folder: Path = tmp_path_factory.mktemp("hub") / request.param
    model.save_pretrained(folder)
    return folder


def test_a_model_is_ordered_without_training_and_loaded_again(folder: Path, tmp_path: Path) -> None:
    import transformers

    pixels = np.random.default_rng(0).integers(255, size=(60, 16, 16, 3), dtype=np.uint8)
    name = f"hf:{folder}"
    model = em.fit_images(
        pixels, 8, encoder=name, epochs=0, codes="encoder", standardisation=IMAGENET_STANDARDISATION, out=tmp_path / "r"
    )
    kept = dict(transformers.AutoModel.from_pretrained(folder).named_parameters())
    for key, value in model.network.encoder.model.named_parameters():  # type: ignore[union-attr]
        assert torch.equal(value, kept[key])
    again = em.Eigenmap.load(tmp_path / "r")
    np.testing.assert_allclose(again.encode(pixels[:4]), model.encode(pixels[:4]), atol=1e-6)
    assert model.encode(pixels[:4]).shape == (4, model.n_components)


def test_channels_and_names_are_checked(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(em.EigenmapError, match=r"3 channels, not 1.*IMAGENET"):
        build_encoder(f"hf:{folder}", channels=1, image_size=16)
    with pytest.raises(em.EigenmapError, match="nowhere"):
        require_encoder(f"hf:{tmp_path}/nowhere")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(em.EigenmapError, match=r"eigenmap\[transformers\]"):
        require_encoder("hf:x/y")


def test_a_model_of_texts_is_refused(tmp_path: Path) -> None:
    import transformers

    transformers.BertConfig(hidden_size=8, num_attention_heads=2).save_pretrained(tmp_path)
    with pytest.raises(em.EigenmapError, match=r"bert.*no images"):
        require_encoder(f"hf:{tmp_path}")


def test_names_of_the_hub_bring_weights_through_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def create_model(name: str, **options: object) -> nn.Module:
        calls.append((name, options["pretrained"]))
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))

    fake = SimpleNamespace(is_model=lambda name: False, create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", fake)
    assert build_encoder("hf-hub:timm/resnet18.a1_in1k", image_size=8).out_features == 5
    assert calls == [("hf-hub:timm/resnet18.a1_in1k", True)]

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks import Network, build_encoder, load_encoder_weights, load_state

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def trained() -> State:
    """Content of a torchvision checkpoint of ResNet-18, with its classifier."""
    torch.manual_seed(0)
    state = build_encoder("resnet18", image_size=224).state_dict()
    state = {key: torch.rand_like(t) if t.is_floating_point() else t + 7 for key, t in state.items()}
    return state | {"fc.weight": torch.rand(1000, 512), "fc.bias": torch.rand(1000)}


def assert_loaded(encoder: nn.Module, trained: State) -> None:
    state = encoder.state_dict()
    assert set(state) == set(trained) - {"fc.weight", "fc.bias"}
    assert all(torch.equal(state[key], trained[key]) for key in state)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_torchvision_checkpoint_with_classifier(tmp_path: Path, trained: State, suffix: str) -> None:
    file = tmp_path / f"resnet18{suffix}"
    save_file(trained, file) if suffix == ".safetensors" else torch.save(trained, file)
    encoder = build_encoder("resnet18", image_size=224)
    load_encoder_weights(encoder, file)
    assert_loaded(encoder, trained)


def test_strict_loading_needs_only_the_classifier_left_out(trained: State) -> None:
    encoder = build_encoder("resnet18", image_size=224)
    encoder.load_state_dict({key: t for key, t in trained.items() if not key.startswith("fc.")}, strict=True)
    assert_loaded(encoder, trained)


@pytest.mark.parametrize("prefix", ["module.", "encoder.", "module.encoder.", "network.encoder."])
def test_prefixes(trained: State, prefix: str) -> None:
    encoder = build_encoder("resnet18", image_size=224)
    wrapper = prefix.removesuffix("encoder.")
    extra = {f"{wrapper}projector.layers.0.weight": torch.zeros(2)} if "encoder." in prefix else {}
    load_state(encoder, {f"{prefix}{key}": tensor for key, tensor in trained.items()} | extra)
    assert_loaded(encoder, trained)


def test_a_saved_network_and_nested_containers(tmp_path: Path) -> None:
    source = Network(build_encoder("small-cnn", 1, 8), 4)
    torch.save({"epoch": 3, "state_dict": {"model": source.state_dict()}}, tmp_path / "run.pt")
    encoder = build_encoder("small-cnn", 1, 8)
    load_encoder_weights(encoder, tmp_path / "run.pt")
    for key, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, source.encoder.state_dict()[key])


@pytest.mark.parametrize("name", ["head.weight", "head.fc.weight", "classifier.1.weight", "heads.head.bias"])
def test_classifiers_of_other_libraries_are_left_out(name: str) -> None:
    source = build_encoder("small-cnn").state_dict()
    encoder = build_encoder("small-cnn")
    load_state(encoder, source | {name: torch.zeros(5)})
    assert all(torch.equal(tensor, source[key]) for key, tensor in encoder.state_dict().items())


def test_counters_may_be_missing(trained: State) -> None:
    encoder = build_encoder("resnet18", image_size=224)
    load_state(encoder, {key: t for key, t in trained.items() if not key.endswith("num_batches_tracked")})
    assert torch.equal(encoder.state_dict()["layer4.0.conv1.weight"], trained["layer4.0.conv1.weight"])


def test_an_encoder_of_ones_own_may_have_a_classifier_and_an_encoder() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(2, 3)
            self.fc = nn.Linear(3, 1)

    source, target = Own(), Own()
    load_state(target, source.state_dict())
    assert torch.equal(source.fc.weight, target.fc.weight)
    assert torch.equal(source.encoder.weight, target.encoder.weight)


def test_first_mismatching_key_is_named(trained: State) -> None:
    whole = {key: t for key, t in trained.items() if not key.startswith("fc.")}
    encoder = build_encoder("resnet18", image_size=224)
    before = encoder.state_dict()["conv1.weight"].clone()
    with pytest.raises(EigenmapError, match=r"layer2\.0\.conv1\.weight.*missing"):
        load_state(encoder, {k: t for k, t in whole.items() if k != "layer2.0.conv1.weight"})
    with pytest.raises(EigenmapError, match=r"neck\.weight"):
        load_state(encoder, whole | {"neck.weight": torch.zeros(2)})
    assert torch.equal(encoder.state_dict()["conv1.weight"], before)
    with pytest.raises(EigenmapError, match=r"conv1\.weight.*\(64, 3, 7, 7\).*\(64, 3, 3, 3\)"):
        load_state(build_encoder("resnet18", image_size=32), whole)


def test_unreadable_files(tmp_path: Path, trained: State) -> None:
    encoder = build_encoder("small-cnn")
    with pytest.raises(EigenmapError, match="weights file"):
        load_encoder_weights(encoder, tmp_path / "absent.pth")
    for suffix in (".pth", ".safetensors"):
        torch.save({"a": torch.zeros(2)}, tmp_path / "whole.pth")
        damaged = tmp_path / f"damaged{suffix}"
        for content in ((tmp_path / "whole.pth").read_bytes()[:40], b"hello"):
            damaged.write_bytes(content)
            with pytest.raises(EigenmapError, match="damaged"):
                load_encoder_weights(encoder, damaged)
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(EigenmapError, match="dictionary"):
        load_encoder_weights(encoder, tmp_path / "list.pth")


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('executed')",)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    torch.save({"conv1.weight": Malicious()}, tmp_path / "bad.pth")
    with pytest.raises(EigenmapError, match=r"bad\.pth.*weights file"):
        load_encoder_weights(build_encoder("small-cnn"), tmp_path / "bad.pth")


def test_weights_that_are_not_numbers_are_named(trained: State) -> None:
    state = {**trained, "layer1.0.conv1.weight": torch.full_like(trained["layer1.0.conv1.weight"], torch.nan)}
    with pytest.raises(EigenmapError, match=r"layer1\.0\.conv1\.weight.*NaN"):
        load_state(build_encoder("resnet18", stem="imagenet"), state)

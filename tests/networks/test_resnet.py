from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from eigenmap.networks import ResNet, build_encoder

Shapes = dict[str, tuple[int, ...]]
DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}
# Published sizes of torchvision's models, without the classifier (weight and bias: 2 entries, 1,000 outputs).
ENTRIES = {"resnet18": 122 - 2, "resnet34": 218 - 2, "resnet50": 320 - 2}
PARAMETERS = {
    "resnet18": 11_689_512 - 513_000,
    "resnet34": 21_797_672 - 513_000,
    "resnet50": 25_557_032 - 2_049_000,
}


def norm(name: str, channels: int) -> Shapes:
    vectors = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{vector}": (channels,) for vector in vectors} | {f"{name}.num_batches_tracked": ()}


def torchvision_shapes(name: str) -> Shapes:
    """Names and shapes in torchvision's own order."""
    bottleneck = name == "resnet50"
    shapes: Shapes = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    width_in = 64
    for stage, depth in enumerate(DEPTHS[name]):
        width = 64 * 2**stage
        width_out = width * 4 if bottleneck else width
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        for block in range(depth):
            prefix = f"layer{stage + 1}.{block}."
            inputs, outputs = (width_in,) + (width,) * (len(kernels) - 1), (width,) * (len(kernels) - 1) + (width_out,)
            for number, (i, o, k) in enumerate(zip(inputs, outputs, kernels, strict=True), start=1):
                shapes |= {f"{prefix}conv{number}.weight": (o, i, k, k)} | norm(f"{prefix}bn{number}", o)
            if width_in != width_out:
                shapes |= {f"{prefix}downsample.0.weight": (width_out, width_in, 1, 1)}
                shapes |= norm(f"{prefix}downsample.1", width_out)
            width_in = width_out
    return shapes


def reference(state: dict[str, Tensor], x: Tensor, depths: tuple[int, ...]) -> Tensor:
    """Network in evaluation mode, from its definition."""

    def bn(x: Tensor, name: str) -> Tensor:
        shape = (1, -1, 1, 1)
        weight, bias, mean, var = (
            state[f"{name}.{v}"].view(shape) for v in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    x = F.max_pool2d(bn(conv(x, "conv1", 2), "bn1").relu(), 3, 2, 1)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            last = 3 if f"{name}.conv3.weight" in state else 2
            y = x
            for number in range(1, last + 1):
                strided = number == last - 1
                y = bn(conv(y, f"{name}.conv{number}", stride if strided else 1), f"{name}.bn{number}")
                y = y.relu() if number < last else y
            if f"{name}.downsample.0.weight" in state:
                x = bn(conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
            x = (x + y).relu()
    return x.mean(dim=(2, 3))


@pytest.mark.parametrize("name", DEPTHS)
def test_names_and_shapes_are_torchvisions(name: str) -> None:
    with torch.device("meta"):
        encoder = build_encoder(name, image_size=224)
    found = {key: tuple(tensor.shape) for key, tensor in encoder.state_dict().items()}
    expected = torchvision_shapes(name)
    assert list(found) == list(expected)
    assert found == expected
    assert len(found) == ENTRIES[name]
    assert sum(parameter.numel() for parameter in encoder.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_forward_matches_the_definition(name: str) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=224).double().eval()
    with torch.no_grad():
        for key, tensor in encoder.state_dict().items():
            if "bn" in key or "downsample.1" in key:
                tensor.copy_(torch.rand_like(tensor, dtype=torch.float64) + 0.5)
        x = torch.rand(2, 3, 40, 40, dtype=torch.float64)
        torch.testing.assert_close(encoder(x), reference(encoder.state_dict(), x, DEPTHS[name]), rtol=1e-9, atol=1e-12)


def test_residual_branches_start_at_zero() -> None:
    for name, last in (("resnet18", "bn2"), ("resnet50", "bn3")):
        state = build_encoder(name).state_dict()
        gammas = {key: tensor for key, tensor in state.items() if key.endswith(("bn1.weight", f"{last}.weight"))}
        assert any(key.endswith(f"{last}.weight") for key in gammas)
        for key, gamma in gammas.items():
            assert torch.equal(gamma, torch.full_like(gamma, 0.0 if last in key else 1.0)), key


def test_convolutions_have_the_variance_of_fan_out() -> None:
    torch.manual_seed(0)
    weight = build_encoder("resnet18").state_dict()["layer4.1.conv1.weight"]
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("stem", "size", "side"), [("small", 32, 32), ("medium", 64, 32), ("imagenet", 32, 8), ("imagenet", 64, 16)]
)
def test_stems(stem: str, size: int, side: int) -> None:
    encoder = build_encoder("resnet18", image_size=size, stem=stem)
    assert isinstance(encoder, ResNet)
    x = encoder.maxpool(encoder.conv1(torch.rand(2, 3, size, size)))
    assert x.shape == (2, 64, side, side)


@pytest.mark.parametrize(("size", "kernel"), [(28, 3), (64, 3), (65, 7), (224, 7)])
def test_auto_stem_is_small_up_to_64_pixels(size: int, kernel: int) -> None:
    with torch.device("meta"):
        encoder = build_encoder("resnet18", image_size=size)
    assert encoder.state_dict()["conv1.weight"].shape[-1] == kernel


@pytest.mark.parametrize(
    "name", ["resnet18", *(pytest.param(name, marks=pytest.mark.slow) for name in DEPTHS if name != "resnet18")]
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stem", ["small", "medium", "imagenet"])
def test_output_shape(name: str, channels: int, stem: str) -> None:
    with torch.device("meta"):
        encoder = build_encoder(name, channels, stem=stem)
        for size in (1, 8, 33, 256):
            assert encoder(torch.rand(2, channels, size, size)).shape == (2, encoder.out_features)
    assert encoder.out_features == (2048 if name == "resnet50" else 512)


@pytest.mark.parametrize("stem", ["small", "medium", "imagenet"])
def test_features_of_tiny_images_are_finite(stem: str) -> None:
    encoder = build_encoder("resnet18", stem=stem)
    for size in (1, 5):
        assert encoder(torch.rand(2, 3, size, size)).isfinite().all()

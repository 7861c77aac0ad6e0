from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial

import pytest
import torch
from torch import Tensor

from eigenmap.augment import pixels
from eigenmap.augment import views as augmentation
from eigenmap.augment.views import SmallCrops, half_size
from eigenmap.core.errors import EigenmapError
from eigenmap.relations import (
    IMAGENET_STANDARDISATION,
    POLICIES,
    Augmentation,
    Standardisation,
    TwoViews,
    plain_view,
    policy,
    view,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def photos(batch: int = 6, channels: int = 3, height: int = 20, width: int = 20) -> Tensor:
    return torch.randint(256, (batch, channels, height, width), dtype=torch.uint8, generator=generator(9))


UNIT = Standardisation((0.0,), (1.0,))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("shape", [(20, 20), (50, 31), (1, 1), (2, 300)])
def test_every_recipe_on_every_kind_of_image(name: str, channels: int, shape: tuple[int, int]) -> None:
    x, x_plus = TwoViews(name, 16, UNIT)(photos(6, channels, *shape), generator())
    for out in (x, x_plus):
        assert out.shape == (6, channels, 16, 16)
        assert out.dtype == torch.float32
        assert out.is_contiguous()
        assert out.min() >= -1e-6
        assert out.max() <= 1 + 1e-6
    if shape != (1, 1):
        assert not torch.equal(x, x_plus)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("channels", [1, 3])
def test_no_images_have_no_views(name: str, channels: int) -> None:
    none, generator = torch.empty(0, channels, 9, 8, dtype=torch.uint8), torch.Generator()
    for made in (*TwoViews(name, 6)(none, generator), plain_view(none, 6)):
        assert made.shape == (0, channels, 6, 6)


def test_steps_come_in_the_documented_order() -> None:
    """A view of every step at once against the same steps called one by one."""
    everything = Augmentation(
        scale=(0.3, 0.8),
        flip=0.5,
        jitter=1.0,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        grey=0.5,
        blur=0.7,
        blur_sigma=(10.0, 30.0),
        solarise=0.5,
    )
    images = photos()
    views = TwoViews((everything, everything), 16, UNIT)
    for seed in range(4):
        first, second = views.draw(6, (3, 20, 20), generator(seed))
        second = replace(second, steps=replace(second.steps, hue_after=first.steps.hue_after))
        for draws, found in zip((first, second), views.apply(images, (first, second)), strict=True):
            x = pixels.crop(images.float() / 255, draws.boxes, (16, 16), "bicubic")
            operations = [lambda x, p=p, d=draws: pixels.blend(x, *d.blend(p)) for p in range(3)]
            operations.insert(draws.steps.hue_after, lambda x, d=draws: pixels.turn_hue(x, d.turns))
            for operation in operations:
                x = operation(x)
            x = pixels.to_grey(x, draws.grey)
            x = pixels.blur(x, draws.sigma * 16)
            x = pixels.solarise(x, draws.threshold)
            torch.testing.assert_close(found, x, rtol=0, atol=1e-6)


def test_one_view_equals_the_first_of_two() -> None:
    settings = policy("simclr")[0]
    x, _ = TwoViews((settings, settings), 16)(photos(), generator(2))
    torch.testing.assert_close(view(photos(), settings, 16, generator(2)), x)


def test_the_second_view_has_its_own_settings() -> None:
    dark = Augmentation(jitter=1.0, brightness=0.4)
    inverted = Augmentation(solarise=1.0, solarise_threshold=0.0)
    images = photos(4, 1)
    x, x_plus = TwoViews((Augmentation(), inverted), 20, UNIT)(images, generator())
    torch.testing.assert_close(x, images / 255)
    torch.testing.assert_close(x_plus, 1 - images / 255)
    x, x_plus = TwoViews((dark, Augmentation()), 20, UNIT)(images, generator())
    torch.testing.assert_close(x_plus, images / 255)
    assert not torch.allclose(x, images / 255, atol=0.02)


def test_flip_is_exact() -> None:
    x = view(photos(), Augmentation(flip=1.0), 20, generator(), UNIT)
    assert torch.equal(x, photos().flip(3).float() / 255)


@pytest.mark.parametrize("name", POLICIES)
def test_the_seed_decides(name: str) -> None:
    views = TwoViews(name, 16)
    first, again, other = (torch.cat(views(photos(), generator(seed))) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_equal_images_get_different_views() -> None:
    images = photos(1).repeat(32, 1, 1, 1)
    both = torch.cat(TwoViews("cifar", 16)(images, generator()))
    assert len(torch.unique(both.flatten(1), dim=0)) == 64


@pytest.mark.parametrize("name", ["weak", "barlow_twins"])
def test_working_in_pieces_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.cat(TwoViews(name, 16)(photos(7), generator()))
    monkeypatch.setattr(augmentation, "_CACHED_VALUES", 3 * 3 * 16 * 16)
    torch.testing.assert_close(torch.cat(TwoViews(name, 16)(photos(7), generator())), whole, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_compiled_views_are_the_same_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the tracer, which must not break the graph; what inductor makes of it is torch's business."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    eager = TwoViews("barlow_twins", 16)
    compiled = eager.compiled()
    images = photos()
    for seed in range(3):
        first, second = (views(images, generator(seed)) for views in (eager, compiled))
        torch.testing.assert_close(first, second, rtol=0, atol=1e-5)


def test_draws_replay_any_part_of_a_batch() -> None:
    views = TwoViews("barlow_twins", 16)
    images = photos()
    draws = views.draw(6, (3, 20, 20), generator())
    whole = views.apply(images, draws)
    part = views.apply(images[2:5], (draws[0][2:5], draws[1][2:5]))
    for a, b in zip(whole, part, strict=True):
        torch.testing.assert_close(a[2:5], b, rtol=0, atol=1e-5)


def devices() -> list[str]:
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("name", POLICIES)
def test_devices_agree_and_are_not_waited_for(name: str, device: str) -> None:
    views = TwoViews(name, 16)
    expected = views(photos(), generator())
    images = photos().to(device)
    views(images, generator())
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    found = views(images, generator())
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("default")
    for a, b in zip(expected, found, strict=True):
        assert b.device.type == device
        # A pixel at the very threshold of solarisation may fall to either side.
        assert (a - b.cpu()).abs().gt(1e-3).float().mean() < 1e-3


def test_autocast_does_not_coarsen_the_pixels() -> None:
    views = TwoViews("barlow_twins", 16)
    expected = torch.cat(views(photos(), generator()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.cat(views(photos(), generator()))
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_rotation_of_a_fine_pattern_shrinks_before_it_samples() -> None:
    """A checkerboard of single pixels, shrunk eightfold, is grey; sampling without a filter would make moire."""
    board = (torch.arange(160)[:, None] + torch.arange(160)) % 2 * 255
    settings = Augmentation(scale=(0.75, 1.0), rotation=5.0, interpolation="bilinear")
    x = view(board.byte().expand(4, 1, 160, 160), settings, 20, generator(), UNIT)
    torch.testing.assert_close(x, torch.full_like(x, 0.5), rtol=0, atol=0.03)


def test_plain_view() -> None:
    images = photos()
    assert torch.equal(plain_view(images, 20, UNIT), images.float() / 255)
    torch.testing.assert_close(plain_view(images, 20), (images.float() / 255 - 0.5) / 0.25)
    wide = photos(2, 3, 20, 40)
    torch.testing.assert_close(plain_view(wide, 20, UNIT), wide[..., 10:30].float() / 255)
    assert plain_view(wide, 7).shape == (2, 3, 7, 7)
    assert plain_view(photos(2, 1, 1, 1), 8).shape == (2, 1, 8, 8)
    views = TwoViews("weak", 12, IMAGENET_STANDARDISATION)
    assert torch.equal(views.plain(images), plain_view(images, 12, IMAGENET_STANDARDISATION))


def test_standardisation_of_channels() -> None:
    x = torch.rand(2, 3, 4, 5).transpose(2, 3)
    expected = (x - torch.tensor(IMAGENET_STANDARDISATION.mean).view(3, 1, 1)) / torch.tensor(
        IMAGENET_STANDARDISATION.std
    ).view(3, 1, 1)
    torch.testing.assert_close(IMAGENET_STANDARDISATION(x), expected)
    assert IMAGENET_STANDARDISATION(x).is_contiguous()
    assert Standardisation(**json.loads(json.dumps(asdict(IMAGENET_STANDARDISATION)))) == IMAGENET_STANDARDISATION


def test_standardisation_refuses_what_does_not_fit() -> None:
    with pytest.raises(EigenmapError, match=r"3 channels.*1"):
        IMAGENET_STANDARDISATION(torch.rand(2, 1, 4, 4))
    with pytest.raises(EigenmapError, match="means"):
        Standardisation((0.5, 0.5), (0.25,))
    with pytest.raises(EigenmapError, match="positive"):
        Standardisation((0.5,), (0.0,))


def test_wrong_arguments() -> None:
    with pytest.raises(EigenmapError, match="recipe"):
        TwoViews("strong", 16)
    with pytest.raises(EigenmapError, match="image_size"):
        TwoViews("weak", 0)
    with pytest.raises(EigenmapError, match="interpolation"):
        TwoViews((Augmentation(), Augmentation(interpolation="bilinear")), 16)
    with pytest.raises(EigenmapError, match="uint8"):
        TwoViews("weak", 16)(torch.rand(2, 3, 8, 8), generator())
    with pytest.raises(EigenmapError, match="uint8"):
        plain_view(photos()[0], 16)


def test_the_plain_view_of_a_share_is_the_middle() -> None:
    images = photos(height=32, width=32)
    middle = plain_view(images, 28, UNIT, share=28 / 32)
    torch.testing.assert_close(middle, images[:, :, 2:30, 2:30].float() / 255, atol=1e-5, rtol=0)


def test_the_plain_view_of_a_squeezed_picture_is_that_of_the_picture() -> None:
    """A smooth picture twice as wide as high, and one twice as high as wide, squeezed into squares."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 64), torch.linspace(0, 1, 128), indexing="ij")
    wide = (255 * (0.5 * x + 0.5 * y * y)).round().to(torch.uint8)[None, None]
    for picture in (wide, wide.transpose(2, 3).contiguous()):
        squeezed = torch.nn.functional.interpolate(picture.float(), (96, 96), mode="bilinear", align_corners=False)
        shape = torch.tensor([picture.shape[3] / picture.shape[2]])
        for share in (1.0, 0.875):
            expected = plain_view(picture, 48, UNIT, share)
            found = plain_view(squeezed.round().to(torch.uint8), 48, UNIT, share, shape)
            torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_small_crops_have_half_the_size_and_repeat_with_their_draws() -> None:
    images = photos()
    crops = SmallCrops(TwoViews("cifar", 21, UNIT), count=3)
    draws = crops.draw(6, (3, 20, 20), generator(1))
    made = crops.apply(images, draws)
    assert made.shape == (3, 6, 3, 10, 10)
    areas = torch.cat([each.boxes[:, 2].abs() * each.boxes[:, 3].abs() for each in draws])
    assert float(areas.min()) > 0.04 and float(areas.max()) < 0.31
    assert len({tuple(each.boxes[0].tolist()) for each in draws}) == 3  # each crop is another part of the image
    part = crops.apply(images[2:4], [each[2:4] for each in draws])
    torch.testing.assert_close(part, made[:, 2:4])
    assert half_size(1) == 1


def test_crops_of_whole_pictures_are_not_rotated() -> None:
    with pytest.raises(EigenmapError, match="rotat"):
        TwoViews("weak", 8)(photos(), generator(), torch.ones(6))

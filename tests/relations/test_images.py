from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations import Augmentation, Batch, ImagePairs, Standardisation, TwoViews, split_held_out
from eigenmap.relations.seeds import stream

WEAK = TwoViews("weak", 8)
# Views that show which image they are of.
SAME = TwoViews((Augmentation(), Augmentation()), 4, Standardisation((0.0,), (1.0,)))


def numbered(count: int = 50) -> Tensor:
    return torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(count, 1, 4, 4)


def which(x: Tensor) -> list[int]:
    return (x[:, 0, 0, 0] * 255).round().long().tolist()


def make(seed: int = 0, views: TwoViews = WEAK, batch_size: int = 8, **options: int) -> ImagePairs:
    return ImagePairs(numbered(), views, batch_size, seed, **options)


def assert_equal(a: Batch, b: Batch) -> None:
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.x_plus, b.x_plus)
    assert a.kernel is None
    assert b.kernel is None


def test_batches_hold_the_images_of_their_indices() -> None:
    pairs = make(views=SAME)
    for step in (0, 3, 17):
        batch = pairs.batch(step)
        assert batch.x.shape == (8, 1, 4, 4)
        assert which(batch.x) == which(batch.x_plus) == pairs.indices(step).tolist()


def test_an_epoch_visits_each_image_at_most_once_and_each_epoch_is_new() -> None:
    pairs = make()
    assert pairs.steps_per_epoch == 6
    epochs = [torch.cat([pairs.indices(6 * epoch + step) for step in range(6)]).tolist() for epoch in range(3)]
    for order in epochs:
        assert len(set(order)) == 48
        assert set(order) <= set(range(50))
    assert epochs[0] != epochs[1] != epochs[2]


def test_any_step_can_be_resumed_exactly() -> None:
    run = make(seed=3)
    history = [run.batch(step) for step in range(14)]
    for step in (13, 0, 7, 6, 5):
        assert_equal(make(seed=3).batch(step), history[step])
        assert_equal(run.batch(step), history[step])


def test_seed_and_step_change_the_views() -> None:
    assert not torch.equal(make(seed=0).batch(0).x, make(seed=1).batch(0).x)
    assert not torch.equal(make(seed=0).indices(0), make(seed=1).indices(0))
    single = ImagePairs(torch.randint(256, (1, 3, 8, 8), dtype=torch.uint8), WEAK, batch_size=1)
    assert not torch.equal(single.batch(0).x, single.batch(1).x)
    assert make(seed=-1).batch(0).x.isfinite().all()


@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_together_see_the_batch_of_one(world_size: int) -> None:
    for step in (0, 8):
        whole = make().batch(step)
        parts = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
        assert torch.equal(torch.cat([part.indices(step) for part in parts]), make().indices(step))
        batches = [part.batch(step) for part in parts]
        torch.testing.assert_close(torch.cat([b.x for b in batches]), whole.x, rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.cat([b.x_plus for b in batches]), whole.x_plus, rtol=0, atol=1e-5)


@pytest.mark.parametrize("world_size", [1, 2])
def test_small_crops_are_of_the_images_of_the_batch(world_size: int) -> None:
    alone = make(views=SAME, crops=3)
    whole = alone.crops(5)
    assert whole.shape == (3, 8, 1, 2, 2)
    for crop in whole:
        assert which(crop) == which(alone.batch(5).x)
    parts = [make(views=SAME, crops=3, rank=rank, world_size=world_size).crops(5) for rank in range(world_size)]
    assert torch.equal(torch.cat(parts, dim=1), whole)
    assert not torch.equal(make(crops=1).crops(0), make(crops=1).crops(1))


def test_a_batch_can_be_replayed_in_pieces() -> None:
    pairs = make(rank=1, world_size=2)
    whole = pairs.batch(2)
    pieces = [pairs.batch(2, rows=slice(start, start + 3)) for start in (0, 3)]
    assert [len(piece.x) for piece in pieces] == [3, 1]
    torch.testing.assert_close(torch.cat([p.x for p in pieces]), whole.x, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.cat([p.x_plus for p in pieces]), whole.x_plus, rtol=0, atol=1e-5)


def test_pairs_go_through_all_images_in_order() -> None:
    batches = list(make(views=SAME).pairs(torch.Generator().manual_seed(0), batch_size=16, passes=2))
    assert [len(batch.x) for batch in batches] == [16, 16, 16, 2] * 2
    assert [number for batch in batches for number in which(batch.x)] == 2 * list(range(50))
    assert [number for batch in batches for number in which(batch.x_plus)] == 2 * list(range(50))


def test_passes_have_new_views_and_the_generator_decides() -> None:
    pairs = ImagePairs(torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8), WEAK, batch_size=4)
    first, second = pairs.pairs(torch.Generator().manual_seed(0), batch_size=6, passes=2)
    assert not torch.equal(first.x, second.x)
    again = next(pairs.pairs(torch.Generator().manual_seed(0), batch_size=6))
    assert_equal(first, again)


def test_processes_divide_the_pairs() -> None:
    seen = []
    for rank in range(4):
        part = make(views=SAME, rank=rank, world_size=4)
        seen += [n for batch in part.pairs(torch.Generator(), batch_size=5) for n in which(batch.x)]
    assert seen == list(range(50))


def test_some_of_the_images_are_spread_over_all_of_them() -> None:
    for wanted, numbers in ((7, [0, 7, 14, 21, 28, 35, 42]), (1, [0]), (60, list(range(50)))):
        (batch,) = make(views=SAME).pairs(torch.Generator(), batch_size=64, images=wanted)
        assert which(batch.x) == numbers
    (part,) = make(views=SAME, rank=1, world_size=2).pairs(torch.Generator(), batch_size=64, images=10)
    assert which(part.x) == [25, 30, 35, 40, 45]


def test_images_of_another_size_than_the_views() -> None:
    pixels = torch.randint(256, (10, 3, 37, 21), dtype=torch.uint8)
    assert ImagePairs(pixels, TwoViews("cifar", 16), batch_size=4).batch(0).x.shape == (4, 3, 16, 16)
    assert len(ImagePairs(pixels, WEAK, batch_size=4)) == 10


def test_wrong_arguments() -> None:
    with pytest.raises(EigenmapError, match=r"batch.*51.*50"):
        make(batch_size=51)
    with pytest.raises(EigenmapError, match="batch size 0"):
        make(batch_size=0)
    with pytest.raises(EigenmapError, match=r"processes.*3"):
        make(batch_size=8, world_size=3)
    with pytest.raises(EigenmapError, match="uint8"):
        ImagePairs(torch.rand(9, 3, 8, 8), WEAK, batch_size=4)


@pytest.mark.parametrize(
    ("count", "options", "held"),
    [
        (1000, {}, 100),
        (1000, {"fraction": 0.2, "maximum": 150}, 150),
        (1000, {"fraction": 0.01, "minimum": 64}, 64),
        (100, {"fraction": 0.1, "minimum": 500}, 50),
        (3, {"fraction": 0.01}, 1),
        (2, {}, 1),
    ],
)
def test_split(count: int, options: dict[str, float], held: int) -> None:
    train, held_out = split_held_out(count, seed=5, **options)  # type: ignore[arg-type]
    assert len(held_out) == held
    assert sorted(train.tolist() + held_out.tolist()) == list(range(count))
    assert train.tolist() == sorted(train.tolist())
    assert held_out.tolist() == sorted(held_out.tolist())


def test_split_depends_on_the_seed_only() -> None:
    first, again, other = (split_held_out(1000, seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_split_needs_two() -> None:
    with pytest.raises(EigenmapError, match="2 samples"):
        split_held_out(1)


def test_shapes_of_pictures_follow_the_order_of_the_batch() -> None:
    """Each picture is squeezed by its own shape; a process sees its part of the batch that one would see."""
    shapes = torch.linspace(0.5, 2.0, 50)
    wide = TwoViews("barlow_twins", 8)
    pixels = torch.randint(256, (50, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    whole = ImagePairs(pixels, wide, 8, aspects=shapes)
    parts = [ImagePairs(pixels, wide, 8, rank=rank, world_size=2, aspects=shapes) for rank in range(2)]
    for step in (0, 7):
        batch = whole.batch(step)
        for view in (0, 1):
            assert torch.equal(torch.cat([part.batch(step)[view] for part in parts]), batch[view])
        numbers = whole.indices(step)
        draws = wide.draw(8, (3, 16, 16), stream(0, 1, step), shapes[numbers])
        torch.testing.assert_close(wide.apply(pixels[numbers], draws)[0], batch.x)
    some = torch.tensor([5, 9, 30, 31, 2, 7, 8, 40])
    assert torch.equal(ImagePairs(pixels, wide, 4, rows=some, aspects=shapes).aspects, shapes[some])


def test_square_pictures_are_as_before() -> None:
    assert_equal(
        ImagePairs(numbered(), TwoViews("cifar", 8), 8, aspects=torch.ones(50)).batch(3),
        ImagePairs(numbered(), TwoViews("cifar", 8), 8).batch(3),
    )

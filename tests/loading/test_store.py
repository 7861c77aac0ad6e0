from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.loading.store import PixelStore
from eigenmap.relations import Augmentation, ImagePairs, Standardisation, TwoViews
from tests.pretend_mps import MPS, PretendMps

SAME = TwoViews((Augmentation(), Augmentation()), 4, Standardisation((0.0,), (1.0,)))


def numbered(count: int = 50) -> Tensor:
    return torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(count, 1, 4, 4)


def which(images: Tensor) -> list[int]:
    return images[:, 0, 0, 0].tolist()


def test_rows_are_taken_by_their_number_among_the_chosen_ones() -> None:
    rows = torch.tensor([4, 7, 9, 30])
    for streamed in (False, True):
        store = PixelStore(numbered(), rows, streamed=streamed)
        assert len(store) == 4 and store.shape == (1, 4, 4) and store.streamed == streamed
        assert which(store.take(torch.tensor([3, 0, 0]))) == [30, 4, 4]


def test_pixels_on_their_device_are_not_copied() -> None:
    pixels = numbered().contiguous()
    assert PixelStore(pixels, torch.tensor([1, 2])).pixels.data_ptr() == pixels.data_ptr()


def test_rows_of_pixels_that_are_on_the_device_already_can_be_chosen() -> None:
    """Of old their numbers stayed on the CPU, where the device cannot read them."""
    with PretendMps():
        store = PixelStore(numbered().to(MPS), torch.tensor([4, 7, 9]), MPS)
        assert store.index_device == store.pixels.device == MPS
        assert which(store.take(torch.tensor([2, 0]).to(MPS)).cpu()) == [9, 4]


def test_what_was_prefetched_is_what_was_asked_for() -> None:
    store = PixelStore(numbered(), streamed=True)
    store.prefetch(3, torch.tensor([1, 2]))
    store.prefetch(3, torch.tensor([9]))
    store.prefetch(1, torch.tensor([5]))
    assert which(store.take_prefetched(3, torch.tensor([1, 2]))) == [1, 2]
    assert which(store.take_prefetched(3, torch.tensor([8]))) == [8]
    assert not store._coming


def test_streamed_batches_equal_resident_ones_in_any_order() -> None:
    rows = torch.arange(3, 45, 2)
    views = TwoViews("weak", 8)
    resident, streamed = (ImagePairs(numbered(), views, 8, 1, rows=rows, streamed=kind) for kind in (False, True))
    for step in (0, 1, 2, 3, 7, 1, 2):
        for a, b in zip(resident.batch(step)[:2], streamed.batch(step)[:2], strict=True):
            assert torch.equal(a, b)
    part = streamed.batch(5, slice(2, 4))
    torch.testing.assert_close(part.x, resident.batch(5, slice(2, 4)).x)
    first, second = (next(iter(p.pairs(torch.Generator().manual_seed(0), 6))).x for p in (resident, streamed))
    assert torch.equal(first, second)


def test_pixels_in_a_file_are_read_where_they_lie(tmp_path: object) -> None:
    pixels = torch.from_file(f"{tmp_path}/pixels", shared=True, size=50 * 16, dtype=torch.uint8).view(50, 1, 4, 4)
    pixels.copy_(numbered())
    pairs = ImagePairs(pixels, SAME, 4, streamed=True)
    batch = pairs.batch(0)
    assert (batch.x[:, 0, 0, 0] * 255).round().long().tolist() == pairs.indices(0).tolist()

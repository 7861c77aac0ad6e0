"""Batches of image pairs for training and for alignment."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from eigenmap.augment.views import SmallCrops, TwoViews
from eigenmap.core.batch import Batch, check_batch_size
from eigenmap.core.errors import EigenmapError
from eigenmap.loading.prefetch import Prefetcher
from eigenmap.loading.store import PixelStore, send
from eigenmap.relations.seeds import stream

# Purposes of random streams; part of their seeds.
_ORDER, _VIEWS, _SPLIT, _CROPS = 0, 1, 2, 3


class ImagePairs:
    """Two random views of every image, as a function of the step.

    `batch(step)` depends only on the seed and the step, so a killed run continues exactly where it was, and N processes
    together see exactly the batch that one would: each takes its rows of it. An epoch visits every image once, in a new
    order, and drops the last incomplete batch.

    Args:
        pixels: uint8 (N, C, H, W); moved to `device` once if they fit there, else transferred batch by batch.
        views: augmentation that makes the two views.
        batch_size: images per batch, over all processes together.
        seed: seed of the order and of the views.
        device: device on which batches are made.
        rank: number of this process.
        world_size: number of processes.
        compile: whether to fuse the pixel operations of training batches, which pays off on a GPU.
        rows: images to use; default all.
        streamed: whether pixels stay on the host; None decides by their size.
        aspects: (N,) width / height of uncropped pictures that were squeezed into squares.
        crops: number of small crops of every image, besides its two views.

    Example:
        >>> pairs = ImagePairs(pixels, TwoViews("cifar", 32), batch_size=256, seed=0)
        >>> x, x_plus, _ = pairs.batch(step=0)

    """

    def __init__(
        self,
        pixels: Tensor,
        views: TwoViews,
        batch_size: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        compile: bool = False,
        rows: Tensor | None = None,
        streamed: bool | None = None,
        aspects: Tensor | None = None,
        crops: int = 0,
    ) -> None:
        if pixels.dtype != torch.uint8 or pixels.ndim != 4:
            raise EigenmapError(
                f"Pixels must be a uint8 tensor (N, C, H, W), not {pixels.dtype} of shape {tuple(pixels.shape)}."
            )
        check_batch_size(batch_size, world_size)
        count = len(pixels) if rows is None else len(rows)
        if batch_size > count:
            raise EigenmapError(
                f"The batch size {batch_size} is larger than the data set, which has {count} training "
                "images; choose a smaller batch size."
            )
        self.device = torch.device(device)
        self.store = PixelStore(pixels, rows, self.device, streamed)
        self.aspects = aspects if aspects is None or rows is None else aspects[rows.cpu()]
        self.views = views
        self._batch_views = views.compiled() if compile else views
        self._crops = SmallCrops(self._batch_views, crops)
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self._order: tuple[int, Tensor, Tensor] | None = None
        self._prefetcher = Prefetcher(self._make, self.device) if self.device.type == "cuda" else None

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.store)

    @property
    def steps_per_epoch(self) -> int:
        """Number of complete batches in the data set."""
        return len(self) // self.batch_size

    def indices(self, step: int) -> Tensor:
        """Return the images in this process's part of the batch, in order, on the store's index device."""
        start, (_, order, _) = self._place(step)
        mine = self._share(self.batch_size)
        return order[start + mine.start : start + mine.stop]

    def _place(self, step: int) -> tuple[int, tuple[int, Tensor, Tensor]]:
        """Return the batch's start in the order of its epoch, and that order, for the store and on the host."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            order = torch.randperm(len(self), generator=stream(self.seed, _ORDER, epoch))
            self._order = (epoch, send(order, self.store.index_device), order)
        return place * self.batch_size, self._order

    def batch(self, step: int, rows: slice = slice(None)) -> Batch:
        """Make this process's part of batch number `step`, or only some rows of it.

        A batch made in pieces equals one made at once, so a large batch can be replayed in chunks. On a GPU, complete
        batches are made one step ahead.
        """
        return (
            self._prefetcher(step) if self._prefetcher is not None and rows == slice(None) else self._make(step, rows)
        )

    def _make(self, step: int, rows: slice = slice(None)) -> Batch:
        mine = range(self.batch_size)[self._share(self.batch_size)][rows]
        generator = stream(self.seed, _VIEWS, step)
        draws = self.views.draw(self.batch_size, self.store.shape, generator, self._aspects_of(step))
        first, second = (each[mine.start : mine.stop] for each in draws)
        if rows == slice(None):
            images = self.store.take_prefetched(step, self.indices(step))
            if self.store.streamed:
                self.store.prefetch(step + 1, self.indices(step + 1))
        else:
            images = self.store.take(self.indices(step)[rows])
        return Batch(*self._batch_views.apply(images, (first, second)))

    def crops(self, step: int) -> Tensor:
        """Make the small crops (crops, B, ...) of the images in this process's part of batch number `step`."""
        mine = self._share(self.batch_size)
        generator = stream(self.seed, _CROPS, step)
        draws = self._crops.draw(self.batch_size, self.store.shape, generator, self._aspects_of(step))
        return self._crops.apply(self.store.take(self.indices(step)), [each[mine] for each in draws])

    def pairs(
        self, generator: torch.Generator, batch_size: int, passes: int = 1, images: int | None = None
    ) -> Iterator[Batch]:
        """Iterate over the images in order, `passes` times with new views, including the last incomplete batch.

        With `images`, only so many of them are visited, evenly spread. Each process takes a part of the images:
        moments merged over processes count each image once per pass.
        """
        share = self._share(len(self))
        visited = torch.arange(share.start, share.stop, device=self.store.index_device)
        if images is not None and images < len(self):
            wanted = max(1, images * len(visited) // len(self))
            visited = visited[torch.arange(wanted, device=visited.device) * len(visited) // wanted]
        for _ in range(passes):
            for numbers in torch.split(visited, batch_size):
                yield Batch(*self.views(self.store.take(numbers), generator, self.aspects_at(numbers)))

    def aspects_at(self, numbers: Tensor) -> Tensor | None:
        """Return the aspect ratios of some pictures, on the host; None if pictures are not squeezed."""
        return None if self.aspects is None else self.aspects[numbers.cpu()]

    def _aspects_of(self, step: int) -> Tensor | None:
        """Return the aspect ratios of all pictures in a batch, including those of other processes."""
        if self.aspects is None:
            return None
        start, (_, _, order) = self._place(step)
        return self.aspects[order[start : start + self.batch_size]]

    def _share(self, count: int) -> slice:
        """Divide the range of `count` into equal parts and return this process's."""
        return slice(count * self.rank // self.world_size, count * (self.rank + 1) // self.world_size)


def split_held_out(
    count: int, fraction: float = 0.1, seed: int = 0, minimum: int = 1, maximum: int | None = None
) -> tuple[Tensor, Tensor]:
    """Split the numbers 0 ... count - 1 at random into a training part and a held-out part, each sorted.

    The held-out part has `fraction` of them, but at least `minimum`, at most `maximum`, and never more than half.

    Example:
        >>> train, held_out = split_held_out(50_000, fraction=0.1, maximum=2_000)

    """
    if count < 2:
        raise EigenmapError(f"Holding out needs at least 2 samples, but there are only {count}.")
    held = max(round(count * fraction), minimum, 1)
    held = min(held, count // 2, count if maximum is None else maximum)
    order = torch.randperm(count, generator=stream(seed, _SPLIT, 0))
    return order[held:].sort().values, order[:held].sort().values

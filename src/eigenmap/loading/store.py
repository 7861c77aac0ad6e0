"""Pixel storage of a training set and transfer to the device.

Pixels that fit are kept on the device. Otherwise they stay in memory or in a memory-mapped file and are transferred
batch by batch: a thread gathers the next batch while the device works on the current one, and the copy is asynchronous.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

SHARE_OF_DEVICE = 0.4
"""Share of a GPU's free memory that pixels may occupy; the rest is for the network."""


class PixelStore:
    """A selection (`rows`) of uint8 `pixels` (N, C, H, W), indexed by number.

    >>> store = PixelStore(torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1), torch.tensor([1, 3, 5]))
    >>> store.take(torch.tensor([2, 0])).flatten().tolist()
    [5, 1]

    `streamed` tells whether the pixels stay on the host; None decides by their size.
    """

    def __init__(
        self,
        pixels: Tensor,
        rows: Tensor | None = None,
        device: torch.device | str = "cpu",
        streamed: bool | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.rows = torch.arange(len(pixels)) if rows is None else rows.cpu()
        self.shape: tuple[int, int, int] = (pixels.shape[1], pixels.shape[2], pixels.shape[3])
        self.streamed = not _fits(len(self.rows) * pixels[:1].numel(), self.device) if streamed is None else streamed
        if not self.streamed and pixels.device != self.device:
            pixels = (pixels if rows is None else pixels[self.rows]).to(self.device)
            self.rows = torch.arange(len(pixels))
        self.rows = self.rows if self.streamed else self.rows.to(pixels.device)
        self.pixels = pixels
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pixels") if self.streamed else None
        self._coming: dict[int, Future[Tensor]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def index_device(self) -> torch.device:
        """Device of the numbers to pass to `take`."""
        return self.rows.device

    def take(self, numbers: Tensor) -> Tensor:
        """Return images by number, 0 ... len - 1, on the device."""
        if not self.streamed:
            return self.pixels.index_select(0, self.rows[numbers])
        return send(self._gather(numbers), self.device)

    def prefetch(self, key: int, numbers: Tensor) -> None:
        """Start gathering the images that `take_prefetched(key)` will return."""
        if self._reader is not None and key not in self._coming:
            self._coming[key] = self._reader.submit(self._gather, numbers)

    def take_prefetched(self, key: int, numbers: Tensor) -> Tensor:
        """Return the images gathered under `key`, or gather `numbers` now."""
        coming = self._coming.pop(key, None)
        for stale in [other for other in self._coming if other < key]:
            self._coming.pop(stale).cancel()
        return self.take(numbers) if coming is None else send(coming.result(), self.device)

    def _gather(self, numbers: Tensor) -> Tensor:
        rows = self.rows[numbers]
        out = torch.empty(len(rows), *self.shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        return torch.index_select(self.pixels, 0, rows, out=out)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy values to a device without waiting."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def _fits(size: int, device: torch.device) -> bool:
    """Tell whether pixels of this size may be kept on the device; on a CPU they are in memory or mapped already."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return size <= SHARE_OF_DEVICE * free

"""Where the pixels of a training set lie, and how some of them come to the device.

Pixels that fit lie on the device. Others stay where they are, in memory or in a file that is mapped into it, and travel
a batch at a time: gathered in a thread while the device works on the batch before, then copied without waiting.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

SHARE_OF_DEVICE = 0.4
"""Of the free memory of a GPU that resident pixels may take; the rest is for the network."""


class PixelStore:
    """Some images (`rows`) of uint8 `pixels` (N, C, H, W), to be taken by number.

    >>> store = PixelStore(torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1), torch.tensor([1, 3, 5]))
    >>> store.take(torch.tensor([2, 0])).flatten().tolist()
    [5, 1]

    `streamed` settles whether the pixels stay on the host; None lets their size decide.
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
            self.rows = torch.arange(len(pixels), device=self.device)
        self.pixels = pixels
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pixels") if self.streamed else None
        self._coming: dict[int, Future[Tensor]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def index_device(self) -> torch.device:
        """Where the numbers given to `take` should lie."""
        return self.rows.device

    def take(self, numbers: Tensor) -> Tensor:
        """Images by their numbers 0 ... len - 1, on the device."""
        if not self.streamed:
            return self.pixels.index_select(0, self.rows[numbers])
        return send(self._gather(numbers), self.device)

    def prefetch(self, key: int, numbers: Tensor) -> None:
        """Begin to gather the images that `take_prefetched(key)` will ask for."""
        if self._reader is not None and key not in self._coming:
            self._coming[key] = self._reader.submit(self._gather, numbers)

    def take_prefetched(self, key: int, numbers: Tensor) -> Tensor:
        """Images gathered under `key`; the numbers are for those that were not."""
        coming = self._coming.pop(key, None)
        for stale in [other for other in self._coming if other < key]:
            self._coming.pop(stale).cancel()
        return self.take(numbers) if coming is None else send(coming.result(), self.device)

    def _gather(self, numbers: Tensor) -> Tensor:
        rows = self.rows[numbers]
        out = torch.empty(len(rows), *self.shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        return torch.index_select(self.pixels, 0, rows, out=out)


def send(values: Tensor, device: torch.device) -> Tensor:
    """Copy values to a device without waiting for it."""
    if device.type != "cuda" or values.is_cuda:
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def _fits(size: int, device: torch.device) -> bool:
    """Whether so many bytes may lie on the device; on a CPU they are in its memory, or mapped into it, already."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return size <= SHARE_OF_DEVICE * free

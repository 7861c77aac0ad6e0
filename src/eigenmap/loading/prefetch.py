"""Prefetching: the next batch is made on a second CUDA stream while the device works on the current one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from eigenmap.core.batch import Batch


class Prefetcher:
    """Starts `make(step)` one step early, since training usually asks for the following step next.

    Making views consists of many small operations that leave most of a GPU idle and can run beside those of the
    network. The batches are those of `make`, in whatever order they are requested.

        batches = Prefetcher(make, torch.device("cuda"))
        batches(0), batches(1), batches(2)              # 1 and 2 were begun when 0 and 1 were handed out
    """

    def __init__(self, make: Callable[[int], Batch], device: torch.device) -> None:
        self.make = make
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._coming: tuple[int, Batch] | None = None

    def __call__(self, step: int) -> Batch:
        """Return the batch of a step and start the next one."""
        batch = self._take(step)
        with torch.cuda.stream(self._stream):
            self._coming = step + 1, self.make(step + 1)
        return batch

    def _take(self, step: int) -> Batch:
        coming, self._coming = self._coming, None
        using = torch.cuda.current_stream(self._stream.device)
        using.wait_stream(self._stream)
        if coming is None or coming[0] != step:
            # State that `make` keeps (the order of an epoch) must be ready on both streams, whichever made it.
            batch = self.make(step)
            self._stream.wait_stream(using)
            return batch
        for tensor in coming[1]:
            if tensor is not None:
                tensor.record_stream(using)  # its memory is not reused before `using` has finished with it
        return coming[1]

"""Prefetching: the next batch is made on a second CUDA stream while the device works on this one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from eigenmap.core.batch import Batch


class Prefetcher:
    """`make(step)`, begun one step early: what training asks for next is usually the following step.

    Making views is many small operations that leave most of a GPU idle; they find room beside a network's large ones.
    The batches are those of `make`, whatever order they are asked for in.

        batches = Prefetcher(make, torch.device("cuda"))
        batches(0), batches(1), batches(2)              # 1 and 2 were begun when 0 and 1 were handed out
    """

    def __init__(self, make: Callable[[int], Batch], device: torch.device) -> None:
        self.make = make
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._coming: tuple[int, Batch] | None = None

    def __call__(self, step: int) -> Batch:
        """The batch of a step; begins the next one."""
        batch = self._take(step)
        with torch.cuda.stream(self._stream):
            self._coming = step + 1, self.make(step + 1)
        return batch

    def _take(self, step: int) -> Batch:
        coming, self._coming = self._coming, None
        using = torch.cuda.current_stream(self._stream.device)
        using.wait_stream(self._stream)
        if coming is None or coming[0] != step:
            # What `make` keeps for itself (the order of an epoch) is ready on both streams, whichever made it.
            batch = self.make(step)
            self._stream.wait_stream(using)
            return batch
        for tensor in coming[1]:
            if tensor is not None:
                tensor.record_stream(using)  # its memory is not used again before `using` is done with it
        return coming[1]

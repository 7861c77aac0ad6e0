"""Engines that compute shards: this process, the processes of `torchrun`, or the actors of a Ray cluster.

Each worker takes entire shards and writes them itself, so that only names travel between processes. On several
machines, images, model and output must be on a file system that all of them see.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.rows import ImageStream, Shard
from eigenmap.data.images.workers import processors
from eigenmap.embedding.blocks import Block, Encoding, encode_blocks
from eigenmap.embedding.workspace import ShardFolder
from eigenmap.model import Eigenmap

_ATTEMPTS = 3
"""Maximum number of attempts at a shard whose images change while they are read."""

Made = TypeVar("Made")
Advance = Callable[[int], object]
"""Called with the number of images just finished."""


class Process(NamedTuple):
    """Rank of this process among those of `torchrun`; a single process otherwise."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int

    @property
    def is_first(self) -> bool:
        """True in the process that prints and summarises."""
        return self.rank == 0


def this_process() -> Process:
    """Return the rank that `torchrun` gave this process."""
    if not torch.distributed.is_torchelastic_launched():
        return Process(0, 1, 0, 1)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return Process(*(int(os.environ[name]) for name in names))


def own_device(device: str, process: Process) -> str:
    """Return the device of a process: under `torchrun` each one on a machine has its own GPU."""
    return f"cuda:{process.local_rank}" if device == "cuda" and process.world_size > 1 else device


@dataclass
class Together:
    """Processes that wait for each other; a single process waits for nothing.

    They may have been joined before, by a training in the same program, and then stay so afterwards.
    """

    process: Process
    _group: torch.distributed.ProcessGroup | None = None

    def __enter__(self) -> Together:
        if self.process.world_size > 1:
            # Some shards take very long; waiting for the slowest process must not time out.
            patience = timedelta(days=30)
            if torch.distributed.is_initialized():
                self._group = torch.distributed.new_group(backend="gloo", timeout=patience)
            else:
                torch.distributed.init_process_group("gloo", timeout=patience)
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if self.process.world_size > 1 and failure is None:
            torch.distributed.destroy_process_group(self._group)

    def from_first(self, make: Callable[[], Made]) -> Made | None:
        """Run `make` in the first process and return its result in every process; None in the others if it fails."""
        if self.process.world_size == 1:
            return make()
        made: list[Made | None] = [None]
        try:
            if self.process.is_first:
                made[0] = make()
        finally:
            torch.distributed.broadcast_object_list(made, src=0, group=self._group)
        return made[0]

    def wait(self) -> None:
        """Return when every process has arrived here."""
        if self.process.world_size > 1:
            torch.distributed.barrier(self._group)


def in_this_process(
    model: Eigenmap, stream: ImageStream, folder: ShardFolder, how: Encoding, process: Process, advance: Advance
) -> None:
    """Compute every `world_size`-th shard, starting with the rank of this process."""
    if how.workers is None:
        how = replace(how, workers=max(1, processors() // process.local_world_size))
    for shard in stream.shards(folder.plan.shard_size):
        if shard.number % process.world_size == process.rank and not folder.is_finished(shard.number):
            compute(model, shard, folder, how, advance)


def compute(model: Eigenmap, shard: Shard, folder: ShardFolder, how: Encoding, advance: Advance) -> None:
    """Encode and write one shard; try again if images were replaced while they were read.

    The stamp is taken before reading: if images keep changing, the shard counts for this run but not for a later one.
    Processes and actors load the model at different times, so its weights are compared with the plan.
    """
    if model.weights_sha256 != folder.plan.fingerprint:
        raise EigenmapError("the model was replaced while the images were encoded; run the same command again")
    for attempt in range(_ATTEMPTS):
        source = shard.rows.stamp()
        block = _encoded(model, shard, how, advance)
        if shard.rows.stamp() == source or attempt == _ATTEMPTS - 1:
            folder.write(shard.number, block, source)
            return
        advance(-len(shard.rows))


def _encoded(model: Eigenmap, shard: Shard, how: Encoding, advance: Advance) -> Block:
    ids: list[str] = []
    skipped: list[tuple[str, str]] = []
    codes = np.empty((len(shard.rows), how.dim), np.float32)
    for block in encode_blocks(model, shard.rows, how):
        codes[len(ids) : len(ids) + len(block.ids)] = block.codes
        ids += block.ids
        skipped += block.skipped
        advance(len(block.ids) + len(block.skipped))
    return Block(ids, codes[: len(ids)], skipped)


class ShardWorker:
    """Ray actor that loads the model once and then computes shards."""

    def __init__(self, run: Path, folder: ShardFolder, how: Encoding) -> None:
        self.model = Eigenmap.load(run)
        self.folder = folder
        self.how = how

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Compute the one shard of a batch; return its number of images and the error message, if any."""
        shard, wrong = pickle.loads(batch["shard"][0]), ""
        try:
            compute(self.model, shard, self.folder, self.how, advance=lambda images: None)
        except EigenmapError as error:
            wrong = str(error)  # returned as a value, because Ray would wrap an exception and print its traceback
        return {"images": np.array([len(shard.rows)]), "wrong": np.array([wrong])}


def on_ray(
    run: Path, stream: ImageStream, folder: ShardFolder, how: Encoding, actors: int | None, advance: Advance
) -> None:
    """Compute the missing shards with Ray Data, on the cluster named by RAY_ADDRESS or on a local one.

    Uses one actor per GPU, or per processor without GPUs, unless `actors` is given.
    """
    ray = ray_module()
    # As bytes, since only the actors need the definition of a shard.
    missing = [
        {"shard": pickle.dumps(shard)}
        for shard in stream.shards(folder.plan.shard_size)
        if not folder.is_finished(shard.number)
    ]
    if not missing:
        return
    if not ray.is_initialized():
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        # Without an address, Ray would join any cluster that happens to run on this machine.
        where: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"address": "local", "num_cpus": actors}
        ray.init(**where, log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    on_gpu = how.device == "cuda"
    found = int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 1))
    done = ray.data.from_items(missing, override_num_blocks=len(missing)).map_batches(
        ShardWorker,
        fn_constructor_args=(run.absolute(), folder, replace(how, workers=how.workers or 1)),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(len(missing), actors or max(1, found))),
        num_cpus=0 if on_gpu else 1,
        num_gpus=1 if on_gpu else 0,
    )
    try:
        for row in done.iter_rows():
            if row["wrong"]:
                raise EigenmapError(str(row["wrong"]))
            advance(int(row["images"]))
    except ray.exceptions.RayError as error:
        raise EigenmapError(f"the Ray cluster failed: {str(error).strip().splitlines()[-1]}") from error


def ray_module() -> Any:
    """Import Ray with Ray Data, or raise an error that says how to install it."""
    try:
        import ray.data
    except ImportError:
        raise EigenmapError('the engine ray needs Ray Data: pip install "eigenmap[ray]"') from None
    return ray

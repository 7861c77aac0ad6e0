"""Devices, processes and precision of a run, by Lightning Fabric."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from eigenmap.core.devices import CPU, float32_products, has_float64
from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import Accelerator, TrainingConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def start(config: TrainingConfig) -> Fabric:
    """Start the processes of a run and return their Fabric, which tells relations their part of each batch.

        fabric = start(config)
        relation = ImagePairs(..., rank=fabric.global_rank, world_size=fabric.world_size, device=fabric.device)
        train(network, relation, objective, config, fabric=fabric)

    Under `torchrun`, its processes are used, on any number of machines. Otherwise `config.devices` processes run on
    each of `config.nodes` machines: Fabric starts the same command again for each further process, and with several
    machines the environment identifies this one.
    """
    place = device_type(config)
    on_gpu = place == "cuda"
    nodes, devices = machines(config)
    if place == "mps" and nodes * devices > 1:
        raise EigenmapError(f'device="mps" is one device, but {nodes * devices} were requested; use devices=1.')
    if on_gpu and devices > torch.cuda.device_count():
        raise EigenmapError(f"{devices} devices were requested, but torch finds {torch.cuda.device_count()}.")
    fabric: Fabric = _fabric_class()(
        accelerator=place,
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if nodes * devices > 1 else "auto",
        precision=config.precision,
    )
    fabric.launch()
    if fabric.world_size > 1:
        atexit.register(leave)
    return fabric


@contextmanager
def fast_arithmetic(device: torch.device) -> Iterator[None]:
    """Train on a GPU with products in TensorFloat-32 and with the fastest convolutions, then restore the settings."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        with float32_products("high"):
            yield
    finally:
        torch.backends.cudnn.benchmark = before


class Alone(NamedTuple):
    """Stand-in for Fabric in a fit that trains nothing, since importing Fabric takes seconds."""

    device: torch.device
    global_rank: int = 0
    world_size: int = 1
    is_global_zero: bool = True


def alone(config: TrainingConfig) -> Fabric:
    """Return a stand-in for Fabric for a fit that trains nothing."""
    return cast("Fabric", Alone(torch.device("cuda" if device_type(config) == "cuda" else "cpu")))


def device_type(config: TrainingConfig) -> str:
    """Return "cpu", "cuda" or "mps"; raise if it is not available. "auto" never means "mps", which is hardly tried."""
    if config.accelerator == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if config.accelerator == "cuda" and not torch.cuda.is_available():
        raise EigenmapError('A GPU was requested, but torch finds none; use device="cpu".')
    if config.accelerator == "mps" and not torch.backends.mps.is_available():
        raise EigenmapError('device="mps" was requested, but torch finds no Apple GPU; use device="cpu".')
    return config.accelerator


def data_place(fabric: Fabric) -> Fabric:
    """Return where relations make batches and where features are ordered: the CPU if the device has no float64.

    Each step then moves its batch to the device.
    """
    if has_float64(fabric.device):
        return fabric
    return cast("Fabric", Alone(CPU, fabric.global_rank, fabric.world_size, fabric.is_global_zero))


def machines(config: TrainingConfig) -> tuple[int, int]:
    """Return the number of machines and of processes on each."""
    nodes, devices = config.nodes, config.devices
    if torch.distributed.is_torchelastic_launched():
        local = int(os.environ["LOCAL_WORLD_SIZE"])
        started = int(os.environ["WORLD_SIZE"]) // local, local
        if (nodes, devices) not in ((1, 1), started):
            raise EigenmapError(
                f"{nodes} nodes of {devices} devices were requested, but torchrun started {started[1]} processes on "
                f"{started[0]} machines; leave nodes and devices out under torchrun."
            )
        return started
    if nodes > 1 and not {"MASTER_ADDR", "NODE_RANK"} <= os.environ.keys():
        raise EigenmapError(
            f"{nodes} nodes were requested, but MASTER_ADDR and NODE_RANK are not set; start every "
            f"machine with `torchrun --nnodes {nodes} --nproc-per-node {devices}` (see docs/training-at-scale.md)."
        )
    return nodes, devices


@contextmanager
def lost_process_named(world_size: int) -> Iterator[None]:
    """Turn a torch error into a clear `EigenmapError` if the loss of another process caused it."""
    try:
        yield
    except RuntimeError as error:
        if world_size == 1 or not re.search(_LOST, str(error), re.IGNORECASE):
            raise
        reason = str(error).strip().splitlines()[0]
        raise EigenmapError(
            "another process of the run was lost (killed, out of memory, or its machine went away), and the others "
            f"cannot go on without it; start the run again with resume=True ({reason[:200]})"
        ) from error


_LOST = (
    r"connection (was )?(likely )?(reset|closed|refused|aborted)|broken pipe|no route to host|got 0 bytes"
    r"|timed? ?out|pair closure|remote ?error|remote process|communicator was aborted"
)
"""Words of torch, gloo and NCCL when a process no longer answers. Their other errors have other causes, such as shapes
that differ between processes."""


def leave() -> None:
    """Wait for the other processes: one that exits early may be aborted while its threads still wait for them."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


STEPS_THAT_PAY = 10_000
"""Minimum number of steps for compiling, which takes most of a minute and saves a few milliseconds per step."""


def pays_to_compile(accelerator: Accelerator, steps: int) -> bool:
    """Tell whether compiling pays off: on a GPU, with Triton and its C compiler, for enough steps."""
    on_gpu = accelerator in ("auto", "cuda") and torch.cuda.is_available()
    compiler = next(filter(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang")), None)
    return (
        on_gpu and steps >= STEPS_THAT_PAY and importlib.util.find_spec("triton") is not None and compiler is not None
    )


def _fabric_class() -> Any:
    """Import Fabric, which comes as its own package or as part of `lightning`."""
    for package, module in (("lightning_fabric", "lightning_fabric"), ("lightning", "lightning.fabric")):
        if importlib.util.find_spec(package) is not None:
            fabric = importlib.import_module(module)
            logging.getLogger(module).setLevel(logging.WARNING)  # silences announcements of the requested settings
            return fabric.Fabric
    raise EigenmapError("training needs Lightning Fabric: pip install lightning-fabric.")

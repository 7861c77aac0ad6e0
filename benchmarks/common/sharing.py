"""Several processes on one GPU at the same time, by NVIDIA's Multi-Process Service (MPS).

    with shared_gpu():
        start_processes()  # they inherit the environment variables, which name the service

Without the service, processes on a GPU take turns, each with an equal slice of time, even if its kernels are small.
With it, 119 jobs of the study of graphs took 540 s on an H200, fifteen side by side. No setting of the card is changed.
Timed runs should not use it (`without_sharing`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
FIRST_CONTEXT = """
import ctypes, sys
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
sys.exit(cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0)
         or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
"""
"""Program that ends with 0 if a process can use the GPU."""
PATIENCE = 30.0
"""Seconds after which a service that has not answered counts as broken."""


@contextmanager
def shared_gpu() -> Iterator[bool]:
    """Run the service while the block runs; yield whether it runs. Without a GPU, or with a service, do nothing."""
    command = shutil.which(CONTROL)
    if command is None or PIPES in os.environ:
        yield PIPES in os.environ
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        variables = {PIPES: folder, LOGS: folder}
        environment = {**os.environ, **variables}
        started = subprocess.run(
            [command, "-d"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if started.returncode != 0:
            yield False
            return
        try:
            works = _answers(environment)
            os.environ.update(variables if works else {})
            yield works
        finally:
            subprocess.run([command], input=b"quit\n", env=environment, capture_output=True, check=False)
            for name in variables:
                os.environ.pop(name, None)


def _answers(environment: Mapping[str, str]) -> bool:
    """Tell whether a process can use the GPU through the service."""
    try:
        words = [sys.executable, "-c", FIRST_CONTEXT]
        return subprocess.run(words, env=environment, capture_output=True, timeout=PATIENCE).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def without_sharing(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that has the GPU to itself."""
    return {name: value for name, value in environment.items() if name not in (PIPES, LOGS)}

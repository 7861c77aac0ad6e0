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
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"


@contextmanager
def shared_gpu() -> Iterator[bool]:
    """Run the service while the block runs; yield whether it runs. Without a GPU, or with a service, do nothing."""
    command = shutil.which(CONTROL)
    if command is None or PIPES in os.environ:
        yield PIPES in os.environ
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        variables = {PIPES: folder, LOGS: folder}
        started = subprocess.run(
            [command, "-d"],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if started.returncode != 0:
            yield False
            return
        os.environ.update(variables)
        try:
            yield True
        finally:
            subprocess.run([command], input=b"quit\n", env=dict(os.environ), capture_output=True, check=False)
            for name in variables:
                del os.environ[name]


def without_sharing(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that has the GPU to itself."""
    return {name: value for name, value in environment.items() if name not in (PIPES, LOGS)}

"""The machine and the software that a run was made with."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """Versions, machine, threads, and how much memory this process has needed at most."""
    from eigenmap import __version__

    return {
        "eigenmap": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "peak_memory_mb": peak_memory_mb(),
    }


def peak_memory_mb() -> int | None:
    """The most memory this process ever held, in MB; None where the system does not say (Windows)."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3))  # macOS counts bytes, others kilobytes

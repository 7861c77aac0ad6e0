"""Provenance of a model: settings, machine and software."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import torch

from eigenmap.core.words import count
from eigenmap.training.loop import TrainingResult


def training_provenance(
    recipe: Any, seed: int, result: TrainingResult, alignment_seconds: float, device: torch.device
) -> dict[str, Any]:
    """Return the record of a training that is stored with the model; `recipe` is a dataclass of any kind."""
    settings = {**asdict(recipe), "objective_options": dict(recipe.objective_options)}
    if "steps" in settings:
        settings["steps"] = result.steps  # determined by the time limit, if there was one
    return {
        "recipe": settings,
        "seed": seed,
        "steps": result.steps,
        "seconds": round(result.seconds, 1),
        "alignment_seconds": round(alignment_seconds, 1),
        "final": result.history[-1] if result.history else {},
        "device": device_name(device),
        "torch": torch.__version__,
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "environment": environment(),
    }


def device_name(device: torch.device) -> str:
    """Describe a device for the record of a run."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"mps ({platform.machine()})"
    return f"cpu ({platform.machine()}, {count(torch.get_num_threads(), 'thread')})"


def environment() -> dict[str, Any]:
    """Return versions, machine, threads and the peak memory of this process."""
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
    """Return the peak memory of this process in MB, or None where the system does not report it (Windows)."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3))  # macOS counts bytes, others kilobytes

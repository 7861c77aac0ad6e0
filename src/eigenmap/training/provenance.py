"""Provenance of a model: how it was trained, and with which machine and software."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import torch

from eigenmap.training.loop import TrainingResult


def training_provenance(
    recipe: Any, seed: int, result: TrainingResult, alignment_seconds: float, device: torch.device
) -> dict[str, Any]:
    """What a model remembers of its training by any recipe (a dataclass), whatever it was trained on."""
    settings = {**asdict(recipe), "objective_options": dict(recipe.objective_options)}
    if "steps" in settings:
        settings["steps"] = result.steps  # a length in minutes has settled it
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
    """What a device is, for the record of a run."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu ({platform.machine()}, {torch.get_num_threads()} threads)"


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

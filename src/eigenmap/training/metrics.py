"""Training metrics: one JSON object per line, each step once, even after a kill and a resume."""

from __future__ import annotations

import importlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from torch import Tensor

from eigenmap.core.arguments import is_number
from eigenmap.core.devices import precise
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path, parse_json


class Record(TypedDict, total=False):
    """One line of metrics; values from `effective_rank` on are present only after a check."""

    step: int
    loss: float
    """Mean of the objective since the last record."""
    lr: float
    gradient_norm: float
    """Largest gradient norm since the last record, before clipping."""
    images_per_second: float
    """Items per second (each with two views) of all processes, without checks and checkpoints."""
    seconds: float
    """Seconds since the start of the run, without the time between a kill and its resume."""
    effective_rank: float
    n_components: int
    eigenvalues: list[float]
    """Held-out Rayleigh quotients along the leading principal directions of the codes."""
    monitor: dict[str, float | None]


class MetricsFile:
    """Metrics file `path` (None: memory only), started over or continued after `resume_step`.

    metrics = MetricsFile(Path("runs/mine/metrics.jsonl"), resume_step=500)   # lines after step 500 are dropped
    metrics.write({"step": 550, "loss": -1.2})
    """

    def __init__(self, path: Path | None, resume_step: int = 0, tensorboard: bool = False) -> None:
        self.path = path
        self.history: list[Record] = []
        self._board: Any = None
        if path is None:
            return
        if resume_step > 0 and path.exists():
            self.history = _until(path, resume_step)
        with atomic_path(path) as partial:
            partial.write_text("".join(map(_line, self.history)), encoding="utf-8")
        if tensorboard:
            self._board = _summary_writer(path.parent / "tensorboard", purge_step=resume_step + 1)

    def write(self, record: Record) -> None:
        """Append one record; it is in the file when this returns, and durable after `sync`."""
        self.history.append(record)
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(_line(record))
            except OSError as error:
                raise self._unwritable(error) from error
        if self._board is not None:
            for name, value in _scalars(record).items():
                self._board.add_scalar(name, value, record["step"])

    def _unwritable(self, error: OSError) -> EigenmapError:
        return EigenmapError(
            f"{self.path} cannot be written: {error.strerror}; resume to continue from the last checkpoint."
        )

    def sync(self) -> None:
        """Make all records durable, as a checkpoint requires."""
        if self.path is not None:
            try:
                with self.path.open("r+b") as file:  # Windows flushes only what can be written
                    os.fsync(file.fileno())
            except OSError as error:
                raise self._unwritable(error) from error

    def close(self) -> None:
        """Flush TensorBoard's buffers."""
        if self._board is not None:
            self._board.close()


def read(path: Path) -> list[Record]:
    """Return all complete records of a metrics file, without a last line truncated by a kill."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]  # what follows the last newline is incomplete
        return [_record(parse_json(line)) for line in lines]
    except OSError as error:
        raise EigenmapError(f"the metrics file {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise EigenmapError(f"the metrics file {path} is damaged ({error}); move it away.") from error


def _record(line: Any) -> Record:
    """Validate a line of the file; raise ValueError if a run cannot have written it."""
    if not isinstance(line, dict) or type(line.get("step")) is not int or line["step"] < 0:
        raise ValueError("a line has no step")
    for name, value in line.items():
        if name == "eigenvalues":
            fits = isinstance(value, list) and all(map(is_number, value))
        elif name == "monitor":
            fits = isinstance(value, dict) and all(v is None or is_number(v) for v in value.values())
        else:
            fits = is_number(value)
        if not fits:
            raise ValueError(f"{name[:40]} of step {line['step']} is not a number")
    return cast(Record, line)


def _until(path: Path, step: int) -> list[Record]:
    """Return the records up to a checkpoint's step; a power cut may have damaged later ones."""
    kept: list[Record] = []
    damaged = False
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            record = _record(parse_json(line))
        except ValueError:
            damaged = True
            continue
        if record["step"] <= step:
            if damaged:
                raise EigenmapError(f"the metrics file {path} is damaged before step {record['step']}; move it away.")
            kept.append(record)
    return kept


def _line(record: Record) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Convert values of a monitor for JSON: values that are not finite become null."""
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}


def _scalars(record: Record) -> dict[str, float]:
    """Return flat names and numbers for TensorBoard: eigenvalues/1, monitor/knn."""
    flat: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, int | float):
            flat[name] = value
        elif isinstance(value, list):
            flat |= {f"{name}/{j}": v for j, v in enumerate(value, start=1)}
        elif isinstance(value, dict):
            flat |= {f"{name}/{key}": v for key, v in value.items() if v is not None}
    flat.pop("step")
    return flat


def _summary_writer(folder: Path, purge_step: int) -> Any:
    try:
        module = importlib.import_module("torch.utils.tensorboard")
    except ModuleNotFoundError as error:
        raise EigenmapError(
            "tensorboard is switched on but not installed: pip install 'eigenmap[tensorboard]', or switch it off."
        ) from error
    return module.SummaryWriter(folder, purge_step=purge_step)


class Window:
    """Losses, gradient norms and speed since the last record, kept on the device until `read`.

    Its clock shows the seconds of the run, starting at `seconds`.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._zero = time.perf_counter() - seconds
        self.clear()

    def seconds(self) -> float:
        """Seconds of the run so far."""
        return time.perf_counter() - self._zero

    def clear(self) -> None:
        """Discard all values and restart the measurement of speed."""
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []
        self._images = 0
        self._began = self.seconds()

    def add(self, loss: Tensor, norm: Tensor, images: int) -> None:
        """Add one step without waiting for the device."""
        self._losses.append(loss)
        self._norms.append(norm)
        self._images += images

    def read(self, step: int, rate: float) -> Record:
        """Return the record of the window; this waits for the device."""
        loss = precise(torch.stack(self._losses)).mean().item()
        norm = torch.stack(self._norms).max().item()
        seconds = self.seconds()
        speed = self._images / (seconds - self._began)
        return Record(step=step, loss=loss, lr=rate, gradient_norm=norm, images_per_second=speed, seconds=seconds)

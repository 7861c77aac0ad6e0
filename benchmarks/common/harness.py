"""Storage of results, with the machine and commit that produced them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from benchmarks import ROOT
from benchmarks.common import jsontext


def environment() -> dict[str, Any]:
    """Return date, commit and machine of a run; outside the repository, `EIGENMAP_COMMIT` gives the commit."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": os.environ.get("EIGENMAP_COMMIT") or _commit(),
        "device": torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else f"cpu, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _commit() -> str:
    """Return the commit, with "-dirty" if files have changed, other than the results and pages that runs write."""
    code = [":(top)", ":(top,exclude,glob)benchmarks/*/results/**", ":(top,exclude)docs"]
    try:
        commit = _git("describe", "--always")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", *code)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    answer = subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=ROOT)
    return answer.stdout.strip()


def stored_rows(file: Path, protocol: dict[str, Any]) -> list[dict[str, Any]]:
    """Return earlier measurements under the same protocol, so that an interrupted run continues."""
    result = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    rows: list[dict[str, Any]] = result["rows"] if result.get("protocol") == protocol else []
    return rows


def write(path: Path, result: dict[str, Any]) -> None:
    """Write a result atomically, so that an interrupted run leaves no partial one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(as_text(result), encoding="utf-8")
    partial.replace(path)


def as_text(result: dict[str, Any]) -> str:
    """Return a result as stored, with numbers rounded to five digits."""
    return jsontext.text(_rounded(result)) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(name): _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

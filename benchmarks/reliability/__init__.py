"""Experiments with kills, full disks, damaged files, load and long runs."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

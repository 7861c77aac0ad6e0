"""Kills, full disks, damaged files, load and time: experiments with a seed and a number of rounds."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

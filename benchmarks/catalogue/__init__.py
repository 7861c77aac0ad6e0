"""Codes of the embedded catalogue, on a CPU."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

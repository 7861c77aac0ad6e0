"""The server of the explorer under load and under generated requests."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

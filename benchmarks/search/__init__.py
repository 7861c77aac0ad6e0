"""Search among codes: speed, recall, bytes and memory."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

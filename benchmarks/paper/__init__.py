"""The paper's tables and figures at a scale that one GPU can run."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

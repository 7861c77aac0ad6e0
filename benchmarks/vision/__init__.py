"""Image codes on larger sets, the speed of training, and the cost of evaluation."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

"""Benchmarks, one folder per study; `python -m benchmarks` runs them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The repository."""
DOCS = ROOT / "docs"

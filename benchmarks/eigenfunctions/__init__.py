"""Kernels whose eigenfunctions are known, and what kernel methods cost."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

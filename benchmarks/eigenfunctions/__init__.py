"""Kernels with known eigenfunctions, and the cost of kernel methods."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

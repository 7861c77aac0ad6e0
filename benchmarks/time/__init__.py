"""Slow modes of time series, compared with deeptime's TICA, VAMP and VAMPNet on systems with known eigenvalues."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

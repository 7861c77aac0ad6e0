"""Embedding many images, and search in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

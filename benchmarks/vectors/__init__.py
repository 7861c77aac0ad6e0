"""Vectors people already have: short codes from pairs beside PCA, CCA, Matryoshka heads and quantisers."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

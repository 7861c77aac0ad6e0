"""Short codes of existing vectors, compared with PCA, CCA, Matryoshka heads and quantisers."""

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

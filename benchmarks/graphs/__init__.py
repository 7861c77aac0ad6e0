"""Node codes compared with supervised and self-supervised rivals, spectra of graphs, and a graph of millions."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent / "results"

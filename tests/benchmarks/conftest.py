"""Benchmarks are scripts beside the package: their folder has to be found."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

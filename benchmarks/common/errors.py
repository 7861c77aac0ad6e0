"""Errors in the command line of a benchmark."""

from __future__ import annotations


class BenchmarkError(Exception):
    """One clear sentence; the command prints it and ends with exit code 2."""

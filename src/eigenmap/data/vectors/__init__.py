"""Vectors people already have: rows of numbers in files or in memory, pairs of them, and judged relevance."""

"""Existing vectors: rows of numbers in files or in memory, pairs of them, and relevance judgements."""

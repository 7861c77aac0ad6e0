"""Closed-form codes of vectors: moments of pairs in one pass, an eigenproblem, and choices on held-out pairs."""

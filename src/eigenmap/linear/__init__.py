"""Closed-form codes of vectors: moments of pairs in one pass, an eigenproblem, and every choice on held-out pairs."""

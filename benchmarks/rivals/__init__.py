"""Rivals that the library does not have, written here small and as published.

Of eigenfunctions (full batches), and of node codes: every row of the paper's Table 6, and BGRL.
"""

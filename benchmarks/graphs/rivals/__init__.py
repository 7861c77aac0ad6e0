"""Rivals of node codes: supervised, spectral, from random walks, and self-supervised."""

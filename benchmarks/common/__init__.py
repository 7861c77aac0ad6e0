"""Pieces that every study uses."""

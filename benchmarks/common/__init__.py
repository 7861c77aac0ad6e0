"""Modules shared by all studies."""

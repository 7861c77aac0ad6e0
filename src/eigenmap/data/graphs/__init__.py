"""Graphs: nodes with features, their adjacency, and loading from files and other libraries."""

"""Graphs: nodes with features, their adjacency, and the files and libraries they come from."""

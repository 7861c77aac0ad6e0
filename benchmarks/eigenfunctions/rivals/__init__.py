"""Rivals of the eigenfunction estimator: exact solvers, and other objectives for networks."""

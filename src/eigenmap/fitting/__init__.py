"""Fitting: from data to a trained, ordered model.

`images`, `graph` and `vectors` read their data and state a `Problem`; `pipeline` solves it.
"""

"""Fitting: from data to a trained, ordered model.

`images`, `graph` and `vectors` are the front doors: each reads its data and states its `Problem`. `pipeline` solves any
of them.
"""

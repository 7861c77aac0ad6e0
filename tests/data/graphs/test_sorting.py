"""Entries sorted part by part equal those of scipy, however small the parts."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.data.graphs.sorting import EdgeList


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=40),
    piece=st.integers(1, 50),
    mirror=st.booleans(),
    loops=st.booleans(),
    weighted=st.booleans(),
)
def test_parts_are_the_entries_of_the_matrix(
    edges: list[tuple[int, int, int]], piece: int, mirror: bool, loops: bool, weighted: bool
) -> None:
    rows, columns, weights = (np.array(part) for part in zip(*edges, strict=True))
    kept = np.full(len(rows), True) if loops else rows != columns
    if not kept.any():
        return
    matrix = scipy.sparse.coo_matrix((weights[kept].astype(float), (rows[kept], columns[kept])), shape=(7, 7)).toarray()
    there = matrix > 0
    expected = matrix + matrix.T if mirror else matrix
    listed = EdgeList(
        torch.from_numpy(rows),
        torch.from_numpy(columns),
        torch.from_numpy(weights).double() if weighted else None,
        n_nodes=7,
        mirror=mirror,
        loops=loops,
    )
    seen: list[tuple[int, int]] = []
    parts = list(listed.parts(piece, lambda done, total: seen.append((done, total))))
    found_rows, found_columns = (torch.cat([getattr(part, name) for part in parts]) for name in ("rows", "columns"))
    assert list(zip(found_rows.tolist(), found_columns.tolist(), strict=True)) == list(
        map(tuple, np.argwhere(expected > 0).tolist())
    )
    if weighted:
        sums = torch.cat([part.sums for part in parts if part.sums is not None])
        np.testing.assert_array_equal(sums.numpy(), expected[expected > 0])
    else:
        assert all(part.sums is None for part in parts)
    assert sum(part.listed for part in parts) == there.sum()
    for part in parts:
        assert bool(((part.rows >= part.first) & (part.rows < part.last)).all())
    assert seen[-1][0] == seen[-1][1] and [done for done, _ in seen] == sorted(done for done, _ in seen)

"""Batches of pairs as row numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.trajectories import Trajectory
from eigenmap.relations.lagged import lagged
from eigenmap.relations.pair_batches import PairBatches, PairRows
from eigenmap.relations.pairs import views

from .test_pairs import vectors


def test_rows_that_are_kept_are_those_that_are_gathered() -> None:
    pairs = views(vectors(), [vectors(seed=1), vectors(seed=2)])
    gathered, kept = PairRows(pairs.fit), PairRows(pairs.fit)
    kept.keep_on(torch.device("cpu"))
    batch = PairBatches(gathered, pairs.fit, 64, seed=0).batch(0)
    for numbers in (batch.x, batch.x_plus):
        torch.testing.assert_close(kept(numbers), gathered(numbers), rtol=0, atol=0)
    assert kept.n_bytes == 4 * 200 * 5 * len(kept.sources)


def test_a_pass_visits_every_pair_once_on_all_processes_together() -> None:
    pairs = views(vectors(), [vectors(seed=1)])
    rows = PairRows(pairs.fit)
    halves = [PairBatches(rows, pairs.fit, 20, 0, rank=rank, world_size=2) for rank in (0, 1)]
    steps = len(halves[0]) // 20
    seen = np.concatenate([half.batch(step).x.numpy() for half in halves for step in range(steps)])
    assert len(np.unique(seen)) == len(seen) == 20 * steps


def test_all_processes_have_equally_many_pairs() -> None:
    """Also if there are fewer pairs than a batch asks for: rows of unequal number could not be joined."""
    pairs = views(vectors(n=51), [vectors(n=51, seed=1)])
    rows = PairRows(pairs.fit)
    assert sum(map(len, pairs.fit)) % 2 == 1
    for rank in (0, 1):
        batches = PairBatches(rows, pairs.fit, 64, 0, rank=rank, world_size=2)
        assert len(batches.batch(0).x) == len(batches) // 2
    with pytest.raises(EigenmapError, match=r"batch size 21.*processes.* 2"):
        PairBatches(rows, pairs.fit, 21, 0, world_size=2)


def test_held_out_pairs_of_several_files_are_rows_of_these_files() -> None:
    """Whole trajectories are held out, so training pairs and held-out pairs are of different files."""
    series = [Trajectory(vectors(100, seed=k), 0, 100) for k in range(10)]
    pairs = lagged(series, 5)
    rows = PairRows([*pairs.fit, *pairs.held_out])
    batch = PairBatches(rows, pairs.held_out, 1024, seed=0).batch(0)
    (part,) = pairs.held_out
    known = {part.left.take(part.i[[k]]).tobytes(): part.right.take(part.j[[k]]).tobytes() for k in range(len(part))}
    found = zip(rows(batch.x).numpy(), rows(batch.x_plus).numpy(), strict=True)
    assert {row.tobytes(): other.tobytes() for row, other in found} == known
    assert bool((batch.x < rows.n_left).all() and (batch.x_plus >= rows.n_left).all())

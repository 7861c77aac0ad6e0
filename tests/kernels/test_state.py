"""State of a solver; tests/estimators/test_saved.py covers files, damage and all kinds of kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenmap import EigenmapError
from eigenmap.kernels.relation import KernelRelation, make_relation
from eigenmap.kernels.solver import Settings, Solver
from eigenmap.kernels.state import check_state, found_state, restore, restore_found, solver_state

SETTINGS = Settings(3, "auto", {}, "auto", {"width": 8, "depth": 1}, 16, 4, 0.0, 5e-3, 20)
PATH, CPU = Path("model/model.json"), torch.device("cpu")


def relation(seed: int) -> KernelRelation:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return make_relation(x, None, "rbf", None, None, seed, 8)


def test_a_restored_solver_evaluates_and_trains_on_alike() -> None:
    first = relation(0)
    solver = Solver(SETTINGS, first, seed=1)
    found = solver.fit(first)
    numbers, tensors = solver_state(solver)
    about, more = found_state(found, solver.functions.head)
    check_state(numbers, about, tensors | more, 2, PATH)
    again = restore(SETTINGS, numbers, tensors, PATH, CPU)
    found_again = restore_found(again, about, more, PATH, CPU)
    assert torch.equal(found_again.eigenvalues, found.eigenvalues) and found_again.groups == found.groups
    assert torch.equal(again.functions(first.x), solver.functions(first.x))
    for each in (solver, again):
        each.partial(relation(2))
    kernel = first.kernel
    assert torch.equal(again.align_reservoir(kernel).eigenvalues, solver.align_reservoir(kernel).eigenvalues)
    assert torch.equal(again.reservoir.points, solver.reservoir.points)


def test_the_state_is_a_copy() -> None:
    solver = Solver(SETTINGS, relation(0), seed=1)
    tensors = solver_state(solver)[1]
    before = tensors["trainer.head.weight"].clone()
    solver.partial(relation(2))
    assert torch.equal(tensors["trainer.head.weight"], before)
    assert not torch.equal(solver.trainer.network.state_dict()["head.weight"], before)


def test_wrong_numbers_name_the_file() -> None:
    numbers, tensors = solver_state(Solver(SETTINGS, relation(0), seed=1))
    with pytest.raises(EigenmapError, match=r"model/model\.json.*solver\.unit"):
        check_state({**numbers, "unit": -1.0}, None, tensors, 2, PATH)
    with pytest.raises(EigenmapError, match=r"model/model\.safetensors.*standardise\.mean"):
        check_state(numbers, None, tensors, 3, PATH)

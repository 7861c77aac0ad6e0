from __future__ import annotations

import pytest
import torch

from eigenmap.kernels.relation import make_relation
from eigenmap.kernels.ritz import DISTINCT
from eigenmap.kernels.solver import Settings, Solver

X = torch.randn(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def settings(**changes: object) -> Settings:
    given: dict[str, object] = {
        "n_components": 3,
        "objective": "auto",
        "objective_params": {},
        "network": "auto",
        "network_params": {"width": 32},
        "batch_size": 128,
        "max_steps": 5,
        "tol": 0.0,
        "learning_rate": 1e-3,
        "reference_size": 100,
    }
    return Settings(**{**given, **changes})  # type: ignore[arg-type]


def test_points_that_judge_are_neither_trained_on_nor_part_of_the_reference_block() -> None:
    relation = make_relation(X, None, "rbf", None, None, seed=0, edges=8)
    seen: list[torch.Tensor] = []

    def kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.exp(-torch.cdist(x.double(), y.double()).square() / 2).to(x)

    relation = make_relation(X, None, kernel, None, None, seed=0, edges=8)
    solver = Solver(settings(), relation, seed=0)
    seen.clear()  # the kernel was tried in float32 before training
    judged = []
    align = solver.align

    def spy(operator, judging, solution=None):  # type: ignore[no-untyped-def]
        trained = {tuple(row) for x in seen if x.dtype == torch.float32 for row in x.tolist()}
        judged.append((trained, judging))
        own = {tuple(row) for row in operator.x.tolist()}
        assert not own & {tuple(row) for row in judging.x.tolist()}
        return align(operator, judging, solution)

    solver.align = spy  # type: ignore[method-assign]
    found = solver.fit(relation)
    trained, judging = judged[0]
    assert len(trained) > 100 and len(judging.x) == 100
    assert not trained & {tuple(row) for row in judging.x.float().tolist()}
    torch.testing.assert_close(found.eigenvalues, found.held_out_eigenvalues)


def test_the_same_seed_gives_the_same_fit() -> None:
    relation = make_relation(X, None, "rbf", None, None, seed=0, edges=8)
    one, two, other = (Solver(settings(), relation, seed).fit(relation).eigenvalues for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_data_far_from_the_origin_is_trained_on_in_double_precision() -> None:
    near, far = (make_relation(x, None, "rbf", None, None, seed=0, edges=8) for x in (X, X + 1e5))
    assert Solver(settings(), near, 0).dtype == torch.float32
    assert Solver(settings(), far, 0).dtype == torch.float64
    assert Solver(settings(batch_size=300), near, 0).dtype == torch.float64


@pytest.mark.slow
def test_the_edges_of_a_random_graph_are_not_learned_by_heart() -> None:
    generator = torch.Generator().manual_seed(0)
    side = torch.arange(300) % 2

    def nodes() -> torch.Tensor:
        return side[:, None] * 2.0 - 1 + 0.3 * torch.randn(300, 3, generator=generator, dtype=torch.float64)

    x, new = nodes(), nodes()
    chance = torch.where(side[:, None] == side, 0.4, 0.3).double()
    upper = (torch.rand(300, 300, generator=generator, dtype=torch.float64) < chance).double().triu(1)
    relation = make_relation(x, None, "precomputed", None, upper + upper.T, seed=0, edges=8)
    chosen = settings(n_components=2, batch_size=512, network_params={"width": 256}, max_steps=100)
    solver = Solver(chosen, relation, seed=0)
    solver.fit(relation)

    def agreement(head: torch.Tensor) -> float:
        second = solver.functions.span(new) @ head[:, 1]
        return abs(float(torch.nn.functional.cosine_similarity(second, side.double() * 2 - 1, dim=0)))

    assert agreement(solver.functions.head) > 0.95
    solver.ridge = DISTINCT  # the full span fits the noise and does not generalise to other nodes
    assert agreement(solver._solve(relation.operator()).head) < 0.5


def test_the_first_layer_is_chosen_after_a_round_of_training() -> None:
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    relation = make_relation(x, None, "rbf", None, None, seed=0, edges=8)
    solver = Solver(settings(n_components=4, batch_size=256, max_steps=40), relation, seed=0)
    gains = [functions.network for functions in (solver.functions, *solver.others)]
    assert len(gains) == 2
    found = solver.fit(relation)
    assert solver.trainer.steps == 40 and len(found.eigenvalues) == 4

    alone = []
    for number in range(2):
        again = Solver(settings(n_components=4, batch_size=256, max_steps=40), relation, seed=0)
        again.functions, again.others = [again.functions, *again.others][number], []
        alone.append(float(again.fit(relation).residual.mean()))
    assert float(found.residual.mean()) <= max(alone)

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import SimSiam
from eigenmap.objectives.learning import Predictor

from .reference import assert_matches, example, normalised, normalised_rows, probabilities


def predictions(predictor: Predictor, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None) -> list[Tensor]:
    """Predictions for both views, row by row, with statistics over both views."""
    W = {name: value.detach().double() for name, value in predictor.named_parameters()}
    first = [torch.stack([W["first.weight"] @ row for row in view]) for view in (psi, psi_plus)]

    def second(row: Tensor) -> Tensor:
        return W["second.weight"] @ (W["gamma"] * row + W["beta"]).clamp_min(0) + W["second.bias"]

    return [torch.stack([second(row) for row in view]) for view in normalised(*first, kernel, centre=True)]


def cosines(a: Tensor, b: Tensor) -> list[Tensor]:
    a, b = (normalised_rows(view, "normalised", 1.0) for view in (a, b))
    return [sum(x * y for x, y in zip(one, other, strict=True)) for one, other in zip(a, b, strict=True)]


def begun(hidden: int | None = 5, k: int = 4) -> SimSiam:
    objective = SimSiam(hidden)
    objective.begin(k, seed=3)
    with torch.no_grad():  # move away from the neutral initial values
        objective.predictor.gamma.add_(torch.linspace(-0.3, 0.4, len(objective.predictor.gamma)))
        objective.predictor.beta.add_(torch.linspace(0.5, -0.2, len(objective.predictor.beta)))
    return objective


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
def test_is_its_equation(kernel: str) -> None:
    objective = begun()

    def reference(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        z, z_plus = normalised(psi, psi_plus, K, centre=True)
        p, p_plus = predictions(objective.predictor, z, z_plus, K)
        halves = cosines(p, z_plus.detach()), cosines(p_plus, z.detach())
        shares = probabilities(len(psi), K)
        return -sum(q * (one + other) / 2 for q, one, other in zip(shares, *halves, strict=True))

    assert_matches(objective, reference, kernel)


def test_the_predictor_learns_and_is_a_quarter_wide_by_default() -> None:
    objective = begun(None, k=8)
    assert objective.predictor.first.weight.shape == (2, 8)
    psi, psi_plus, _ = example("pairs", k=8)
    objective(psi, psi_plus).backward()
    for name, parameter in objective.named_parameters():
        assert parameter.grad is not None and float(parameter.grad.abs().max()) > 0, name


def test_the_gradient_of_the_predictor_is_that_of_small_differences() -> None:
    objective = begun().double()
    psi, psi_plus, K = example("weights")
    objective(psi, psi_plus, K).backward()
    weight = objective.predictor.second.weight
    assert weight.grad is not None
    for place in ((0, 0), (3, 2)):
        values = []
        for step in (1e-6, -2e-6):
            with torch.no_grad():
                weight[place] += step
                values.append(float(objective(psi, psi_plus, K)))
        with torch.no_grad():
            weight[place] += 1e-6
        assert float(weight.grad[place]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_it_begins_once_and_from_its_seed() -> None:
    one, two, other = SimSiam(), SimSiam(), SimSiam()
    state = torch.get_rng_state()
    for objective, seed in ((one, 0), (two, 0), (other, 1)):
        objective.begin(6, seed)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.predictor.first.weight, two.predictor.first.weight)
    assert not torch.equal(one.predictor.first.weight, other.predictor.first.weight)
    before = one.predictor
    one.begin(6, 5)
    assert one.predictor is before
    with pytest.raises(EigenmapError, match=r"SimSiam .*6 features.*7"):
        one.begin(7)


@pytest.mark.parametrize("hidden", [0, -1, 1.5, "4"])
def test_bad_width(hidden: object) -> None:
    with pytest.raises(EigenmapError, match="hidden must be"):
        SimSiam(hidden)  # type: ignore[arg-type]

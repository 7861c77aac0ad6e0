from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import MoCo

from .reference import assert_matches, example, normalised_rows, probabilities


def half(psi: Tensor, keys: Tensor, queue: Tensor, temperature: float) -> list[Tensor]:
    """Cross-entropy of finding the key, query by query."""
    values = []
    for q, t in zip(normalised_rows(psi, "normalised", 1.0), normalised_rows(keys, "normalised", 1.0), strict=True):
        positive = (q @ t / temperature).exp()
        total = positive
        for negative in queue:
            total = total + (q @ negative / temperature).exp()
        values.append(-(positive / total).log())
    return values


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_is_its_equation(kernel: str, symmetric: bool) -> None:
    objective = MoCo(temperature=0.3, queue=5, symmetric=symmetric)
    objective.begin(4, seed=2)
    t, t_plus = example("pairs", seed=9)[:2]

    def reference(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        queue = objective.queue.double()
        shares = probabilities(len(psi), K)
        first = sum(q * value for q, value in zip(shares, half(psi, t_plus, queue, 0.3), strict=True))
        second = sum(q * value for q, value in zip(shares, half(psi_plus, t, queue, 0.3), strict=True))
        return (first + second) / 2 if symmetric else first + 0 * second

    def found(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        loss: Tensor = objective(psi, psi_plus, K, (t, t_plus))
        return loss + 0 * psi_plus.sum()  # a zero gradient instead of none

    assert_matches(found, reference, kernel)  # type: ignore[arg-type]


def test_the_queue_holds_the_last_keys_newest_batch_first() -> None:
    objective = MoCo(queue=10)
    objective.begin(4)
    torch.testing.assert_close(torch.linalg.vector_norm(objective.queue, dim=1), torch.ones(10))
    batches = [example("pairs", B=3, seed=seed)[:2] for seed in range(2)]
    for t, t_plus in batches:
        objective(t, t_plus, None, (t, t_plus))
        objective.after_step()
    keys = [normalised_rows(torch.cat(views), "normalised", 1.0).float() for views in batches]
    torch.testing.assert_close(objective.queue, torch.cat([keys[1], keys[0][:4]]))
    objective.after_step()  # nothing new
    torch.testing.assert_close(objective.queue, torch.cat([keys[1], keys[0][:4]]))


def test_a_batch_longer_than_the_queue_fills_it() -> None:
    objective = MoCo(queue=4)
    psi, psi_plus, _ = example("pairs", B=6)
    objective(psi, psi_plus)
    objective.after_step()
    torch.testing.assert_close(objective.queue, normalised_rows(psi[:4], "normalised", 1.0).float())


@pytest.mark.parametrize(("option", "value"), [("queue", 0), ("groups", 1.5), ("temperature", 0), ("momentum", 2)])
def test_bad_options(option: str, value: object) -> None:
    with pytest.raises(EigenmapError, match=f"{option} must be"):
        MoCo(**{option: value})  # type: ignore[arg-type]

"""Properties that all objectives share."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import OBJECTIVES, LearningObjective, build
from eigenmap.objectives.moments import squared_moments
from eigenmap.objectives.nested import nested_product

from .reference import LEARNING, NO_GRAM, example

every_objective = pytest.mark.parametrize("name", OBJECTIVES)


def kernels(name: str) -> list[str]:
    return ["pairs", "weights"] if name in NO_GRAM else ["pairs", "weights", "block", "sparse"]


every_kernel = pytest.mark.parametrize(("name", "kernel"), [(n, k) for n in OBJECTIVES for k in kernels(n)])


@every_kernel
def test_the_order_of_the_batch_does_not_matter(name: str, kernel: str) -> None:
    objective = build(name)
    psi, psi_plus, K = example(kernel, B=7, k=5)
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(len(psi), generator=generator)
    order_plus = torch.randperm(len(psi_plus), generator=generator) if kernel in ("block", "sparse") else order
    shuffled = None if K is None else K.to_dense()[order]
    if shuffled is not None and shuffled.ndim == 2:
        shuffled = shuffled[:, order_plus]
    torch.testing.assert_close(objective(psi, psi_plus, K), objective(psi[order], psi_plus[order_plus], shuffled))


@every_kernel
def test_the_two_views_are_alike(name: str, kernel: str) -> None:
    objective = build(name)
    psi, psi_plus, K = example(kernel, B=7, k=5)
    swapped = K if K is None or K.ndim == 1 else K.to_dense().T
    torch.testing.assert_close(objective(psi, psi_plus, K), objective(psi_plus, psi, swapped))


COUNTING = ("simclr", "info-nce", "matryoshka-info-nce")


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in COUNTING])
def test_a_pair_of_weight_zero_is_not_there(name: str) -> None:
    """Cross-entropies are left out: they sum over negatives, so their value depends on the batch size."""
    objective = build(name)
    psi, psi_plus, _ = example("pairs", B=7, k=5)
    weights = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.5, 0.0, 3.0])
    there = weights > 0
    expected = objective(psi[there], psi_plus[there], weights[there])
    torch.testing.assert_close(objective(psi, psi_plus, weights), expected)


@every_objective
def test_equal_weights_of_any_size_are_no_weights(name: str) -> None:
    objective = build(name)
    psi, psi_plus, _ = example("pairs", B=7, k=5)
    torch.testing.assert_close(objective(psi, psi_plus, torch.full((7,), 5.0)), objective(psi, psi_plus))


@every_kernel
def test_float32_is_close_to_float64(name: str, kernel: str) -> None:
    objective = build(name)
    psi, psi_plus, K = example(kernel, B=16, k=12)
    loss = objective(psi.float(), psi_plus.float(), K)
    assert loss.dtype == torch.float32 and loss.shape == ()
    torch.testing.assert_close(loss.double(), objective(psi, psi_plus, K), rtol=1e-4, atol=1e-5)


@every_kernel
def test_autocast_does_not_reach_the_moments(name: str, kernel: str) -> None:
    """The network returns bfloat16 codes; the objective computes in float32."""
    objective = build(name)
    psi, psi_plus, K = example(kernel, B=16, k=12)
    x, y = psi.bfloat16().requires_grad_(), psi_plus.bfloat16()
    outside = objective(x.float(), y.float(), K)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = objective(x, y, K)
    (gradient,) = torch.autograd.grad(inside, x)
    assert inside.dtype == torch.float32 and gradient.dtype == torch.bfloat16
    assert torch.isfinite(inside) and torch.isfinite(gradient).all()
    torch.testing.assert_close(inside, outside, rtol=1e-6, atol=1e-6)
    full_precision = objective(psi, psi_plus, K).float()
    torch.testing.assert_close(inside, full_precision, rtol=0.05, atol=0.05 * float(full_precision.detach().abs() + 1))


@every_objective
@settings(max_examples=10, deadline=None)
@given(B=st.integers(2, 9), k=st.integers(1, 9))
def test_any_shape(name: str, B: int, k: int) -> None:
    psi, psi_plus, _ = example("pairs", B=B, k=k)
    psi.requires_grad_()
    loss = build(name)(psi, psi_plus)
    (gradient,) = torch.autograd.grad(loss, psi)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()


@every_objective
def test_collapsed_codes_stay_finite(name: str) -> None:
    psi = torch.ones(8, 4, requires_grad=True)
    loss = build(name)(psi, torch.ones(8, 4))
    (gradient,) = torch.autograd.grad(loss, psi)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()


@every_objective
def test_no_gradient_is_asked_of_evaluation(name: str) -> None:
    psi, psi_plus, _ = example("pairs")
    with torch.no_grad():
        assert not build(name)(psi, psi_plus).requires_grad


@pytest.mark.parametrize("name", NO_GRAM)
def test_objectives_of_pairs_refuse_a_gram_block(name: str) -> None:
    with pytest.raises(EigenmapError, match="Gram"):
        build(name)(torch.ones(3, 2), torch.ones(3, 2), torch.ones(3, 3))


@pytest.mark.parametrize(
    ("psi", "psi_plus", "kernel", "message"),
    [
        (torch.ones(3), torch.ones(3), None, "two matrices"),
        (torch.ones(3, 2), torch.ones(3, 4), None, "columns"),
        (torch.ones(1, 2), torch.ones(1, 2), None, "2 rows"),
        (torch.ones(3, 2), torch.ones(4, 2), None, "many rows"),
        (torch.ones(3, 2), torch.ones(3, 2), torch.ones(4), "per pair"),
        (torch.ones(3, 2), torch.ones(3, 2), torch.ones(3, 3, 1), "per pair"),
        (torch.ones(3, 2), torch.ones(4, 2), torch.ones(4, 3), "must be 3 x 4"),
    ],
)
def test_shapes_that_do_not_fit(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        build("scl")(psi, psi_plus, kernel)


class PeakMemory(TorchDispatchMode):
    """Counter of the bytes of all live tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.held:
                    self.held[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.held.pop, storage._cdata, None)
        self.peak = max(self.peak, sum(self.held.values()))
        return made


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if not name.startswith("ritz") and name not in LEARNING])
def test_no_more_than_one_k_by_k_buffer_is_held(name: str) -> None:
    """Memory of value and gradient together; other buffers have the size of psi, which is small here."""
    B, k = 4, 2048
    objective = build(name)
    psi, psi_plus = (torch.randn(B, k, requires_grad=True) for _ in range(2))
    with PeakMemory() as memory:
        torch.autograd.grad(objective(psi, psi_plus), (psi, psi_plus))
    like_psi = 4 * B * k
    assert memory.peak <= 4 * k * k + 64 * like_psi


@pytest.mark.slow
@every_objective
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch.compile itself
def test_compiled_the_value_and_the_gradient_are_the_same(name: str) -> None:
    torch._dynamo.reset()
    psi, psi_plus, K = example("weights", B=7, k=5)
    views = [view.requires_grad_() for view in (psi, psi_plus)]
    made = [build(name) for _ in range(2)]
    for objective in made:
        if isinstance(objective, LearningObjective):
            objective.begin(5)
    # Trace only; generating code would take a minute.
    compiled = torch.compile(made[0], dynamic=False, backend="eager")
    found, wanted = (objective(*views, K) for objective in (compiled, made[1]))
    torch.testing.assert_close(found, wanted)
    for a, b in zip(torch.autograd.grad(found, views), torch.autograd.grad(wanted, views), strict=True):
        torch.testing.assert_close(a, b)
        assert float(a.abs().max()) > 0


def test_what_torch_2_11_compiles_wrongly_is_avoided() -> None:
    """torch 2.11 drops the gradient of an in-place output, and half of it for a tensor passed twice."""
    a, b = (torch.rand(7, 5, requires_grad=True) for _ in range(2))
    assert squared_moments(a, b)._version == 0
    assert nested_product(a, b, torch.linspace(1, 0, 5))._version == 0
    parents = [parent for parent, _ in squared_moments(a, a).grad_fn.next_functions if parent is not None]
    assert len(parents) == len(set(parents)) == 2


def test_an_objective_with_a_gradient_of_its_own_is_never_compiled_in_training() -> None:
    fusible = {name for name in OBJECTIVES if build(name).fusible}
    for name in fusible:
        psi, psi_plus, _ = example("pairs", B=7, k=5)
        nodes, seen = [build(name)(psi.requires_grad_(), psi_plus.requires_grad_()).grad_fn], set()
        while nodes:
            node = nodes.pop()
            if node is not None and node not in seen:
                assert not isinstance(node, torch.autograd.function.BackwardCFunction), name
                seen.add(node)
                nodes += [parent for parent, _ in node.next_functions]
    assert "scl" in fusible and "matryoshka-scl" in fusible
    assert fusible.isdisjoint({"neuralef", "neuralef-gram", "nested", "barlow-twins", "vicreg"})

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import NeuralEF, RitzTrace
from eigenmap.relations.kernel import KERNELS, KernelBlocks, gram_matrix, kernel_function


def points(n: int, d: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


X, Y = points(7), points(5, seed=1)
GRAM = X @ X.T


# Kernels


@pytest.mark.parametrize(
    ("name", "params", "theirs"),
    [
        ("rbf", {}, gp.RBF()),
        ("rbf", {"length_scale": 0.4}, gp.RBF(0.4)),
        ("rbf", {"length_scale": [0.4, 1.0, 2.0]}, gp.RBF([0.4, 1.0, 2.0])),
        ("matern", {}, gp.Matern()),
        ("matern", {"nu": 0.5, "length_scale": 0.7}, gp.Matern(0.7, nu=0.5)),
        ("matern", {"nu": 1.5, "length_scale": [0.7, 1.0, 2.0]}, gp.Matern([0.7, 1.0, 2.0], nu=1.5)),
        ("matern", {"nu": 2.5}, gp.Matern(nu=2.5)),
        ("matern", {"nu": math.inf, "length_scale": 2.0}, gp.Matern(2.0, nu=math.inf)),
        ("laplacian", {}, lambda x, y: pairwise.laplacian_kernel(x, y, gamma=1.0)),
        ("laplacian", {"length_scale": 4.0}, lambda x, y: pairwise.laplacian_kernel(x, y, gamma=0.25)),
        ("polynomial", {}, pairwise.polynomial_kernel),
        (
            "polynomial",
            {"degree": 2, "gamma": 0.5, "coef0": 3.0},
            lambda x, y: pairwise.polynomial_kernel(x, y, degree=2, gamma=0.5, coef0=3.0),
        ),
        ("cosine", {}, pairwise.cosine_similarity),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_is_scikit_learns(name: str, params: dict[str, Any], theirs: Any) -> None:
    expected = torch.as_tensor(theirs(X.numpy(), Y.numpy()))
    torch.testing.assert_close(kernel_function(name, params)(X, Y), expected, rtol=1e-12, atol=1e-12)


def test_cosine_of_the_origin_is_zero() -> None:
    assert kernel_function("cosine")(torch.zeros(1, 3), torch.ones(2, 3)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", ["rbf", "matern", "laplacian"])
def test_far_from_the_origin_single_precision_is_enough(name: str) -> None:
    """Points around 1,000 apart by about 1: the kernel depends on differences, whose digits must not be lost."""
    x = (points(50) + 1000).float()
    K = kernel_function(name)(x, x)
    torch.testing.assert_close(K.double(), kernel_function(name)(x.double(), x.double()), rtol=0, atol=1e-5)
    torch.testing.assert_close(K.diagonal(), torch.ones(50))


def test_keywords_reach_a_function() -> None:
    def scaled(x: Tensor, y: Tensor, factor: float) -> Tensor:
        return factor * (x @ y.T)

    torch.testing.assert_close(kernel_function(scaled, {"factor": 3.0})(X, Y), 3 * X @ Y.T)


@pytest.mark.parametrize(
    ("kernel", "params", "message"),
    [
        ("gauss", {}, "kernel 'gauss'.*rbf, matern, laplacian, polynomial, cosine"),
        ("rbf", {"gamma": 1.0}, "rbf.*gamma.*length_scale"),
        ("cosine", {"gamma": 1.0}, "cosine.*gamma"),
        ("rbf", {"length_scale": 0.0}, "length_scale"),
        ("rbf", {"length_scale": [1.0, 2.0]}, "3 features"),
        ("rbf", {"length_scale": [[1.0]]}, "length_scale"),
        ("laplacian", {"length_scale": math.nan}, "length_scale"),
        ("matern", {"nu": 3.0}, r"nu .*0\.5, 1\.5, 2\.5.*3\.0"),
    ],
)
def test_bad_kernels_are_named(kernel: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        KernelBlocks(X, kernel, kernel_params=params)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_rounding_in_many_dimensions_is_not_taken_for_asymmetry(name: str, dtype: torch.dtype) -> None:
    """784 numbers of unit size are a long way for a length scale of 1; so are a few of size 10,000 in float64."""
    assert len(KernelBlocks(points(200, 784, dtype=dtype), name)) == 200
    if dtype == torch.float64:
        assert len(KernelBlocks(1e4 * points(200, 4), name)) == 200


# Blocks


@pytest.mark.parametrize("name", KERNELS)
def test_a_block_is_the_kernel_between_its_points(name: str) -> None:
    x, x_plus, K = KernelBlocks(points(100), name, batch_size=8).batch(3)
    assert K is not None
    torch.testing.assert_close(K, KERNELS[name](x, x_plus))
    known = {tuple(row) for row in points(100).tolist()}
    assert all(tuple(row) in known for row in [*x.tolist(), *x_plus.tolist()])


@settings(max_examples=20, deadline=None)
@given(step=st.integers(0, 10**9), seed=st.integers(-5, 2**70))
def test_a_batch_depends_on_seed_and_step_alone(step: int, seed: int) -> None:
    blocks = KernelBlocks(points(1000), batch_size=8, seed=seed)
    again = KernelBlocks(points(1000), batch_size=8, seed=seed)
    blocks.batch(step + 1)
    for one, two in zip(blocks.batch(step), again.batch(step), strict=True):
        assert torch.equal(one, two)
    for other in (blocks.draw(step + 1), KernelBlocks(points(1000), batch_size=8, seed=seed + 1).draw(step)):
        assert not torch.equal(torch.cat(blocks.draw(step)), torch.cat(other))


def test_the_two_sides_are_independent_draws_from_all_points() -> None:
    blocks = KernelBlocks(points(5), batch_size=4)
    counts = torch.zeros(5, 5)
    for step in range(1000):
        first, second = blocks.draw(step)
        counts.index_put_((first, second), torch.ones(4), accumulate=True)
    # 4,000 pairs into 25 cells: 160 in each, give or take four times 12.4.
    assert float((counts - 160).abs().max()) < 50


def test_weights_are_the_measure() -> None:
    weights = np.array([1.0, 0.0, 3.0, 6.0, 0.0])
    blocks = KernelBlocks(points(5), batch_size=4, weights=weights)
    drawn = torch.cat([torch.cat(blocks.draw(step)) for step in range(1000)])
    shares = torch.bincount(drawn, minlength=5) / len(drawn)
    assert shares[1] == shares[4] == 0
    torch.testing.assert_close(shares.double(), torch.tensor(weights / 10), rtol=0, atol=0.025)


def test_without_a_batch_size_every_batch_is_the_whole() -> None:
    x, x_plus, K = KernelBlocks(X, "rbf").batch(7)
    assert torch.equal(x, X) and torch.equal(x_plus, X)
    torch.testing.assert_close(K, KERNELS["rbf"](X, X))


def test_blocks_average_to_the_whole() -> None:
    """R of a random block is an unbiased estimate of R of all points: here for the trace of R, unnormalised."""
    blocks = KernelBlocks(X, "rbf", batch_size=6)
    whole = KERNELS["rbf"](X, X).mean()
    means = torch.stack([blocks.batch(step).kernel.mean() for step in range(2000)])  # type: ignore[union-attr]
    assert abs(float(means.mean() - whole)) < 4 * float(means.std()) / 2000**0.5


def test_processes_divide_the_draws() -> None:
    whole = KernelBlocks(points(100), batch_size=8).batch(2)
    parts = [KernelBlocks(points(100), batch_size=8, rank=rank, world_size=2).batch(2) for rank in range(2)]
    assert torch.equal(torch.cat([part.x for part in parts]), whole.x)
    assert torch.equal(torch.cat([part.x_plus for part in parts]), whole.x_plus)
    assert whole.kernel is not None
    for rank, part in enumerate(parts):
        mine = slice(4 * rank, 4 * rank + 4)
        torch.testing.assert_close(part.kernel, whole.kernel[mine, mine])


def test_a_function_may_take_anything_and_be_indefinite() -> None:
    images = points(20, 12).reshape(20, 3, 2, 2)

    def difference(x: Tensor, y: Tensor) -> Tensor:
        return x[:, 0].flatten(1) @ y[:, 0].flatten(1).T - 3 * x[:, 1].flatten(1) @ y[:, 1].flatten(1).T

    x, x_plus, K = KernelBlocks(images, difference, batch_size=6).batch(0)
    assert x.shape == x_plus.shape == (6, 3, 2, 2) and K is not None
    whole = KernelBlocks(images, difference).batch(0).kernel
    assert whole is not None
    spectrum = torch.linalg.eigvalsh(whole)
    assert spectrum[0] < -1 and spectrum[-1] > 1


def test_points_of_other_types() -> None:
    assert KernelBlocks(np.arange(6.0).reshape(3, 2)).x.dtype == torch.float64
    assert KernelBlocks(np.arange(6).reshape(3, 2)).x.dtype == torch.float32
    assert KernelBlocks(points(4).float()).x.dtype == torch.float32
    assert len(KernelBlocks(points(4))) == 4


# Precomputed


FORMS = {
    "tensor": lambda K: K,
    "numpy": lambda K: K.numpy(),
    "integers": lambda K: K.round().long(),
    "torch coo": lambda K: K.to_sparse(),
    "scipy csr": lambda K: scipy.sparse.csr_matrix(K.numpy()),
    "scipy coo": lambda K: scipy.sparse.coo_array(K.numpy()),
}


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_a_matrix(form: str) -> None:
    K = (GRAM * (GRAM.abs() > 0.5) * 3).round()
    blocks = KernelBlocks(X, FORMS[form](K), batch_size=6)
    x, x_plus, block = blocks.batch(1)
    rows, columns = blocks.draw(1)
    assert len(set(columns.tolist())) < 6  # a point that is drawn twice is there twice
    assert block is not None and block.is_sparse == (form in ("torch coo", "scipy csr", "scipy coo"))
    torch.testing.assert_close(block.to_dense().double(), K[rows][:, columns])
    assert torch.equal(x, X[rows]) and torch.equal(x_plus, X[columns])


@pytest.mark.parametrize("objective", [NeuralEF(alpha=1.0), RitzTrace(centre=False)], ids=["neuralef", "ritz"])
def test_objectives_take_sparse_blocks(objective: torch.nn.Module) -> None:
    K = GRAM * (GRAM.abs() > 0.5)
    dense, sparse = (KernelBlocks(X, form, batch_size=6).batch(0) for form in (K, K.to_sparse()))
    torch.testing.assert_close(objective(*dense), objective(*sparse))


def test_an_empty_matrix_is_a_kernel_too() -> None:
    block = KernelBlocks(X, torch.zeros(7, 7).to_sparse(), batch_size=4).batch(0).kernel
    assert block is not None and not block.to_dense().any()


# What is refused


def not_symmetric(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :1] + 0 * y[:, 0]


def symmetric_below_one(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.T + (x[:, :1] > 1) * y[:, 1]


SORTED = points(1000)[points(1000)[:, 0].argsort()]
NAN = X.clone()
NAN[[2, 5], 1] = torch.tensor([torch.nan, torch.inf], dtype=torch.float64)
LOPSIDED = GRAM.clone()
LOPSIDED[0, 1] += 1e-3


@pytest.mark.parametrize(
    ("x", "kernel", "options", "message"),
    [
        (NAN, "rbf", {}, "2 of .*7 points.*NaN.*2"),
        (X[0], "rbf", {}, r"2 points.*\(3,\)"),
        (X[:1], "rbf", {}, "2 points"),
        (X.reshape(7, 3, 1), "rbf", {}, r"\(n, d\)"),
        (
            X,
            lambda x, y: x @ x.T,
            {},
            r"\(6, 7\).*\(6, 6\)",
        ),
        (X, lambda x, y: (x @ y.T).numpy(), {}, "not ndarray"),
        (X, lambda x, y: (x @ y.T).sqrt(), {}, "NaN.*infinity"),
        (X, lambda x, y: (x - y).square().sum(1), {}, "6 and 7 points.*size of tensor a"),
        (X, "rbf", {"kernel_params": {"length_scale": 1e-200}}, "NaN.*infinity"),
        (X, lambda x, y: x @ y.T, {"kernel_params": {"power": 2}}, "'power'"),
        (X, not_symmetric, {}, "symmetric"),
        (SORTED, symmetric_below_one, {}, "not symmetric"),
        (X, LOPSIDED, {}, r"symmetric.*0\.001"),
        (X, LOPSIDED.to_sparse(), {}, r"symmetric.*0\.001"),
        (X, GRAM[:5], {}, "7 x 7.*5 x 7"),
        (X, [["a"]], {}, "Gram matrix.*read"),
        (X, torch.full((7, 7), torch.nan), {}, "Gram.*NaN"),
        (X, torch.eye(7) + 0j, {}, "real"),
        (X, "polynomial", {"kernel_params": {"degree": -1}}, "degree .*0.*-1"),
        (X, torch.full((7, 7), torch.inf).to_sparse(), {}, "Gram.*NaN"),
        (X, "rbf", {"batch_size": 8}, "points.*7"),
        (X, "rbf", {"batch_size": 1}, "2 points"),
        (X, "rbf", {"batch_size": 5, "world_size": 2}, "processes"),
        (X, "rbf", {"world_size": 2}, "batch_size"),
        (X, "rbf", {"weights": torch.ones(7)}, "batch_size"),
        (X, "rbf", {"batch_size": 4, "weights": torch.ones(6)}, "weights.*7"),
        (X, "rbf", {"batch_size": 4, "weights": -torch.ones(7)}, "none negative"),
        (X, "rbf", {"batch_size": 4, "weights": torch.zeros(7)}, "zero"),
    ],
)
def test_bad_input_is_named(x: Tensor, kernel: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        KernelBlocks(x, kernel, **options)


def test_a_shape_that_goes_wrong_later_is_named_too() -> None:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.T)[:, :10]

    blocks = KernelBlocks(points(8), kernel, batch_size=4)
    blocks.x = points(20)
    with pytest.raises(EigenmapError, match=r"\(4, 12\)"):
        blocks.between(torch.arange(4), torch.arange(12))


@pytest.mark.parametrize("dtype", [">f8", "longdouble", "float64"])
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.filterwarnings("error")
def test_arrays_of_any_layout_are_taken(dtype: str, step: int) -> None:
    """Of old reversed matrices and those of another byte order were refused, and read-only weights gave a warning."""
    x = points(9).numpy()
    K, weights = pairwise.rbf_kernel(x).astype(dtype)[::step, ::step], np.ones(9, dtype)[::step]
    for array in (K, weights):
        array.flags.writeable = False
    np.testing.assert_array_equal(gram_matrix(K, 9).numpy(), K.astype(float))
    blocks = KernelBlocks(K[:, :2], "rbf", 4, weights=weights)
    assert blocks.batch(0).x.shape == (4, 2)

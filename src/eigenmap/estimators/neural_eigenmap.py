"""Scikit-learn estimator for the eigenfunctions of a kernel."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from typing_extensions import Self

from eigenmap.core.arguments import whole_number
from eigenmap.core.devices import has_float64
from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.estimators.saved import load_estimator, save_estimator
from eigenmap.kernels import report
from eigenmap.kernels.relation import NEIGHBOURS, PRECOMPUTED, SPELLINGS, KernelRelation, make_relation, one_row_each
from eigenmap.kernels.scale import warn_if_alone, with_length_scale
from eigenmap.kernels.solver import FitReport, Settings, Solver
from eigenmap.objectives.objective import number

Array = np.ndarray[Any, Any]

SCORED = 4096
"""Maximum number of points on which `score` measures."""
DENSE_ROWS = 10_000
"""Number of points above which a sparse Gram matrix needs node features."""


class NeuralEigenmap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Ordered eigenfunctions of a kernel, represented by a network.

    For a kernel kappa and the measure p of the data,

        E_{x' ~ p} kappa(x, x') phi_j(x') = mu_j phi_j(x),     E_p[phi_i phi_j] = delta_ij,     mu_1 >= mu_2 >= ...

    `fit` learns phi_1 ... phi_k, `transform` evaluates them. Unlike `KernelPCA` and `Nystroem` it does not keep the
    training points; unlike `SpectralEmbedding` it has a `transform`.

    The hidden layers are trained on the log-determinant of the Rayleigh quotient. The last layer is solved in float64
    on one joint block of reference points (`eigenmap.kernels.ritz`). Data of up to `batch_size` points form one batch:
    training is then exact, in float64, and is skipped if the initial residual is below `tol`.

    Args:
        n_components: number k of functions.
        kernel: "rbf", "matern", "laplacian", "polynomial", "cosine"; a function of two batches of points (torch
            tensors) that returns their matrix, positive or indefinite; "precomputed"; or "neighbours" (also
            "neighbors"), the normalised graph of nearest neighbours.
        kernel_params: parameters of the kernel, such as {"length_scale": 0.3}; {"n_neighbors": 15, "laplacian": False}
            for "neighbours". The default length scale "scale" is chosen from the data, like scikit-learn's
            gamma="scale".
        objective: "auto", a name of `eigenmap.objectives.OBJECTIVES`, or a module.
        objective_params: options of the objective. {"shift": "auto"} for NeuralEF takes the shift from a bound on the
            smallest eigenvalue.
        network: "auto" or "shared" for one trunk, "separate" for one network per function, or a module that returns
            features or (features, psi).
        network_params: width, depth and activation of the network. The default width is 256, or 2 n_components if that
            is larger; 32 for each separate network.
        t: exponent: function j is multiplied by max(mu_j, 0)^t. With t = 1/2, inner products of codes approximate the
            kernel.
        batch_size: number of points per training batch.
        max_steps: maximum number of training steps; "auto" is 300, or one pass over the data if that is more.
        tol: training on all points stops once the relative distance of phi_j and T phi_j / mu_j is below this.
        learning_rate: learning rate of Adam.
        reference_size: number of points in the joint block; "auto" is 4,096 to 8,192, growing with k.
        device: device to compute on.
        random_state: seed of the network, the draws and the probes.

    Attributes:
        eigenvalues_: (r,) signed, in descending order. Measured on points outside the reference block if there are
            enough of them, or on the reference block itself if that is (nearly) all the data.
        held_out_eigenvalues_: (r,) always measured on points that were not used to solve the last layer; for small data
            they come from two halves and are conservative.
        groups_: lists of components whose eigenvalues cannot be separated; only their space is determined.
        residual_: (r,) relative distance between phi_j and T phi_j / mu_j near the data.
        rank_: number of non-zero eigenvalues found, at most the number of functions that the network can represent; if
            it is below n_components, `transform` has that many columns.
        length_scale_: length scale of the kernel; None for a kernel without one.
        n_steps_: number of training steps taken.
        network_: trained network; `psi` evaluates it without alignment.
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> model = NeuralEigenmap(5, kernel_params={"length_scale": 2.0}, random_state=0).fit(X)
        >>> model.transform(X[:3]).shape
        (3, 5)

    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        kernel_params: Mapping[str, Any] | None = None,
        objective: Any = "auto",
        objective_params: Mapping[str, Any] | None = None,
        network: Any = "auto",
        network_params: Mapping[str, Any] | None = None,
        t: float = 0.0,
        batch_size: int = 2048,
        max_steps: int | str = "auto",
        tol: float = 0.02,
        learning_rate: float = 5e-3,
        reference_size: int | str = "auto",
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.objective = objective
        self.objective_params = objective_params
        self.network = network
        self.network_params = network_params
        self.t = t
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.tol = tol
        self.learning_rate = learning_rate
        self.reference_size = reference_size
        self.device = device
        self.random_state = random_state

    # Fitting

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, gram: Any = None) -> NeuralEigenmap:
        """Learn the eigenfunctions of the kernel under the measure of the rows of X.

        Args:
            X: (n, d) points. With kernel="precomputed" and no `gram`, the (n, n) Gram matrix itself, as in
                scikit-learn; a point is then described by its similarities to these n.
            y: ignored.
            sample_weight: (n,) measure p up to a factor; weight two equals a repeated point.
            gram: (n, n) Gram matrix, dense or sparse, of a precomputed kernel; X are then features of its nodes.

        """
        X = self._validated(X, reset=True, fewest=2)
        if gram is not None and not self._is(PRECOMPUTED):
            raise EigenmapError('gram is the matrix of kernel="precomputed"; leave it out for other kernels.')
        settings = self._settings()
        if settings.n_components > X.shape[0]:
            raise EigenmapError(
                f"n_components = {settings.n_components} exceeds the number of samples, {X.shape[0]}; "
                "lower it or give more samples."
            )
        x, weights = self._points(X), self._weights(sample_weight, X)
        seed = self._seed()
        if not self._is(PRECOMPUTED) and not self._is(NEIGHBOURS) and len(x) <= settings.batch_size:
            x, weights = one_row_each(x, weights)
        matrix = X if gram is None else gram
        params = with_length_scale(self.kernel, self.kernel_params, x, weights)
        relation = make_relation(x, weights, self.kernel, params, matrix, seed, settings.batch_size // 2)
        self._begin(Solver(settings, relation, seed), relation, params)
        if self._is(PRECOMPUTED):  # needed by `score`
            self._known, self._known_p, self._size = x, relation.p, report.size(relation.operator())
        self._say(self._solver.fit(relation))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> NeuralEigenmap:
        """Take one pass of training steps over the rows of X, mixed with random earlier points.

        Inputs are standardised by the first batch. A random sample of all points ever seen is kept as reference and
        represents their weights; the last layer is solved on it when next needed. A fitted model continues with the
        parameters of its first fit.
        """
        if self._is(PRECOMPUTED) or self._is(NEIGHBOURS):
            raise EigenmapError(f"partial_fit needs a kernel that is a function of two points, not {self.kernel!r}.")
        first = not hasattr(self, "_solver")
        X = self._validated(X, reset=first, fewest=2 if first else 1)
        x, weights = self._points(X), self._weights(sample_weight, X)
        settings = self._settings()
        seed = self._seed() if first else self._solver.seed
        kernel = self.kernel if first else self._kernel_function
        params = with_length_scale(self.kernel, self.kernel_params, x, weights) if first else None
        relation = make_relation(x, weights, kernel, params, None, seed, settings.batch_size)
        if first:
            self._begin(Solver(settings, relation, seed), relation, params)
        self._solver.partial(relation)
        self._stale = True
        return self

    def _begin(self, solver: Solver, relation: KernelRelation, params: Mapping[str, Any] | None) -> None:
        """Store the solver, the kernel and the parameters of the fit, with the length scale that was chosen."""
        kernel = SPELLINGS.get(self.kernel, self.kernel) if isinstance(self.kernel, str) else self.kernel
        self._solver, self._kernel_function = solver, relation.kernel
        self._fitted_with = {**self.get_params(deep=False), "kernel": kernel, "kernel_params": params}
        warn_if_alone(relation, (params or {}).get("length_scale"), stacklevel=4)

    def _say(self, found: FitReport) -> None:
        self._found, self._stale, k = found, False, self._solver.settings.n_components
        if len(found.eigenvalues) < k:
            why = (
                f"The network can represent only {found.rank} functions on this data; give it a larger width"
                if found.narrow
                else f"The kernel has rank {found.rank} on this data"
            )
            warnings.warn(
                f"{why}: there are {len(found.eigenvalues)} eigenfunctions, not the {k} requested.",
                UserWarning,
                stacklevel=3,
            )

    def _aligned(self) -> FitReport:
        """Return the result of the fit, updated after `partial_fit`."""
        check_is_fitted(self)
        if self._stale:
            seen, k = len(self._solver.reservoir), self._solver.settings.n_components
            if seen < max(2, k):
                raise EigenmapError(
                    f"Only {seen} points were seen so far, too few for n_components = {k}; call partial_fit with more."
                )
            self._say(self._solver.align_reservoir(self._kernel_function))
        return self._found

    # Evaluation

    def transform(self, X: Any) -> Array:
        """Evaluate the eigenfunctions: (n, r), columns in order, each of unit second moment on the data (if t = 0).

        float32 input gives float32 output; the arithmetic is float64.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        found = self._aligned()
        parts = (self._solver.functions(part).cpu() for part in torch.split(self._points(X), 65536))
        t = number("t", self.t)
        weights = found.eigenvalues.clamp_min(0).pow(t).cpu() if t else torch.tensor(1.0)
        codes = torch.cat([(part * weights).to(torch.from_numpy(np.empty(0, X.dtype)).dtype) for part in parts])
        result: Array = codes.numpy()
        return result

    def psi(self, X: Any) -> Array:
        """Return the (n, outputs) outputs of the network before alignment."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        self._aligned()
        result: Array = self._solver.functions.psi(self._points(X)).cpu().numpy()
        return result

    def score(self, X: Any, y: Any = None, gram: Any = None) -> float:
        """Return the share of the kernel's spectrum on X captured by the functions, from pairs of different points.

            sum_j mu_j(X) / E[kappa(x, x)],    mu_j(X) the Rayleigh quotient of phi_j on X

        Higher is better; for a positive kernel it is at most about the share of the k largest eigenvalues. If kappa(x,
        x) is zero, as in a graph without loops, E[kappa(x, x')^2]^1/2 replaces its mean. For a precomputed kernel give
        `gram`, the matrix between the rows of X, or nothing if X are similarities to the training points.
        """
        check_is_fitted(self)
        alone = self._is(PRECOMPUTED) and gram is None
        X = self._validated(X, reset=False, fewest=1 if alone else 2)
        self._aligned()
        functions = self._solver.functions
        x = self._points(X)
        if alone:
            if x.shape[1] != len(self._known):
                raise EigenmapError("This model was fitted to node features: call score(X, gram=...).")
            # Rows are the kernel between new points and the training points, where the functions are known.
            phi, known = functions(x), functions(self._known)
            image = x.double() @ (self._known_p[:, None] * known)
            mu = (phi * image).mean(0) / phi.square().mean(0).clamp_min(1e-300)
            return float(mu.sum()) / self._size
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(self._solver.seed))[:SCORED]
        if not self._is(PRECOMPUTED) and not self._is(NEIGHBOURS):
            x = x[rows.to(x.device)]
        fitted = self._kernel_function
        kernel, params = (self.kernel, self.kernel_params) if fitted is None else (fitted, None)
        relation = make_relation(x, None, kernel, params, gram, 0, 2)
        operator = relation.operator()
        total = report.size(operator) if relation.graph is None else float(self._solver.settings.n_components)
        return float(report.judge(functions, operator).sum()) / total

    @property
    def eigenvalues_(self) -> Array:
        """Signed eigenvalues in descending order; in the Laplacian convention 1 - mu in ascending order."""
        mu: Array = self._aligned().eigenvalues.cpu().numpy()
        return 1 - mu if self._laplacian() else mu

    @property
    def held_out_eigenvalues_(self) -> Array:
        """Eigenvalues measured on points that were not used to solve the last layer."""
        mu: Array = self._aligned().held_out_eigenvalues.cpu().numpy()
        return 1 - mu if self._laplacian() else mu

    @property
    def residual_(self) -> Array:
        """Relative distance between phi_j and T phi_j / mu_j near the data."""
        residual: Array = self._aligned().residual.cpu().numpy()
        return residual

    @property
    def groups_(self) -> list[list[int]]:
        """Components whose eigenvalues cannot be separated."""
        return self._aligned().groups

    @property
    def rank_(self) -> int:
        """Number of non-zero eigenvalues found."""
        return self._aligned().rank

    @property
    def length_scale_(self) -> Any:
        """Length scale of the kernel, given or chosen from the data; None for a kernel without one."""
        check_is_fitted(self)
        return (self._fitted_with["kernel_params"] or {}).get("length_scale")

    @property
    def n_steps_(self) -> int:
        """Number of training steps taken."""
        check_is_fitted(self)
        return int(self._solver.trainer.steps)

    @property
    def network_(self) -> nn.Module:
        """The trained network, in float64."""
        self._aligned()
        network: nn.Module = self._solver.functions.network
        return network

    @property
    def _n_features_out(self) -> int:
        return len(self._aligned().eigenvalues)

    # Files

    def save(self, directory: str | Path) -> Path:
        """Write the fitted estimator: `model.json` and `model.safetensors`, durable when this returns.

        A kernel that is a function, and an objective or network that is a module, are not stored: pass them to `load`
        again. A sample of the points is stored, so that `partial_fit` continues after `load` as it would here. An
        existing model stays intact until the new one is complete.
        """
        return save_estimator(self, directory)

    @classmethod
    def load(cls, directory: str | Path, *, device: str | None = None, **own: Any) -> Self:
        """Read a saved estimator.

        Args:
            directory: directory that `save` wrote.
            device: device to compute on; by default that of the fit.
            **own: parameters that were not stored, such as `kernel=my_kernel`.

        """
        return load_estimator(cls, directory, device, own)

    # Interface of scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_solver")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is(PRECOMPUTED)
        tags.input_tags.sparse = self._is(PRECOMPUTED)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # Parameters

    def _is(self, kernel: str) -> bool:
        return isinstance(self.kernel, str) and SPELLINGS.get(self.kernel, self.kernel) == kernel

    def _laplacian(self) -> bool:
        return self._is(NEIGHBOURS) and bool((self.kernel_params or {}).get("laplacian", False))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _validated(self, X: Any, *, reset: bool, fewest: int = 1) -> Any:
        sparse = "csr" if self._is(PRECOMPUTED) else False
        return validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=fewest, accept_sparse=sparse
        )

    def _points(self, X: Any) -> Tensor:
        """Return the rows of X as a tensor; a sparse Gram matrix becomes dense."""
        if hasattr(X, "toarray"):
            if X.shape[1] > DENSE_ROWS:
                raise EigenmapError(
                    f"A sparse Gram matrix of {X.shape[1]} points, above {DENSE_ROWS}, needs features of its points: "
                    "call fit(X, gram=matrix)."
                )
            X = X.toarray()
        X = np.ascontiguousarray(X)
        x = torch.from_numpy(X if X.flags.writeable else X.copy())
        try:
            if not has_float64(torch.device(self.device)):
                raise RuntimeError("the last layer is solved in float64")
            return x.to(self.device)
        except (RuntimeError, AssertionError) as error:
            raise EigenmapError(f'The device {self.device!r} cannot be used here; try device="cpu".') from error

    def _weights(self, sample_weight: Any, X: Any) -> Tensor | None:
        if sample_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return as_tensor(weights)

    def _settings(self) -> Settings:
        """Return the validated parameters."""
        number("t", self.t)
        for name in ("kernel_params", "objective_params", "network_params"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, Mapping)):
                raise EigenmapError(f"{name} must be a dictionary of options or None, not {value!r}.")
        for name in {"width", "depth"} & set(self.network_params or {}):
            whole_number((self.network_params or {})[name], name)
        k = whole_number(self.n_components, "n_components")
        batch_size = whole_number(self.batch_size, "batch_size", 4)
        max_steps = None if self.max_steps == "auto" else whole_number(self.max_steps, 'max_steps (or "auto")', 0)
        if self.reference_size == "auto":
            reference = min(8192, max(4096, 32 * k))
        else:
            reference = whole_number(self.reference_size, 'reference_size (or "auto")', max(2, k))
        return Settings(
            n_components=k,
            objective=self.objective,
            objective_params=dict(self.objective_params or {}),
            network=self.network,
            network_params=dict(self.network_params or {}),
            batch_size=batch_size,
            max_steps=max_steps,
            tol=number("tol", self.tol),
            learning_rate=number("learning_rate", self.learning_rate, zero=False),
            reference_size=reference,
        )

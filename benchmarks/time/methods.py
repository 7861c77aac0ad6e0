"""Methods for slow modes, ours and deeptime's: from trajectories to functions and eigenvalues.

All linear methods get the same Gaussian features of the positions; neural ones get the positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.time.systems import System

Floats = npt.NDArray[Any]
Trajectories = Sequence[Floats]

MODES = 3
"""Number of functions scored, without the constant."""
OUTPUTS = 8
"""Number of outputs of the neural methods."""
CENTRES = 60
STEPS, BATCH = 500, 2048
"""Steps of a neural method, and pairs per step."""
RATES = (5e-4, 2e-3, 5e-3)
"""Learning rates of VAMPNet, chosen on held-out trajectories; 5e-4 is its default. Ours uses its own default."""


@dataclass(frozen=True)
class Fitted:
    """Functions of the state and of the state one lag later, and eigenvalues or singular values."""

    now: Callable[[Floats], Floats]
    later: Callable[[Floats], Floats]
    values: Floats


def gaussian_features(system: System, train: Trajectories, seed: int) -> Callable[[Floats], Floats]:
    """Return Gaussians around some of the training positions."""
    rows = np.concatenate(train)
    centres = rows[np.random.default_rng(seed).choice(len(rows), CENTRES, replace=False)]
    width = {1: 0.15, 2: 0.5}[system.dimension]
    return lambda x: np.exp(-((x[:, None] - centres) ** 2).sum(-1) / (2 * width**2))


def ours_linear(train: Trajectories, lag: int, seed: int, reversible: bool) -> Fitted:
    """`fit_vectors(..., lag=...)`."""
    import eigenmap as em

    model = em.fit_vectors(list(train), lag=lag, reversible=reversible, lags=(), seed=seed, progress=False)
    return _ours(model)


def ours_neural(train: Trajectories, lag: int, seed: int, reversible: bool) -> Fitted:
    """`fit_vectors(..., solver="neural")`."""
    import eigenmap as em

    model = em.fit_vectors(
        [one.astype(np.float32) for one in train],
        OUTPUTS,
        lag=lag,
        reversible=reversible,
        lags=(),
        solver="neural",
        steps=STEPS,
        batch_size=BATCH,
        seed=seed,
        device="cpu",
        progress=False,
    )
    return _ours(model)


def _ours(model: Any) -> Fitted:
    def functions(side: Any) -> Callable[[Floats], Floats]:
        return lambda x: side.encode(x, dim=MODES, weighting="none", normalize=False)

    return Fitted(functions(model), functions(model.right or model), model.eigenvalues_[:MODES])


def deeptime_linear(train: Trajectories, lag: int, seed: int, reversible: bool) -> Fitted:
    """TICA or VAMP of deeptime."""
    from deeptime.decomposition import TICA, VAMP
    from deeptime.util.data import TrajectoriesDataset

    data = TrajectoriesDataset.from_numpy(lag, list(train))
    model = (TICA if reversible else VAMP)(lagtime=lag, dim=MODES).fit_from_timeseries(data).fetch_model()
    later = (lambda x: model.transform(x)) if reversible else (lambda x: model.backward(x, propagate=False))
    return Fitted(lambda x: model.transform(x), later, np.asarray(model.singular_values[:MODES]))


def vampnet(train: Trajectories, lag: int, seed: int, reversible: bool) -> Fitted:
    """VAMPNet with two hidden layers of 100 units and VAMP on top; rate chosen on a tenth of the trajectories."""
    import torch
    from deeptime.decomposition.deep import VAMPNet

    rows = [one.astype(np.float32) for one in train]
    held = max(1, len(rows) // 10)
    data = _Batches(*_pairs(rows[held:], lag), seed)
    mean, deviation = np.concatenate(rows).mean(0), np.concatenate(rows).std(0)
    epochs = max(1, round(STEPS / len(data)))
    best: tuple[float, Any] | None = None
    for rate in RATES:
        torch.manual_seed(seed)
        lobe = torch.nn.Sequential(
            _Standardised(mean, deviation),
            torch.nn.Linear(len(mean), 100),
            torch.nn.ELU(),
            torch.nn.Linear(100, 100),
            torch.nn.ELU(),
            torch.nn.Linear(100, OUTPUTS),
        )
        net = VAMPNet(lobe, learning_rate=rate)
        net.fit(data, n_epochs=epochs)
        model = net.fetch_model()
        made = _on_top([model.transform(one) for one in rows[held:]], lag)
        score = vamp2(*_pairs([made.now(model.transform(one)) for one in rows[:held]], lag))
        if best is None or score > best[0]:
            best = score, model
    assert best is not None
    lobe = best[1]
    top = _on_top([lobe.transform(one) for one in rows], lag)
    return Fitted(
        lambda x: top.now(lobe.transform(x.astype(np.float32))),
        lambda x: top.later(lobe.transform(x.astype(np.float32))),
        top.values,
    )


class _Batches:
    """Batches of pairs in a new order in each pass; much faster than a DataLoader, which works sample by sample."""

    def __init__(self, now: Floats, later: Floats, seed: int) -> None:
        self.now, self.later, self.rng = now, later, np.random.default_rng(seed)

    def __len__(self) -> int:
        return int(np.ceil(len(self.now) / BATCH))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        import torch

        order = self.rng.permutation(len(self.now))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            yield torch.from_numpy(self.now[rows]), torch.from_numpy(self.later[rows])


def _on_top(train: Trajectories, lag: int) -> Fitted:
    return deeptime_linear([one.astype(np.float64) for one in train], lag, 0, reversible=True)


def _Standardised(mean: Floats, deviation: Floats) -> Any:
    import torch

    layer = torch.nn.Linear(len(mean), len(mean))
    with torch.no_grad():
        layer.weight.copy_(torch.diag(torch.from_numpy(1 / deviation)))
        layer.bias.copy_(torch.from_numpy(-mean / deviation))
    return layer.requires_grad_(False)


def _pairs(functions: Trajectories, lag: int) -> tuple[Floats, Floats]:
    return np.concatenate([f[:-lag] for f in functions]), np.concatenate([f[lag:] for f in functions])


def vamp2(now: Floats, later: Floats) -> float:
    """Return 1 plus the squared canonical correlations, independently of the compared implementations."""
    q, r = (np.linalg.qr(side.astype(np.float64) - side.astype(np.float64).mean(0))[0] for side in (now, later))
    return float(1 + (np.linalg.svd(q.T @ r, compute_uv=False) ** 2).sum())


def judged(fitted: Fitted, test: Trajectories, lag: int) -> float:
    """VAMP-2 of the functions on other trajectories."""
    now = np.concatenate([np.asarray(fitted.now(one[:-lag])) for one in test])
    later = np.concatenate([np.asarray(fitted.later(one[lag:])) for one in test])
    return vamp2(now, later)


METHODS: dict[str, tuple[str, Callable[[Trajectories, int, int, bool], Fitted], bool, bool]] = {
    "eigenmap, linear, reversible": ("eigenmap", ours_linear, True, True),
    "eigenmap, linear, forward": ("eigenmap", ours_linear, False, True),
    "eigenmap, neural, reversible": ("eigenmap", ours_neural, True, False),
    "deeptime TICA": ("deeptime", deeptime_linear, True, True),
    "deeptime VAMP": ("deeptime", deeptime_linear, False, True),
    "deeptime VAMPNet": ("deeptime", vampnet, True, False),
}
"""Package, function, whether it is reversible, and whether it uses Gaussian features."""

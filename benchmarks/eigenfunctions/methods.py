"""Methods of the eigenfunction study; each gets a sample of points and the kernel between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.eigenfunctions.problems import BlockModel, Problem, Sample
from benchmarks.eigenfunctions.rivals.eigengame import MuEigenGame
from benchmarks.eigenfunctions.rivals.exact import kernel_pca, nystroem
from benchmarks.eigenfunctions.rivals.grease import grease
from benchmarks.eigenfunctions.rivals.spin import SpIN
from eigenmap.estimators import NeuralEigenmap
from eigenmap.networks import MLP
from eigenmap.objectives import GramNeuralEF, NestedMoments, NeuralEF, RitzLogDet, RitzTrace

Functions = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """Settings shared by all methods."""

    n: int = 512
    held_out: int = 512
    width: int = 64
    depth: int = 2
    steps: int = 600
    rates: tuple[float, ...] = (0.003, 0.01, 0.03)
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True)
class Fit:
    """Raw functions of points in the method's own order, and its own eigenvalues, if it has any."""

    functions: Functions
    mu: Tensor | None = None
    aligned: bool = False
    """Whether the method orders and normalises its functions itself."""
    centred: bool = False
    """Whether it solves the problem of the centred kernel, with which it is then compared."""


def train(network: nn.Module, objective: nn.Module, x: Tensor, gram: Tensor, steps: int, rate: float) -> None:
    """Adam on the full batch, the rate falling to zero along a cosine."""
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        _, psi = network(x)
        optimizer.zero_grad()
        objective(psi, psi, gram).backward()
        optimizer.step()
        schedule.step()


@dataclass(frozen=True)
class Trained:
    """A network of the common size, trained by an objective at one of the common rates."""

    title: str
    objective: Callable[[], nn.Module]
    separate: bool = False
    tuned: bool = True

    def applies(self, problem: Problem) -> bool:
        return True

    def fit(self, problem: Problem, sample: Sample, seed: int, rate: float, settings: Settings) -> Fit:
        torch.manual_seed(seed)
        shape = (sample.x.shape[1], problem.n_components, settings.width, settings.depth)
        network = MLP(*shape, separate=self.separate).double()
        train(network, self.objective(), sample.x, sample.gram, settings.steps, rate)

        def functions(x: Tensor) -> Tensor:
            with torch.no_grad():
                psi: Tensor = network(x)[1]
            return psi

        return Fit(functions)


@dataclass(frozen=True)
class Exact:
    """A method without a network and without a rate."""

    title: str
    solve: Callable[[Tensor, int], tuple[Tensor, Functions]]
    centred: bool = False
    tuned: bool = False

    def applies(self, problem: Problem) -> bool:
        return True

    def fit(self, problem: Problem, sample: Sample, seed: int, rate: float, settings: Settings) -> Fit:
        mu, extend = self.solve(sample.gram, problem.n_components)
        # The kernel of a random graph must be drawn for new nodes; for the points themselves it is known.
        return Fit(lambda x: extend(sample.gram if x is sample.x else sample.cross(x)), mu, True, self.centred)


@dataclass(frozen=True)
class Grease:
    """GrEASE with its own graph, schedule, stopping rule and default number of epochs, at the common width."""

    title: str = "GrEASE (its own graph)"
    epochs: int = 200
    tuned: bool = True

    def applies(self, problem: Problem) -> bool:
        return problem.kernel == "rbf"

    def fit(self, problem: Problem, sample: Sample, seed: int, rate: float, settings: Settings) -> Fit:
        k, width = problem.n_components, settings.width
        mu, functions = grease(sample.x, k, width=width, epochs=self.epochs, rate=rate, seed=seed)
        return Fit(functions, mu)


@dataclass(frozen=True)
class Default:
    """The library's estimator with default settings: points and kernel only."""

    title: str = "**default estimator**"
    tuned: bool = False

    def applies(self, problem: Problem) -> bool:
        return True

    def fit(self, problem: Problem, sample: Sample, seed: int, rate: float, settings: Settings) -> Fit:
        k, x = problem.n_components, sample.x.numpy()
        if isinstance(problem, BlockModel):
            model = NeuralEigenmap(k, kernel="precomputed", random_state=seed).fit(x, gram=sample.gram.numpy())
        else:
            kernel, params = problem.kernel, problem.kernel_params
            model = NeuralEigenmap(k, kernel=kernel, kernel_params=params, random_state=seed).fit(x)
        mu = torch.from_numpy(model.eigenvalues_).double()
        return Fit(lambda new: torch.from_numpy(model.transform(new.numpy())).double(), mu, aligned=True)


Method = Trained | Exact | Grease | Default

METHODS: dict[str, Method] = {
    "default": Default(),
    "alpha-1": Trained("paper's objective, alpha 1", lambda: NeuralEF(alpha=1.0)),
    "alpha-10": Trained("paper's objective, alpha 10", lambda: NeuralEF(alpha=10.0)),
    "alpha-100": Trained("paper's objective, alpha 100", lambda: NeuralEF(alpha=100.0)),
    # Twice the strength 1/(4c) that orders every spectrum in [0, 1].
    "shifted": Trained("shifted, c = 0.5, alpha 1", lambda: NeuralEF(alpha=1.0, shift=0.5)),
    "ratio": Trained("R_ii form, alpha 1", lambda: NeuralEF(alpha=1.0, ratio=True, small=1e-9)),
    "gram": Trained("Gram penalty, b = 1", lambda: GramNeuralEF(b=1.0, centre=False)),
    "nested": Trained("nested moments", lambda: NestedMoments(rows="raw", centre=False)),
    "trace": Trained("trace", lambda: RitzTrace(ridge=1e-8, centre=False)),
    "logdet": Trained("log-det", lambda: RitzLogDet(tau=1e-4, ridge=1e-8, centre=False)),
    "eigengame": Trained("mu-EigenGame", MuEigenGame),
    "spin": Trained("SpIN", SpIN),
    "grease": Grease(),
    "kernel-pca": Exact("KernelPCA (of the centred kernel)", kernel_pca, centred=True),
    "nystroem": Exact("Nystroem, exact", nystroem),
}
"""Every method by name, in the order of the tables."""

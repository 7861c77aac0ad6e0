"""Solver behind `NeuralEigenmap`: training of the hidden layers, then a closed-form last layer."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.kernels import report
from eigenmap.kernels.functions import Functions, Standardise, make_network, shared_width
from eigenmap.kernels.hold_out import FEWEST, HeldOutGram, Verdict, best_verdict
from eigenmap.kernels.relation import KernelRelation
from eigenmap.kernels.reservoir import Reservoir
from eigenmap.kernels.ritz import DISTINCT, Solution, solve
from eigenmap.kernels.train import Trainer, WholeBatch, make_objective, takes_weights
from eigenmap.objectives import shift_for
from eigenmap.relations.kernel import PROBE, evenly
from eigenmap.relations.operator import KernelOperator, MatrixOperator, Operator
from eigenmap.training.loop import Relation

GAINS = (1.0, 3.0)
"""Candidate scales of the first layer, tried before training; inputs of few dimensions need a steeper one."""
ROUND = 100
"""Steps between two measurements of the residual, if every step uses all points."""
STEPS = 300
"""Default number of training steps."""
TRIAL = 1024
"""Number of points on which the first layer is chosen."""
SINGLE = 5e-4
"""Largest relative error of the kernel at which blocks are still computed in float32."""
WIDEST_SPAN = 2**25
"""Maximum size of the span over all points of a Gram matrix (256 MB); beyond it, psi replaces the hidden layer."""


@dataclass(frozen=True)
class Settings:
    """Parameters of `NeuralEigenmap` that the solver needs, under the same names."""

    n_components: int
    objective: Any
    objective_params: dict[str, Any]
    network: Any
    network_params: dict[str, Any]
    batch_size: int
    max_steps: int | None
    tol: float
    learning_rate: float
    reference_size: int


@dataclass(frozen=True)
class FitReport:
    """Result of a fit: see the attributes of `NeuralEigenmap`; `narrow` if the network limits the rank."""

    eigenvalues: Tensor
    held_out_eigenvalues: Tensor
    residual: Tensor
    groups: list[list[int]]
    rank: int
    narrow: bool


def n_outputs(n_components: int, span_psi: bool) -> int:
    """Return the number of network outputs, larger than requested because the last ones of a span are the worst."""
    return n_components + (0 if span_psi else max(8, n_components // 2))


class Solver:
    """One fit: train and align, or take steps on incoming batches and align when needed."""

    def __init__(self, settings: Settings, relation: KernelRelation, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.generator = torch.Generator().manual_seed(seed)
        standardise = Standardise(relation.x, relation.p)
        # Probes of a graph stay within the length of its edges; otherwise within the distance between points.
        spacing = None if relation.graph is None else relation.graph.spacing / relation.x.shape[1] ** 0.5
        self.scale = standardise.scale if spacing is None else torch.full_like(standardise.scale, spacing)
        some = relation.kernel is not None and len(relation) > TRIAL
        rows = torch.randperm(len(relation), generator=self.generator)[:TRIAL].to(relation.x.device)
        trial = relation.operator(rows if some else None)
        self.span_psi = settings.network == "separate" or (
            relation.kernel is None and len(relation) * self._width() > WIDEST_SPAN
        )
        gains = (1.0,) if isinstance(settings.network, nn.Module) else GAINS
        candidates = [self._candidate(standardise, trial, gain) for gain in gains]
        self.ridge, self.verdict = DISTINCT, None
        self.held_out = _held_out(trial, relation, self.generator)
        if self.held_out is None:
            self.functions, first = min(candidates, key=lambda pair: self._badness(pair[1]))
            self.good_enough = self._is_good(float(first.outside.mean()))
        else:
            self.functions, first, self.verdict = self._choose(self.held_out, candidates)
            self.ridge, self.good_enough = self.verdict.ridge, self._is_good(self.verdict.residual)
        self.first = None if some else first  # already the solution on all points, unless training follows
        self.dtype = _training_dtype(relation, standardise, settings.batch_size)
        self.reservoir = Reservoir(2 * settings.reference_size)
        unit = float(first.eigenvalues.abs().max())
        self.unit, self.whole = unit, len(relation) <= settings.batch_size
        self.objective_options = self._objective_options(trial, unit)
        self.objective = make_objective(settings.objective, self.objective_options, self.dtype, self.whole)
        self.trainer = self._make_trainer(self.functions)
        self.others = [functions for functions, _ in candidates if functions is not self.functions]

    def fit(self, relation: KernelRelation) -> FitReport:
        """Train on a relation and align."""
        n, capacity = len(relation), self.settings.reference_size
        order = torch.randperm(n, generator=self.generator).to(relation.x.device)
        reference, judging, training = None, None, None
        if relation.kernel is not None and n > capacity:
            reference, judging = order[:capacity], order[capacity : 2 * capacity]
            training = torch.cat([reference, order[2 * capacity :]])
        operator = relation.operator(reference)
        exact = takes_weights(self.trainer.objective) or not relation.weighted
        solution = None
        if n <= self.settings.batch_size and exact:
            if self.held_out is None or self.verdict is None:
                solution = self._train_on_all(operator)
            else:
                self._train_held_out(self.held_out, self.verdict)
        elif not self.good_enough:
            training = training if self.held_out is None else self.held_out.p.nonzero().flatten()
            self._train_on_blocks(relation.batches(training, self.settings.batch_size, self.seed, self.dtype), n)
            if self.held_out is not None:
                self.ridge = best_verdict(self.held_out.judge(self.functions.span, self.settings.n_components)).ridge
        if relation.kernel is not None:
            self.reservoir.add(relation.x, relation.p * relation.total, self.generator)
        return self.align(operator, None if judging is None else relation.operator(judging), solution)

    def partial(self, relation: KernelRelation) -> None:
        """Take one pass of steps over new points, filling each batch with old ones."""
        n, size = len(relation), self.settings.batch_size
        assert relation.kernel is not None
        kept = self.reservoir.measure()
        for rows in torch.split(torch.randperm(n, generator=self.generator).to(relation.x.device), size):
            x, w = relation.x[rows].to(self.dtype), n * relation.p[rows].to(self.dtype)
            old = torch.randperm(len(self.reservoir), generator=self.generator)[: size - len(rows)]
            if len(old):
                x = torch.cat([x, self.reservoir.points[old.to(relation.x.device)].to(x)])
                w = torch.cat([w, (kept[old] / kept.mean()).to(w)])
            if len(x) > 1:
                whole = WholeBatch(KernelOperator(x, relation.kernel, w / w.sum()))
                root = whole.root if takes_weights(self.trainer.objective) else None
                self.trainer.step(whole.batch(0), self.functions.standardise, root)
        self.reservoir.add(relation.x, relation.p * relation.total, self.generator)

    def align_reservoir(self, kernel: Any) -> FitReport:
        """Align on the points kept from the stream; those beyond the reference block measure the eigenvalues."""
        points, measure = self.reservoir.points.double(), self.reservoir.measure()
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(self.seed))
        reference, rest = order[: self.settings.reference_size], order[self.settings.reference_size :]
        self._copy_trained()

        def operator(rows: Tensor) -> KernelOperator:
            return KernelOperator(points[rows.to(points.device)], kernel, measure[rows] / measure[rows].sum())

        return self.align(operator(reference), operator(rest) if len(rest) > 1 else None)

    def align(self, operator: Operator, judging: Operator | None, solution: Solution | None = None) -> FitReport:
        """Solve the last layer on the reference block, unless a solution is given; measure eigenvalues on `judging`."""
        k, functions = self.settings.n_components, self.functions
        solution = solution or self._solve(operator)
        functions.head, mu = solution.head, solution.eigenvalues
        if judging is not None:
            held_out = report.judge(functions, judging)
            # With as many points as were fitted, the held-out estimate is the better one.
            mu = held_out if len(judging.x) >= len(operator.x) else mu
        elif len(operator.x) >= 4:
            held_out = report.judge_by_halves(functions.span, operator, k, self.scale, self.seed, self.ridge)
            held_out = held_out[: len(mu)]
        else:
            held_out = mu
        order = mu.argsort(descending=True, stable=True)
        functions.head, mu = functions.head[:, order], mu[order]
        report.warn_of_weak_alpha(self.trainer.objective, mu, report.noise_floor(operator), self.trainer.unit)
        groups = report.groups(mu, len(operator.x), operator.components)
        narrow = solution.rank == solution.spanned < len(operator.x)
        return FitReport(mu, held_out.to(mu)[order], solution.residual[order], groups, solution.rank, narrow)

    def _solve(self, operator: Operator) -> Solution:
        return solve(self.functions.span, operator, self.settings.n_components, self.scale, self.seed, self.ridge)

    def _candidate(self, standardise: Standardise, trial: Operator, gain: float) -> tuple[Functions, Solution]:
        settings, outputs = self.settings, n_outputs(self.settings.n_components, self.span_psi)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = make_network(
                settings.network, settings.network_params, trial.x.shape[1], settings.n_components, outputs, gain
            )
        network = copy.deepcopy(network).to(device=trial.x.device, dtype=torch.float64)
        functions = Functions(network, standardise, self.span_psi)
        try:
            functions.span(trial.x[:2])
        except RuntimeError as error:
            raise EigenmapError(f"The network does not take {trial.x.shape[1]} features: {error}.") from error
        return functions, solve(functions.span, trial, settings.n_components, self.scale, self.seed)

    def _width(self) -> int:
        return int(self.settings.network_params.get("width", shared_width(self.settings.n_components)))

    def _badness(self, solution: Solution) -> float:
        """Return the total residual over the requested functions; a missing one counts 1."""
        missing = self.settings.n_components - len(solution.outside)
        return float(solution.outside.clamp_max(1.0).sum()) + missing

    def _choose(
        self, held_out: HeldOutGram, candidates: list[tuple[Functions, Solution]]
    ) -> tuple[Functions, Solution, Verdict]:
        """Return the candidate that held-out points of a Gram matrix score best, and its verdict."""
        verdicts = [held_out.judge(functions.span, self.settings.n_components) for functions, _ in candidates]
        winner = best_verdict([verdict for found in verdicts for verdict in found])
        number = next(i for i, found in enumerate(verdicts) if winner in found)
        return *candidates[number], winner

    @property
    def _auto(self) -> bool:
        return isinstance(self.settings.objective, str) and self.settings.objective == "auto"

    def _is_good(self, residual: float) -> bool:
        """Tell whether training can stop; an objective of the user's choice is always trained."""
        return self._auto and residual < self.settings.tol

    def _objective_options(self, trial: Operator, unit: float) -> dict[str, Any]:
        options = dict(self.settings.objective_params)
        if options.get("shift") == "auto":
            options["shift"] = shift_for(report.smallest_eigenvalue(trial) / unit)
        return options

    def _train_on_all(self, operator: Operator) -> Solution:
        """Take exact steps in float64, in rounds, until the residual is small; keep and solve the best round.

        With an objective of the user's choice, all steps are taken and the last state is kept.
        """
        best, limit = self.first or self._solve(operator), self._limit
        if limit == 0 or self._is_good(float(best.outside.mean())):
            return best
        whole, kept = WholeBatch(operator), (self.functions, self._weights())
        while self.trainer.steps < limit:
            found = self._first_round(whole, operator) if self.trainer.steps == 0 else self._next_round(whole, operator)
            if not self._auto or self._badness(found) < self._badness(best):
                best, kept = found, (self.functions, self._weights())
            if self._is_good(float(found.outside.mean())):
                break
        self.functions, weights = kept
        self.functions.network.load_state_dict(weights)
        return best

    def _first_round(self, whole: WholeBatch, operator: Operator) -> Solution:
        """Take one round from every first layer and keep the best, which cannot be predicted before training."""
        tried = []
        for functions in (self.functions, *(self.others if self._auto else ())):
            self.functions, self.trainer = functions, self._make_trainer(functions)
            tried.append((functions, self.trainer, self._next_round(whole, operator)))
        self.functions, self.trainer, found = min(tried, key=lambda each: self._badness(each[2]))
        return found

    def _next_round(self, whole: WholeBatch, operator: Operator) -> Solution:
        self._round(whole, self._limit)
        return self._solve(operator)

    def _make_trainer(self, functions: Functions) -> Trainer:
        network = copy.deepcopy(functions.network).to(self.dtype)
        return Trainer(network, self.objective, self.settings.learning_rate, self.unit)

    def _train_held_out(self, held_out: HeldOutGram, verdict: Verdict) -> None:
        """Take exact steps on the points that are not held out, in rounds, while the held-out score improves."""
        verdicts, limit = [verdict], self._limit
        if limit == 0 or self._is_good(verdict.residual):
            return
        whole, kept = WholeBatch(held_out.training()), self._weights()
        while self.trainer.steps < limit:
            self._round(whole, limit)
            found = held_out.judge(self.functions.span, self.settings.n_components)
            verdicts = [*verdicts, *found] if self._auto else found
            verdict = best_verdict(verdicts)
            if verdict not in found:
                break
            self.ridge, kept = verdict.ridge, self._weights()
            if self._is_good(verdict.residual):
                break
        self.functions.network.load_state_dict(kept)

    @property
    def _limit(self) -> int:
        return STEPS if self.settings.max_steps is None else self.settings.max_steps

    def _weights(self) -> dict[str, Any]:
        return copy.deepcopy(self.functions.network.state_dict())

    def _round(self, whole: WholeBatch, limit: int) -> None:
        """Take some steps along one cosine schedule, or all of them for an objective of the user's choice."""
        steps = min(ROUND if self._auto else limit, limit - self.trainer.steps)
        for step in range(steps):
            self.trainer.anneal(step / steps)
            self.trainer.step(whole.batch(step), self.functions.standardise, whole.root)
        self._copy_trained()

    def _train_on_blocks(self, batches: Relation, n: int) -> None:
        limit = self.settings.max_steps
        steps = max(STEPS, -(-n // self.settings.batch_size)) if limit is None else limit
        for step in range(steps):
            self.trainer.anneal(step / steps)
            x, x_plus, kernel = batches.batch(step)
            whole = x is x_plus
            x = x.to(self.dtype)
            batch = Batch(x, x if whole else x_plus.to(self.dtype), kernel)
            self.trainer.step(batch, self.functions.standardise)
        self._copy_trained()

    def _copy_trained(self) -> None:
        self.functions.network.load_state_dict(self.trainer.network.state_dict())


def _training_dtype(relation: KernelRelation, standardise: Standardise, batch_size: int) -> torch.dtype:
    """Return float64 if all points are one batch or float32 would lose their differences; else float32."""
    rounding = standardise.mean.abs() / standardise.scale * torch.finfo(torch.float32).eps
    if len(relation) <= batch_size or bool((rounding > 1e-4).any()) or _kernel_rounds(relation):
        return torch.float64
    return torch.float32


def _kernel_rounds(relation: KernelRelation) -> bool:
    """Tell whether float32 changes the kernel: distant points, or a function that accepts only float64."""
    if relation.kernel is None:
        return False
    x = evenly(relation.x, PROBE)
    y = x[1:]  # if both sides were the same matrix, rounding errors between a point and itself might cancel
    exact = relation.kernel(x.double(), y.double())
    try:
        single = relation.kernel(x.float(), y.float())
    except RuntimeError:
        return True
    return not float((single - exact).abs().max()) < SINGLE * float(exact.abs().max())


def _held_out(operator: Operator, relation: KernelRelation, generator: torch.Generator) -> HeldOutGram | None:
    """Hold out some points of a Gram matrix, if there are enough."""
    few = relation.gram is None or int((relation.p > 0).sum()) < FEWEST
    return None if few or not isinstance(operator, MatrixOperator) else HeldOutGram(operator, generator)

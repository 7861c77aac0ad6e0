"""Objectives that learn beside the network: predictors, prototypes, queues, and targets from a slowly moving copy."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.moments import NORM_FLOOR, mean, standardise
from eigenmap.objectives.objective import Objective


class LearningObjective(Objective):
    """An objective with a state of its own: parameters that are trained with the network, and buffers.

    The training loop calls `begin` before the first step, gives the parameters to the optimizer, and calls
    `after_step` when a step is taken. All state is in `state_dict`, so that a run resumes from its checkpoint exactly.
    """

    takes_gram = False

    def __init__(self) -> None:
        super().__init__()
        self.k: int | None = None

    def begin(self, k: int, seed: int = 0) -> None:
        """Make the state for codes of k features; a second call for the same k changes nothing."""
        if self.k == k:
            return
        if self.k is not None:
            raise EigenmapError(f"{type(self).__name__} was begun for {self.k} features and cannot take {k}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._make(k)
        self.k = k

    def _make(self, k: int) -> None:
        """Make parameters and buffers, from torch's random numbers."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Take in what the step has left behind."""

    def forward(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Return the loss of the global batch, a scalar."""
        if self.k is None and psi.ndim == 2:
            self.begin(psi.shape[1])
            self.to(psi.device)
        return super().forward(psi, psi_plus, kernel)


class TaughtObjective(LearningObjective):
    """An objective whose targets are the codes of a teacher, a copy of the network that follows it slowly [1].

        theta_teacher <- m theta_teacher + (1 - m) theta

    The training loop keeps the teacher as a part of this module, passes its codes of the two views as `targets`, and
    moves it by `momentum` after each step. Without targets the codes are their own.

    [1] Tarvainen, Valpola: Mean Teachers Are Better Role Models, 2017.
    """

    groups: int = 1
    """The teacher sees the batch in so many random groups, each normalised by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher: nn.Module | None = None
        self.targets: tuple[Tensor, Tensor] | None = None

    def momentum(self, done: float) -> float:
        """The momentum m of the teacher when this share of the steps is taken."""
        raise NotImplementedError

    def forward(
        self,
        psi: Tensor,
        psi_plus: Tensor,
        kernel: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the loss of the global batch, a scalar; `targets` are the teacher's codes of the same two views."""
        first, second = (psi, psi_plus) if targets is None else targets
        self.targets = (first.detach(), second.detach())
        try:
            return super().forward(psi, psi_plus, kernel)
        finally:
            self.targets = None

    def taught(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The teacher's codes of the two views, rows of norm 1, in the precision of `like`."""
        assert self.targets is not None
        first, second = (unit(view.to(like.dtype)) for view in self.targets)
        return first, second


class Predictor(nn.Module):
    """p = W2 relu(gamma standardise(W1 z) + beta) + b2, over the rows of both views and of all processes.

    Statistics are those of the (weighted) batch, as in training with BatchNorm; none are kept, since a predictor is
    thrown away after training.
    """

    def __init__(self, k: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(k, hidden, bias=False)
        self.gamma, self.beta = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.zeros(hidden))
        self.second = nn.Linear(hidden, k)

    def forward(self, *views: Tensor, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """Predictions for each view."""
        to = views[0].dtype
        hidden = standardise(*(F.linear(view, self.first.weight.to(to)) for view in views), weights=weights)
        inner = (F.relu(self.gamma.to(to) * h + self.beta.to(to)) for h in hidden)
        return tuple(F.linear(h, self.second.weight.to(to), self.second.bias.to(to)) for h in inner)


def unit(view: Tensor) -> Tensor:
    """Rows of norm 1."""
    return F.normalize(view, dim=1, eps=NORM_FLOOR)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """(B, 1) cosines of the rows of two matrices."""
    return (unit(a) * unit(b)).sum(1, keepdim=True)


def expected(*values: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over pairs, processes and the given (B, 1) values of each pair, as a scalar."""
    return mean(*values, weights=weights).sum()


def towards_one(start: float, done: float) -> float:
    """A momentum that rises from `start` to 1 along a cosine."""
    return 1 - (1 - start) * (math.cos(math.pi * done) + 1) / 2


def size(name: str, value: object) -> int:
    """Return `value` if it is a whole number above 0."""
    return whole_number(value, name)

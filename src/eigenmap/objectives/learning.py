"""Objectives with their own state: predictors, prototypes, queues, or a slowly moving copy of the network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.moments import NORM_FLOOR, mean, standardise
from eigenmap.objectives.objective import Objective


class LearningObjective(Objective):
    """Objective with parameters that are trained with the network, or with buffers.

    The training loop calls `begin` before the first step, passes the parameters to the optimizer and calls `after_step`
    after each step. All state is in `state_dict`, so that a run resumes exactly from its checkpoint.
    """

    takes_gram = False

    def __init__(self) -> None:
        super().__init__()
        self.k: int | None = None

    def begin(self, k: int, seed: int = 0) -> None:
        """Create the state for codes of k features; a second call for the same k changes nothing."""
        if self.k == k:
            return
        if self.k is not None:
            raise EigenmapError(f"{type(self).__name__} was created for {self.k} features and cannot take {k}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._make(k)
        self.k = k

    def _make(self, k: int) -> None:
        """Create parameters and buffers from torch's random numbers."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Update the state after a training step."""

    @override
    def forward(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Tensor:
        if self.k is None and psi.ndim == 2:
            self.begin(psi.shape[1])
            self.to(psi.device)
        return super().forward(psi, psi_plus, kernel)


class TaughtObjective(LearningObjective):
    """Objective whose targets are the codes of a teacher, a copy of the network that follows it slowly [1].

        theta_teacher <- m theta_teacher + (1 - m) theta

    The training loop stores the teacher in this module, passes its codes of the two views as `targets` and moves it by
    `momentum` after each step. Without targets, the codes themselves are the targets.

    [1] Tarvainen, Valpola: Mean Teachers Are Better Role Models, 2017.
    """

    groups: int = 1
    """Number of random groups into which the teacher divides the batch; each is normalised by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher: nn.Module | None = None
        self.targets: tuple[Tensor, Tensor] | None = None

    def momentum(self, done: float) -> float:
        """Return the momentum m of the teacher after the share `done` of all steps."""
        raise NotImplementedError

    def forward(
        self,
        psi: Tensor,
        psi_plus: Tensor,
        kernel: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the loss of the global batch, a scalar; `targets` are the teacher's codes of the two views."""
        first, second = (psi, psi_plus) if targets is None else targets
        self.targets = (first.detach(), second.detach())
        try:
            return super().forward(psi, psi_plus, kernel)
        finally:
            self.targets = None

    def taught(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the teacher's codes of the two views, as rows of norm 1 in the precision of `like`."""
        assert self.targets is not None
        first, second = (unit(view.to(like.dtype)) for view in self.targets)
        return first, second


class Predictor(nn.Module):
    """p = W2 relu(gamma standardise(W1 z) + beta) + b2, over the rows of both views and of all processes.

    Statistics are those of the (weighted) batch, as for BatchNorm in training mode. No running averages are kept, since
    a predictor is discarded after training.
    """

    def __init__(self, k: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(k, hidden, bias=False)
        self.gamma, self.beta = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.zeros(hidden))
        self.second = nn.Linear(hidden, k)

    def forward(self, *views: Tensor, weights: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return the predictions for each view."""
        to = views[0].dtype
        hidden = standardise(*(F.linear(view, self.first.weight.to(to)) for view in views), weights=weights)
        inner = (F.relu(self.gamma.to(to) * h + self.beta.to(to)) for h in hidden)
        return tuple(F.linear(h, self.second.weight.to(to), self.second.bias.to(to)) for h in inner)


def unit(view: Tensor) -> Tensor:
    """Scale rows to norm 1."""
    return F.normalize(view, dim=1, eps=NORM_FLOOR)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Return the cosines (B, 1) of the rows of two matrices."""
    return (unit(a) * unit(b)).sum(1, keepdim=True)


def expected(*values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of the (B, 1) values over pairs and processes, as a scalar."""
    return mean(*values, weights=weights).sum()


def towards_one(start: float, done: float) -> float:
    """Return a momentum that rises from `start` to 1 along a cosine."""
    return 1 - (1 - start) * (math.cos(math.pi * done) + 1) / 2

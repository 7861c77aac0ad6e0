"""MoCo v2: find the teacher's code of the other view among codes of earlier batches."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from eigenmap.core.arguments import whole_number
from eigenmap.objectives.learning import TaughtObjective, expected, unit
from eigenmap.objectives.moments import gather
from eigenmap.objectives.objective import number, switch


class MoCo(TaughtObjective):
    r"""Momentum contrast, with a queue n_1 ... n_Q of the teacher's codes of earlier batches as negatives.

        l(q, t) = - log [ exp(q . t / tau) / ( exp(q . t / tau) + sum_c exp(q . n_c / tau) ) ]

        loss = 1/2 E[ l(psi, t_plus) + l(psi_plus, t) ],    all codes of norm 1

    [1] uses only the first half, as does `symmetric=False`. The teacher sees the batch in `groups` random groups, so
    that BatchNorm does not reveal which key belongs to a query; [1] shuffles the batch between devices for this. The
    published values are a momentum of 0.999, a queue of 65,536, tau = 0.2 and 128 features.

    [1] He, Fan, Wu, Xie, Girshick: Momentum Contrast for Unsupervised Visual Representation Learning, 2020.
    [2] Chen, Fan, Girshick, He: Improved Baselines with Momentum Contrastive Learning, 2020.

    Example::

        train(network, relation, MoCo(), TrainingConfig(steps=1000))      # the loop keeps the teacher
    """

    summary = "the other view among a queue of a slowly moving teacher's codes"

    def __init__(
        self,
        temperature: float = 0.2,
        momentum: float = 0.99,
        queue: int = 4096,
        symmetric: bool = True,
        groups: int = 8,
    ) -> None:
        super().__init__()
        self.temperature = number("temperature", temperature, zero=False)
        self.m = number("momentum", momentum, most=1.0)
        self.length = whole_number(queue, "queue")
        self.symmetric = switch("symmetric", symmetric)
        self.groups = whole_number(groups, "groups")
        self.queue: Tensor
        self._keys: Tensor | None = None

    @override
    def momentum(self, done: float) -> float:
        return self.m

    def _make(self, k: int) -> None:
        self.register_buffer("queue", unit(torch.randn(self.length, k)))

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        t, t_plus = self.taught(psi)
        halves = [self._half(psi, t_plus), self._half(psi_plus, t)] if self.symmetric else [self._half(psi, t_plus)]
        self._keys = torch.cat([gather(t), gather(t_plus)]) if self.symmetric else gather(t_plus)
        return expected(*halves, weights=weights)

    def _half(self, psi: Tensor, keys: Tensor) -> Tensor:
        q = unit(psi)
        positive = (q * keys).sum(1, keepdim=True) / self.temperature
        negative = q @ self.queue.to(q.dtype).T / self.temperature
        return torch.cat([positive, negative], dim=1).logsumexp(1, keepdim=True) - positive

    @override
    def after_step(self) -> None:
        if self._keys is not None:
            keys = self._keys[: self.length].to(self.queue.dtype)
            self.queue.copy_(torch.cat([keys, self.queue[: self.length - len(keys)]]))
            self._keys = None

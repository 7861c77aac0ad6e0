r"""Gradient accumulation that is exact for objectives of the whole batch, with the memory of one chunk.

Objectives are not sums over images, so the sum of the gradients of small batches is not the gradient of the large one.
The chain rule still splits it: with codes psi_c = network(x_c) of the chunks c, and L the objective of all codes,

    dL/dtheta = sum_c (dL/dpsi_c) (dpsi_c/dtheta)

1. compute the codes of all chunks without a graph, except for the last chunk;
2. compute L and dL/dpsi from the joined codes (B x k numbers), and propagate back through the last chunk;
3. compute the codes of each other chunk again, with a graph, and propagate back from dL/dpsi_c.

Step 3 uses the same inputs and random numbers (dropout) as step 1, so value and gradient are those of the undivided
batch. The exception is BatchNorm, which uses the statistics of its chunk in both passes; its running averages are
updated once per step, with the mean of the chunks' statistics. The cost is a second forward pass of all chunks but one.
Gao et al., "Scaling deep contrastive learning batch size under memory limited setup", 2021, use the same idea for
two-tower retrieval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.training.loop import Learner


def backward_in_chunks(learner: Learner, step: int, batch: Batch, chunks: int) -> Tensor:
    """Add the gradient of the objective on `batch` to the learner's parameters; return the objective, detached."""
    if chunks > min(len(batch.x), len(batch.x_plus)):
        raise EigenmapError(f"accumulate is {chunks}, but a batch has only {len(batch.x)} items; use fewer chunks.")
    *others, last = zip(batch.x.tensor_split(chunks), batch.x_plus.tensor_split(chunks), strict=True)
    averages = RunningAverages(learner.network)
    fabric, module = learner.fabric, learner.module
    codes = []
    with averages.collecting():
        with torch.no_grad():
            for chunk, views in enumerate(others):
                codes.append(learner.codes(step, *views, chunk))
                averages.collect()
        with fabric.no_backward_sync(module, enabled=bool(others)):
            codes.append(learner.codes(step, *last, chunks - 1))
            averages.collect()
            psi, psi_plus = (torch.cat(parts).detach().requires_grad_() for parts in zip(*codes, strict=True))
            loss = learner.loss(step, psi, psi_plus, batch)
            gradients = torch.autograd.grad(loss, (psi, psi_plus, *learner.learned), allow_unused=bool(learner.learned))
            for parameter, gradient in zip(learner.learned, gradients[2:], strict=True):
                parameter.grad = gradient
            slopes = zip(*(g.tensor_split(chunks) for g in gradients[:2]), strict=True)
            *slopes_of_others, slopes_of_last = slopes
            fabric.backward(torch.cat(codes.pop()), torch.cat(slopes_of_last))

    with averages.frozen():
        for chunk, (views, slope) in enumerate(zip(others, slopes_of_others, strict=True)):
            # Processes exchange gradients only once, at the end.
            with fabric.no_backward_sync(module, enabled=chunk < len(others) - 1):
                fabric.backward(torch.cat(learner.codes(step, *views, chunk)), torch.cat(slope))
    return loss.detach()


class RunningAverages:
    """Running averages of a network's BatchNorm layers, updated once for several forward passes."""

    def __init__(self, network: nn.Module) -> None:
        self.norms: list[_BatchNorm] = []
        self.averages: list[tuple[Tensor, Tensor, Tensor]] = []  # the layers' own buffers: mean, variance, count
        for norm in network.modules():
            if isinstance(norm, _BatchNorm) and norm.training and norm.running_mean is not None:
                assert norm.running_var is not None and norm.num_batches_tracked is not None
                self.norms.append(norm)
                self.averages.append((norm.running_mean, norm.running_var, norm.num_batches_tracked))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Context in which `collect` is called after each forward pass; on exit, update once with the mean."""
        before = self._now()
        self.sums = [torch.zeros_like(statistics) for statistics in before]
        self.passes = 0
        with self._momentum(1.0):  # the "running average" is then that of the last forward pass
            yield
        for norm, old, total, (mean, var, count) in zip(self.norms, before, self.sums, self.averages, strict=True):
            count += 1
            weight = torch.reciprocal(count) if norm.momentum is None else norm.momentum
            new = torch.lerp(old, total / self.passes, weight)
            mean.copy_(new[0])
            var.copy_(new[1])

    def collect(self) -> None:
        """Record the statistics of the last forward pass."""
        self.passes += 1
        self.sums = [total + seen for total, seen in zip(self.sums, self._now(), strict=True)]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Context in which forward passes in training mode leave the running averages unchanged."""
        with self._momentum(0.0):
            yield

    def _now(self) -> list[Tensor]:
        return [torch.stack([mean, var]) for mean, var, _ in self.averages]

    @contextmanager
    def _momentum(self, value: float) -> Iterator[None]:
        momenta = [norm.momentum for norm in self.norms]
        counts = [count.clone() for _, _, count in self.averages]
        for norm in self.norms:
            norm.momentum = value
        try:
            yield
        finally:
            for norm, momentum, (_, _, count), before in zip(self.norms, momenta, self.averages, counts, strict=True):
                norm.momentum = momentum
                count.copy_(before)

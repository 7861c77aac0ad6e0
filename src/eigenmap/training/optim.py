r"""Optimizers with the exclusions of large-batch self-supervised learning, and the learning-rate schedule.

Biases and norm parameters (everything one-dimensional) have no weight decay and are not adapted by LARS.

LARS (You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017) scales every layer's update to
the size of its weights:

    g <- g + lambda w,    g <- eta |w| / |g| * g,    v <- m v + g,    w <- w - lr v

LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020) does the same to the
update of AdamW; see `lamb.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import Decay, TrainingConfig
from eigenmap.training.lamb import LAMB, LayerWise, trust_ratios

LATE = 0.8
"""Share of the steps after warm-up at which the decay "late" begins."""


def schedule(step: float, steps: int, warmup_steps: int = 0, final: float = 0.0, decay: Decay = "cosine") -> float:
    """Return the learning-rate multiplier at a step: linear warm-up to 1, then decay towards `final`.

    The decay is a cosine, or linear, or linear over the last fifth only ("late").

    >>> [round(schedule(s, steps=6, warmup_steps=2), 2) for s in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    done = (step - warmup_steps) / (steps - warmup_steps)
    left = {
        "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        "linear": 1 - done,
        "late": min(1.0, (1 - done) / (1 - LATE)),
    }[decay]
    return final + (1 - final) * left


class LARS(LayerWise):
    """SGD with momentum and layer-wise rescaled updates; a group with `adapt=False` is plain SGD.

    All layers of a group are updated together on the device, and no value returns to the host.

        LARS(parameter_groups(network, lr=2.4, weight_decay=1e-6), lr=2.4)
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        eta: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eta": eta, "adapt": True}
        super().__init__(params, defaults)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        updates = [w.grad for w in weights if w.grad is not None]
        if group["weight_decay"] != 0:
            updates = list(torch._foreach_add(updates, weights, alpha=group["weight_decay"]))
        if group["adapt"]:
            updates = list(torch._foreach_mul(updates, trust_ratios(weights, updates, group["eta"])))
        for w in weights:
            if "momentum_buffer" not in self.state[w]:
                self.state[w]["momentum_buffer"] = torch.zeros_like(w)
        velocities = [self.state[w]["momentum_buffer"] for w in weights]
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, updates)
        torch._foreach_add_(weights, velocities, alpha=-group["lr"])


def parameter_groups(
    network: nn.Module,
    lr: float,
    weight_decay: float,
    projector_lr_scale: float = 1.0,
    objective: nn.Module | None = None,
) -> list[dict[str, Any]]:
    """Return named groups: the projector (`network.projector`), the encoder, and the objective's own parameters.

    Each is split into weights and 1-D parameters. `base_lr` is a group's learning rate before the schedule.
    """
    groups: dict[str, dict[str, Any]] = {}
    named = [("projector" if name.startswith("projector.") else "encoder", p) for name, p in network.named_parameters()]
    named += [("objective", parameter) for parameter in ([] if objective is None else objective.parameters())]
    for part, parameter in named:
        if not parameter.requires_grad:
            continue
        adapt = parameter.ndim > 1
        rate = lr * projector_lr_scale if part == "projector" else lr
        group = groups.setdefault(
            f"{part} {'weights' if adapt else 'biases and norms'}",
            {
                "params": [],
                "lr": rate,
                "base_lr": rate,
                "weight_decay": weight_decay if adapt else 0.0,
                "adapt": adapt,
            },
        )
        group["params"].append(parameter)
    if not groups:
        raise EigenmapError("the network has no parameters to train; unfreeze some of them.")
    if projector_lr_scale != 1 and not any(name.startswith("projector") for name in groups):
        raise EigenmapError("projector_lr_scale is set, but the network has no `projector` with parameters to train.")
    return [{"name": name, **group} for name, group in groups.items()]


def build_optimizer(
    network: nn.Module, config: TrainingConfig, objective: nn.Module | None = None
) -> torch.optim.Optimizer:
    """Build the optimizer of `config` over `parameter_groups`."""
    groups = parameter_groups(network, config.lr, config.weight_decay, config.projector_lr_scale, objective)
    if config.optimizer == "lars":
        return LARS(groups, lr=config.lr, momentum=config.momentum)
    if config.optimizer == "lamb":
        return LAMB(groups, lr=config.lr)
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)
    return torch.optim.AdamW(groups, lr=config.lr, fused=True)


def set_rates(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Set every group to its base rate times the schedule's multiplier."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * multiplier

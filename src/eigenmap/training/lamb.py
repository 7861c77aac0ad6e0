r"""LAMB: AdamW with layer-wise rescaled updates, for large batches.

    m <- b1 m + (1 - b1) g,    v <- b2 v + (1 - b2) g^2
    r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + lambda w,    w <- w - lr |w| / |r| * r

You et al.: Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes, 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class LayerWise(torch.optim.Optimizer):
    """Optimizer that updates all layers of a group together; subclasses have `_update`."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [w for w in group["params"] if w.grad is not None]
            if weights:
                self._update(weights, group)
        return loss

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Update the weights of a group, all of which have a gradient."""
        raise NotImplementedError


class LAMB(LayerWise):
    """AdamW whose step in every layer is as long as `lr` times its weights; a group with `adapt=False` is plain AdamW.

    All layers of a group are updated together on the device, and no value returns to the host.

        LAMB(parameter_groups(network, lr=0.01, weight_decay=1e-2), lr=0.01)
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapt": True, "taken": 0}
        super().__init__(params, defaults)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        group["taken"] += 1
        gradients = [w.grad for w in weights if w.grad is not None]
        for w in weights:
            if not self.state[w]:
                self.state[w].update(m=torch.zeros_like(w), v=torch.zeros_like(w))
        m, v = ([self.state[w][name] for w in weights] for name in ("m", "v"))
        (b1, b2), taken = group["betas"], group["taken"]
        torch._foreach_lerp_(m, gradients, 1 - b1)
        torch._foreach_mul_(v, b2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - b2)
        scale = torch._foreach_sqrt(torch._foreach_div(v, 1 - b2**taken))
        torch._foreach_add_(scale, group["eps"])
        updates = list(torch._foreach_div(torch._foreach_div(m, 1 - b1**taken), scale))
        if group["weight_decay"] != 0:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        if group["adapt"]:
            updates = list(torch._foreach_mul(updates, trust_ratios(weights, updates)))
        torch._foreach_add_(weights, updates, alpha=-group["lr"])


def trust_ratios(weights: list[Tensor], updates: list[Tensor], eta: float = 1.0) -> list[Tensor]:
    """Return eta |w| / |r| for each layer, 1 if either norm is zero."""
    w = torch.stack(torch._foreach_norm(weights))
    r = torch.stack(torch._foreach_norm(updates))
    return list(torch.where((w > 0) & (r > 0), eta * w / r, 1.0).unbind())

"""A stand-in for Apple's GPU on any machine: tensors that call themselves "mps" and refuse float64, as those do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

MPS = torch.device("mps")
CROSSING = {"copy_", "__set__", "__getitem__", "__setitem__", "_has_compatible_shallow_copy_type", "set_data"}
"""Operations that take tensors of two devices; an index may be on the CPU."""


class PretendMps(TorchFunctionMode):
    """While this mode is on, storages that were sent to "mps" are remembered, and what is computed from them.

    The arithmetic is the CPU's. Float64 on the device, operands on different devices and `numpy()` raise, as on a Mac.
    `operations` are the names of those that ran on the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, torch.UntypedStorage] = {}  # kept alive, so that no address is used again
        self.operations: set[str] = set()

    def holds(self, x: Tensor) -> bool:
        """Tell whether a tensor is on the device."""
        return x.layout == torch.strided and x.untyped_storage()._cdata in self._held

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "__get__" and getattr(func, "__self__", None) is Tensor.device:
            return MPS if self.holds(args[0]) else func(*args, **kwargs)
        if name in ("to", "cpu", "numpy"):
            return self._moved(func, name, args, kwargs)
        if _is_mps(kwargs.get("device")):
            return self._taken(func(*args, **{**kwargs, "device": "cpu"}), name)
        given = list(_tensors((args, kwargs)))
        here = [x for x in given if self.holds(x)]
        if here and name not in CROSSING and any(x.ndim and not self.holds(x) for x in given):
            raise RuntimeError(f"{name}: expected all tensors on one device, found mps and cpu")
        result = func(*args, **kwargs)
        return self._taken(result, name) if here and (name != "__getitem__" or self.holds(args[0])) else result

    def _moved(self, func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        x, *rest = args
        if name == "numpy":
            if self.holds(x):
                raise TypeError("can't convert mps tensor to numpy")
            return func(*args, **kwargs)
        where = [value for value in (*rest, *kwargs.values()) if isinstance(value, str | torch.device)]
        like = [value for value in rest if isinstance(value, Tensor)]
        to_mps = self.holds(x)
        if name == "cpu" or where or like:
            to_mps = name != "cpu" and (any(map(_is_mps, where)) or any(map(self.holds, like)))
        plain = [torch.device("cpu") if _is_mps(value) else value for value in rest]
        result = func(x, *plain, **{key: "cpu" if _is_mps(value) else value for key, value in kwargs.items()})
        if result.dtype == torch.float64 and (to_mps or (self.holds(x) and x.dtype != torch.float64)):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype, which it does not have.")
        if to_mps == self.holds(x):
            return self._taken(result, name) if to_mps else result
        result = result.clone() if result.untyped_storage()._cdata == x.untyped_storage()._cdata else result
        return self._taken(result, name) if to_mps else result

    def _taken(self, result: Any, name: str) -> Any:
        """Remember results as tensors of the device."""
        self.operations.add(name)
        for x in _tensors(result):
            if x.dtype == torch.float64:
                raise TypeError(f"{name} makes float64 on mps, which has none")
            storage = x.untyped_storage()
            self._held[storage._cdata] = storage
        return result


def _is_mps(device: object) -> bool:
    return isinstance(device, str | torch.device) and str(device).startswith("mps")


def _tensors(values: Any) -> Iterator[Tensor]:
    yield from (value for value in tree_flatten(values)[0] if isinstance(value, Tensor))

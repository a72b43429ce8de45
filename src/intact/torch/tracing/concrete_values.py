"""Give values to tensors that do not depend on a model's input, while it is exported.

``torch.arange(1, x.dim()).tolist()`` or ``int(self.stride)`` are numbers whenever the model runs. Under
torch.export tensors have no values, and it stops there. Inside `concrete_values`, such tensors are computed a
second time beside the export, and reads of their values use these.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from intact.torch.private_torch import (
    DisableTorchFunction,
    FakeTensor,
    OpOverload,
    disable_current_modes,
    pytree,
)

__all__ = ["concrete_values"]

_LARGEST = 4096
"""Elements of the largest tensor that is computed a second time; larger ones hold data."""

_SCALARS = 16
"""Elements of the largest floating-point input that may hold steps or scales."""

_READ_VALUES = {
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__format__",
    "is_nonzero", "equal", "allclose",
}  # fmt: skip
"""Functions that return what is in a tensor."""

_READ_SHAPE = {"new_zeros", "new_ones", "new_full", "new_tensor", "zeros_like", "ones_like", "full_like"}
"""Functions that read only a tensor's type and sizes."""

_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "empty", "poisson", "exponential")
"""Parts of names of functions that return something else each time."""


@contextmanager
def concrete_values(model: Any, call: tuple[Any, Any] = ((), {})) -> Iterator[None]:
    """Give small tensors that do not depend on the input values in a model's forward, inside the context.

    Args:
        model: What is exported. The small parameters and buffers of a module are such tensors. For anything
            else nothing happens.
        call: Positional and named arguments of the model. Lengths, positions, steps and masks among them have
            values, too. The trace is of what the model does with these.
    """
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        yield
        return
    own = {name: x.detach().clone() for name, x in _tensors_of(model) if _is_small(x)}
    example_leaves = pytree.tree_leaves(call)
    # Of the class, as torch.export calls it with a stand-in for the module; of the instance where it has one.
    place: Any = model if "forward" in vars(model) else type(model)
    inner, before = place.forward, vars(place).get("forward")
    running: list[_ValuesMode] = []

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if running:  # another module of its class
            return inner(*args, **kwargs)
        mode = _ValuesMode()
        leaves = pytree.tree_leaves((args if place is model else args[1:], kwargs))
        for x, value in (
            zip(leaves, example_leaves, strict=True) if len(leaves) == len(example_leaves) else ()
        ):
            if _is_control_input(value):
                mode.set_value(x, value)
        for name, x in _tensors_of(model):
            if name in own:
                mode.set_value(x, own[name])
        running.append(mode)
        try:
            with mode:  # inside of the modes of torch.export, which would see the calls first
                return inner(*args, **kwargs)
        finally:
            running.clear()

    place.forward = forward
    try:
        yield
    finally:
        del place.forward
        if before is not None:
            place.forward = before


def _tensors_of(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _is_small(x: Any) -> bool:
    return isinstance(x, Tensor) and all(isinstance(size, int) for size in x.shape) and x.numel() <= _LARGEST


def _is_control_input(x: Any) -> bool:
    """Return whether an input may steer the computation rather than hold data."""
    return _is_small(x) and (x.numel() <= _SCALARS or not (x.is_floating_point() or x.is_complex()))


class _ValuesMode(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self._values_by_id: dict[int, tuple[Tensor, Tensor]] = {}

    def set_value(self, x: Tensor, value: Tensor) -> None:
        """Store `value` as the value of x. It keeps x alive, so that its id is not used again."""
        self._values_by_id[id(x)] = x, value
        if isinstance(x, FakeTensor) and value.numel() == 1:
            with _outside_trace():
                x.item_memo = value.item()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if isinstance(func, OpOverload):  # calls inside of torch's own code
            return func(*args, **kwargs)
        if _writes(name) or "out" in kwargs:
            result = func(*args, **kwargs)
            self._write_values(func, name, args, kwargs, result)
            return result
        call = self._values(name, args, kwargs)
        if call is None:
            return func(*args, **kwargs)
        if name in _READ_VALUES:
            with _outside_trace():
                return func(*call[0], **call[1])
        result = func(*args, **kwargs)
        if name == "__iter__":
            result = list(result)
        self._compute_beside(func, call, result)
        return iter(result) if name == "__iter__" else result

    def _values(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Return the arguments with values; None where one has none, or where they do not determine the
        result.
        """
        if any(part in name for part in _RANDOM):
            return None
        if name in _READ_SHAPE and args and _is_small(args[0]):
            with _outside_trace():
                blank = torch.zeros(tuple(args[0].shape), dtype=args[0].dtype, device=args[0].device)
            args = (blank, *args[1:])
            blank_id = id(blank)
        else:
            blank_id = 0
            if args and isinstance(args[0], Tensor) and id(args[0]) not in self._values_by_id:
                return None  # nearly all calls
        leaves, spec = pytree.tree_flatten((args, kwargs))
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor) and id(leaf) != blank_id:
                entry = self._values_by_id.get(id(leaf))
                if entry is None:
                    return None
                leaves[index] = entry[1]
            elif isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return None
        call: tuple[Any, Any] = pytree.tree_unflatten(leaves, spec)
        return call

    def _write_values(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Write into values as well. Values of views share their memory, as the tensors do."""
        if "out" not in kwargs and not (args and id(args[0]) in self._values_by_id):
            return
        call = None if "out" in kwargs else self._values(name, args, kwargs)
        if call is None:
            self._values_by_id.clear()  # which tensors are views of it is unknown
        else:
            self._compute_beside(func, call, result)

    def _compute_beside(self, func: Any, call: tuple[Any, Any], result: Any) -> None:
        """Compute and store the value of the result of `func`."""
        tensors = [result] if isinstance(result, Tensor) else result
        if tensors is not None and not (isinstance(tensors, (tuple, list)) and all(map(_is_small, tensors))):
            return
        with _outside_trace(), torch.no_grad():
            value = func(*call[0], **call[1])
        values = [value] if isinstance(result, Tensor) else value
        for x, computed in zip(tensors or (), values or (), strict=True):
            if x.shape == computed.shape and x.dtype == computed.dtype:
                self.set_value(x, computed)


def _writes(name: str) -> bool:
    return name in ("__setitem__", "__set__") or (name.endswith("_") and not name.endswith("__"))


@contextmanager
def _outside_trace() -> Iterator[None]:
    """Run real tensor functions inside the context, unseen by the trace."""
    with disable_current_modes(), DisableTorchFunction():
        yield

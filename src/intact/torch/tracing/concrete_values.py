"""Numbers that a model's code reads out of tensors that do not depend on its input, when it is exported.

``torch.arange(1, x.dim()).tolist()`` or ``int(self.stride)`` are numbers whenever the model runs. While
torch.export runs, tensors have no values, and it stops there. While `known_values` is open, such tensors are
computed beside the export, and are asked for their values in place of those without.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["known_values"]

_LARGEST = 4096
"""Values of a tensor that is computed a second time: larger ones hold data."""

_SCALARS = 16
"""Values of an input of a floating type that may be steps or scales."""

_READS = {
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__format__",
    "is_nonzero", "equal", "allclose",
}  # fmt: skip
"""Functions that say what is in a tensor."""

_OF_SIZES = {"new_zeros", "new_ones", "new_full", "new_tensor", "zeros_like", "ones_like", "full_like"}
"""Functions that read a tensor's type and sizes alone."""

_UNSURE = ("rand", "normal", "bernoulli", "multinomial", "dropout", "empty", "poisson", "exponential")
"""Parts of names of functions that answer something else each time."""


@contextmanager
def known_values(model: Any, call: tuple[Any, Any] = ((), {})) -> Iterator[None]:
    """While it is open, small tensors that do not depend on a model's input have values in its forward.

    Args:
        model: What is exported; where it is a module, its own small parameters and buffers are such tensors.
            Of anything else nothing is known.
        call: Positional and named arguments of the model, of which lengths, positions, steps and masks are
            known, too: what is traced then is what the model does with these.
    """
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        yield
        return
    own = {name: x.detach().clone() for name, x in _tensors_of(model) if _is_small(x)}
    given = pytree.tree_leaves(call)
    # Of the class, as torch.export calls it with a stand-in for the module; of the instance where it has one.
    place: Any = model if "forward" in vars(model) else type(model)
    inner, before = place.forward, vars(place).get("forward")
    running: list[_KnownValues] = []

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if running:  # another module of its class
            return inner(*args, **kwargs)
        mode = _KnownValues()
        read = pytree.tree_leaves((args if place is model else args[1:], kwargs))
        for x, value in zip(read, given, strict=True) if len(read) == len(given) else ():
            if _is_no_data(value):
                mode.know(x, value)
        for name, x in _tensors_of(model):
            if name in own:
                mode.know(x, own[name])
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


def _is_no_data(x: Any) -> bool:
    """Whether an input may say what to do, and not what with."""
    return _is_small(x) and (x.numel() <= _SCALARS or not (x.is_floating_point() or x.is_complex()))


class _KnownValues(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, Tensor]] = {}

    def know(self, x: Tensor, value: Tensor) -> None:
        """`value` is what x holds; x lives on, so that its id stays its own."""
        self._known[id(x)] = x, value
        if isinstance(x, FakeTensor) and value.numel() == 1:
            with _for_real():
                x.item_memo = value.item()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if isinstance(func, torch._ops.OpOverload):  # torch's own affairs
            return func(*args, **kwargs)
        if _writes(name) or "out" in kwargs:
            answer = func(*args, **kwargs)
            self._written(func, name, args, kwargs, answer)
            return answer
        given = self._values(name, args, kwargs)
        if given is None:
            return func(*args, **kwargs)
        if name in _READS:
            with _for_real():
                return func(*given[0], **given[1])
        answer = func(*args, **kwargs)
        if name == "__iter__":
            answer = list(answer)
        self._remember(func, given, answer)
        return iter(answer) if name == "__iter__" else answer

    def _values(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """The arguments with values; None where one of them has none, or where they do not say the answer."""
        if any(part in name for part in _UNSURE):
            return None
        if name in _OF_SIZES and args and _is_small(args[0]):
            with _for_real():
                alike = torch.zeros(tuple(args[0].shape), dtype=args[0].dtype, device=args[0].device)
            args = (alike, *args[1:])
            own = id(alike)
        else:
            own = 0
            if args and isinstance(args[0], Tensor) and id(args[0]) not in self._known:
                return None  # nearly all calls
        leaves, spec = pytree.tree_flatten((args, kwargs))
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor) and id(leaf) != own:
                known = self._known.get(id(leaf))
                if known is None:
                    return None
                leaves[index] = known[1]
            elif isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return None
        found: tuple[Any, Any] = pytree.tree_unflatten(leaves, spec)
        return found

    def _written(self, func: Any, name: str, args: Any, kwargs: Any, answer: Any) -> None:
        """Write into values, too: those of views share their memory, as the tensors do."""
        if "out" not in kwargs and not (args and id(args[0]) in self._known):
            return
        given = None if "out" in kwargs else self._values(name, args, kwargs)
        if given is None:
            self._known.clear()  # what is a view of it is not known
        else:
            self._remember(func, given, answer)

    def _remember(self, func: Any, given: tuple[Any, Any], answer: Any) -> None:
        """Compute what `func` made, and keep it."""
        made = [answer] if isinstance(answer, Tensor) else answer
        if made is not None and not (isinstance(made, (tuple, list)) and all(map(_is_small, made))):
            return
        with _for_real(), torch.no_grad():
            value = func(*given[0], **given[1])
        values = [value] if isinstance(answer, Tensor) else value
        for x, known in zip(made or (), values or (), strict=True):
            if x.shape == known.shape and x.dtype == known.dtype:
                self.know(x, known)


def _writes(name: str) -> bool:
    return name in ("__setitem__", "__set__") or (name.endswith("_") and not name.endswith("__"))


@contextmanager
def _for_real() -> Iterator[None]:
    """Tensors have values inside, and nobody sees the calls."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield

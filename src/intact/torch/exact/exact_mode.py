"""Provide the mode in which torch functions compute what the engine computes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from intact.torch.exact.function_handlers import DECOMPOSED, HANDLERS, NoEngineStep
from intact.torch.exact.tensor_grids import MOVES, TensorGrids
from intact.torch.exact.torch_steps import note_torch_step
from intact.torch.operators.fake_quantize import is_tracing
from intact.torch.private_torch import is_in_functorch
from intact.torch.tracing.function_names import function_of

__all__ = ["exact_functions"]

_local = threading.local()


@contextmanager
def exact_functions(model: nn.Module) -> Iterator[None]:
    """Make torch functions return the engine's bits inside the context, if `model` is in evaluation mode.

    Graphs that are recorded, and transforms of `torch.func`, get torch's own functions.
    """
    recorded = is_tracing() or is_in_functorch()
    if model.training or recorded or is_suspended() or getattr(_local, "open", False):
        yield
        return
    _local.open = True
    try:
        with _Exact():
            yield
    finally:
        _local.open = False


@contextmanager
def torch_functions() -> Iterator[None]:
    """Make functions torch's own inside the context, as for an exporter that runs the model."""
    before = is_suspended()
    _local.suspended = True
    try:
        yield
    finally:
        _local.suspended = before


def is_suspended() -> bool:
    """Return whether `torch_functions` is open in this thread."""
    return bool(getattr(_local, "suspended", False))


class _Exact(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.grids = TensorGrids()
        self._running_decomposed: set[str] = (
            set()
        )  # functions whose parts are running: one of these may be the function

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        body = _body(func) if isinstance(func, FunctionType) else None
        if body is not None:
            with self:
                return body(*args, **kwargs)
        info = function_of(func)
        name = info.name
        if name == "fake_quantize":
            result = func(*args, **kwargs)
            self.grids.put_quantized(result, args)
            return result
        if name in MOVES and not info.writes:
            result = func(*args, **kwargs)
            if args:
                self.grids.put_moved(name, result, func, args, kwargs)
            return result
        operands = (*args, *kwargs.values())
        if "out" in kwargs or not _is_real(operands):
            note_torch_step(name, operands)
            return func(*args, **kwargs)
        if name in DECOMPOSED and name not in self._running_decomposed:
            self._running_decomposed.add(name)
            try:
                with self:
                    return _write_if_inplace(info.writes, args, DECOMPOSED[name](*args, **kwargs))
            finally:
                self._running_decomposed.discard(name)
        handler = HANDLERS.get(name)
        if handler is None:
            note_torch_step(name, operands)
            return func(*args, **kwargs)
        try:
            result = handler(self.grids, *args, **kwargs)
        except (NoEngineStep, TypeError):  # operands that the function does not have: torch says so itself
            note_torch_step(name, operands)
            return func(*args, **kwargs)
        return _write_if_inplace(info.writes, args, result)


def _write_if_inplace(writes: bool, args: tuple[Any, ...], result: Any) -> Any:
    return args[0].copy_(result) if writes else result


def _is_real(operands: tuple[Any, ...]) -> bool:
    """Return whether all floats among the operands are tensors that the engine's steps take."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors and operands and isinstance(operands[0], (tuple, list)):
        tensors = [x for x in operands[0] if isinstance(x, Tensor)]
    floats = [x for x in tensors if x.is_floating_point()]
    return bool(floats) and all(
        x.dtype == torch.float32 and x.device.type == "cpu" and x.layout == torch.strided and x.numel()
        for x in floats
    )  # fmt: skip


@functools.cache
def _body(function: FunctionType) -> Callable[..., Any] | None:
    """Return `function` without its check for `__torch_function__` overrides, so that its inner calls are
    seen.

    Return None where it has no such check.
    """
    names = set(function.__code__.co_names) & function.__globals__.keys()
    asks = [name for name in names if name.startswith("has_torch_function")]
    if not asks or "__class__" in function.__code__.co_freevars:  # its super() comes back under its own name
        return None
    globals_without_check = {**function.__globals__, **dict.fromkeys(asks, lambda *_: False)}
    body = FunctionType(
        function.__code__,
        globals_without_check,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    body.__kwdefaults__ = function.__kwdefaults__
    return body

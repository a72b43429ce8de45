"""Provide the mode in which torch functions compute what the engine computes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from intact.torch.exact.function_handlers import DECOMPOSED, HANDLERS, OF_INTEGERS, NoEngineStep
from intact.torch.exact.tensor_grids import MOVES, CarriesGrid, TensorGrids
from intact.torch.exact.torch_steps import note_torch_step
from intact.torch.operators.fake_quantize import is_tracing
from intact.torch.private_torch import is_in_functorch
from intact.torch.tracing.function_names import function_of

__all__ = ["ExactMode", "exact_functions", "has_engine_form", "is_suspended", "open_mode", "torch_functions"]

_local = threading.local()


@contextmanager
def exact_functions(model: nn.Module) -> Iterator[None]:
    """Make torch functions return the engine's bits inside the context, if `model` is in evaluation mode.

    Graphs that are recorded, and transforms of `torch.func`, get torch's own functions.

    Rule N65.
    """
    recorded = is_tracing() or is_in_functorch()
    if model.training or recorded or is_suspended() or open_mode() is not None:
        yield
        return
    _local.mode = ExactMode()
    try:
        with _local.mode:
            yield
    finally:
        _local.mode = None


@contextmanager
def torch_functions() -> Iterator[None]:
    """Make functions torch's own inside the context, as for an exporter that runs the model."""
    before = is_suspended()
    _local.suspended = True
    try:
        yield
    finally:
        _local.suspended = before


def open_mode() -> ExactMode | None:
    """Return the mode that `exact_functions` opened in this thread; None outside of it."""
    mode: ExactMode | None = getattr(_local, "mode", None)
    return mode


def is_suspended() -> bool:
    """Return whether `torch_functions` is open in this thread."""
    return bool(getattr(_local, "suspended", False))


class ExactMode(TorchFunctionMode):
    """Computes what the engine computes; holds the grids of the tensors that pass."""

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
        if any(issubclass(kind, CarriesGrid) for kind in types):
            if not has_engine_form(func):
                return func(*args, **kwargs)
            args, kwargs, _ = self.grids.take_in(args, kwargs)
        args, kwargs = _usual_form(args, kwargs)
        info = function_of(func)
        name = info.name
        operands = (*args, *kwargs.values())
        is_real = "out" not in kwargs and _is_real(operands)
        if is_real and name in DECOMPOSED and name not in self._running_decomposed:
            result = self._run_decomposed(name, args, kwargs)
            if result is not None:
                return _write_if_inplace(info.writes, args, result)
        body = _body(func) if isinstance(func, FunctionType) else None
        if body is not None:
            with self:
                return body(*args, **kwargs)
        if name == "fake_quantize":
            result = func(*args, **kwargs)
            self.grids.put_quantized(result, args)
            return result
        if name in MOVES and not info.writes:
            result = func(*args, **kwargs)
            if args:
                self.grids.put_moved(name, result, func, args, kwargs)
            return result
        if name in OF_INTEGERS and "out" not in kwargs and not any(map(_is_float, operands)):
            args = tuple(x.float() if isinstance(x, Tensor) else x for x in args)
            operands = (*args, *kwargs.values())
            is_real = _is_real(operands)
        handler = HANDLERS.get(name) if is_real else None
        if handler is None:
            note_torch_step(name, operands)
            return func(*args, **kwargs)
        try:
            result = handler(self.grids, *args, **kwargs)
        except (NoEngineStep, TypeError):  # operands that the function does not have: torch says so itself
            note_torch_step(name, operands)
            return func(*args, **kwargs)
        return _write_if_inplace(info.writes, args, result)

    def _run_decomposed(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the calls that a function consists of give; None where it is no such calls."""
        self._running_decomposed.add(name)
        try:
            with self:
                return DECOMPOSED[name](*args, **kwargs)
        except NoEngineStep:
            return None
        finally:
            self._running_decomposed.discard(name)


def _usual_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with the input in front, and without an `out` that is None."""
    if not kwargs:
        return args, kwargs
    first = (kwargs["input"],) if not args and "input" in kwargs else ()
    left_out = {"input"} if first else set()
    left_out |= {"out"} if kwargs.get("out", first) is None else set()
    return (*first, *args), {name: x for name, x in kwargs.items() if name not in left_out}


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _write_if_inplace(writes: bool, args: tuple[Any, ...], result: Any) -> Any:
    return args[0].copy_(result) if writes else result


def _is_real(operands: tuple[Any, ...]) -> bool:
    """Return whether all floats among the operands are tensors that the engine's steps take."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        lists = (x for x in operands if isinstance(x, (tuple, list)))
        tensors = [x for x in next(lists, ()) if isinstance(x, Tensor)]
    floats = [x for x in tensors if x.is_floating_point()]
    return bool(floats) and all(
        x.dtype == torch.float32 and x.device.type == "cpu" and x.layout == torch.strided and x.numel()
        for x in floats
    )  # fmt: skip


_FUNCTION_MODULES = ("torch.functional", "torch.nn.functional")


@functools.cache
def has_engine_form(func: Any) -> bool:
    """Return whether `ExactMode` does with a function what PyTorch does not."""
    name = function_of(func).name
    if name in MOVES or name in DECOMPOSED or name in HANDLERS or name == "fake_quantize":
        return True
    is_written_in_python = isinstance(func, FunctionType) and func.__module__ in _FUNCTION_MODULES
    return is_written_in_python and _body(func) is not None


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


__all__ = ["run_exactly"]


class _OpenCalls(threading.local):
    """Holds the contexts of the calls that run in this thread."""

    def __init__(self) -> None:
        self.contexts: list[AbstractContextManager[None]] = []


_open_calls = _OpenCalls()


def run_exactly(model: nn.Module) -> nn.Module:
    """Open `exact_functions` around every call of `model`; return it."""
    if _enter not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(_enter, prepend=True)
        model.register_forward_hook(_leave, always_call=True)
    return model


def _enter(model: nn.Module, _args: Any) -> None:
    if torch.compiler.is_compiling():
        return
    context = exact_functions(model)
    context.__enter__()
    _open_calls.contexts.append(context)


def _leave(_model: nn.Module, _args: Any, _output: Any) -> None:
    if not torch.compiler.is_compiling() and _open_calls.contexts:
        _open_calls.contexts.pop().__exit__(None, None, None)

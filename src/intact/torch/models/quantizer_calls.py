"""The calls of `intact::fake_quantize` while a module runs: who makes them, and what they shall answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Answer", "StableSorts", "module_at", "path_of", "same_arguments", "watching"]

Answer = Callable[[nn.Module, tuple[Any, ...], Callable[[], Tensor]], Tensor]
"""(the module that is running, the operator's arguments, the operator) -> what the module gets."""


@contextmanager
def watching(model: nn.Module, answer: Answer) -> Iterator[None]:
    """While it is open, `answer` is asked whenever `model` calls the operator."""
    path: list[nn.Module] = []
    hooks: list[Any] = []

    def leave(*_: Any) -> None:  # answers nothing: what a hook answers is the module's answer
        path.pop()

    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(lambda m, _: path.append(m), prepend=True))
        hooks.append(module.register_forward_hook(leave))
    try:
        with _Mode(lambda args, run: answer(path[-1] if path else model, args, run)):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _Mode(TorchDispatchMode):
    def __init__(self, answer: Callable[[tuple[Any, ...], Callable[[], Tensor]], Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._answer = answer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not torch.ops.intact.fake_quantize.default:
            return func(*args, **(kwargs or {}))
        return self._answer(args, lambda: func(*args, **(kwargs or {})))


def same_arguments(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two calls quantize one tensor alike, or two that hold the same; both have kept them alive."""
    alike = a[0].shape == b[0].shape and len(a) == len(b) and all(map(_equal, a[1:], b[1:]))
    return alike and (a[0].data_ptr() == b[0].data_ptr() or torch.equal(a[0], b[0]))


def _equal(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)


def module_at(model: nn.Module, path: str) -> nn.Module:
    """The module of a quantizer's path; `model` where the operator was called in its own forward."""
    try:
        return model.get_submodule(path)
    except AttributeError:
        return model


def path_of(model: nn.Module, module: nn.Module) -> str:
    """The path of a module; the name of its class for `model` itself."""
    return next((name for name, m in model.named_modules() if m is module), "") or type(module).__name__


class StableSorts(TorchFunctionMode):
    """Of equal values, of which PyTorch leaves the order open, the first comes first: as ONNX has it."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") in ("sort", "argsort") and not kwargs.get("stable"):
            kwargs |= dict(zip(("dim", "descending"), args[1:], strict=False)) | {"stable": True}
            args = args[:1]
        return func(*args, **kwargs)

"""Observe and replace the calls of `intact::fake_quantize` while a module runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from intact.torch.private_torch import TorchDispatchMode

__all__ = ["CallHandler", "StableSorts", "module_at", "path_of", "same_arguments", "intercept_quantizers"]

CallHandler = Callable[[nn.Module, tuple[Any, ...], Callable[[], Tensor]], Tensor]
"""``(the running module, the operator's arguments, the operator) -> the value that the module gets``."""


@contextmanager
def intercept_quantizers(model: nn.Module, handler: CallHandler) -> Iterator[None]:
    """Call `handler` in place of the operator whenever `model` calls it inside the context."""
    path: list[nn.Module] = []
    hooks: list[Any] = []

    def leave(*_: Any) -> None:  # returns None, because a hook's result would replace the module's output
        path.pop()

    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(lambda m, _: path.append(m), prepend=True))
        hooks.append(module.register_forward_hook(leave))
    try:
        with _Mode(lambda args, run: handler(path[-1] if path else model, args, run)):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _Mode(TorchDispatchMode):
    def __init__(self, handler: Callable[[tuple[Any, ...], Callable[[], Tensor]], Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._handler = handler

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not torch.ops.intact.fake_quantize.default:
            return func(*args, **(kwargs or {}))
        return self._handler(args, lambda: func(*args, **(kwargs or {})))


def same_arguments(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Return whether two calls quantize equal tensors in the same way.

    Both calls keep their tensors alive.
    """
    alike = a[0].shape == b[0].shape and len(a) == len(b) and all(map(_equal, a[1:], b[1:]))
    return alike and (a[0].data_ptr() == b[0].data_ptr() or torch.equal(a[0], b[0]))


def _equal(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)


def module_at(model: nn.Module, path: str) -> nn.Module:
    """Return the module at a quantizer's path; `model` itself where the operator is called in its own
    forward.
    """
    try:
        return model.get_submodule(path)
    except AttributeError:
        return model


def path_of(model: nn.Module, module: nn.Module) -> str:
    """Return the path of a module; for `model` itself the name of its class."""
    return next((name for name, m in model.named_modules() if m is module), "") or type(module).__name__


class StableSorts(TorchFunctionMode):
    """Makes `sort` and `argsort` stable: equal values keep their order, as in ONNX, where PyTorch leaves it
    open.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") in ("sort", "argsort") and not kwargs.get("stable"):
            kwargs |= dict(zip(("dim", "descending"), args[1:], strict=False)) | {"stable": True}
            args = args[:1]
        return func(*args, **kwargs)

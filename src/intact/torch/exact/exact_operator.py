"""`intact::exact`: a torch function in the engine's arithmetic, as one operator with PyTorch's own gradient.

Each function has two forms: one on arrays, which is what the engine computes, and one of torch functions,
from which sizes and gradients come.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import DisableTorchFunction

__all__ = ["exact", "register", "register_torch"]

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define("exact(Tensor[] operands, str function, str arguments) -> Tensor")  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Forms:
    """One function: `run` is exact, `torch` has its sizes and gradient; both take the same arguments."""

    run: Callable[..., Tensor]
    torch: Callable[..., Tensor]


_FUNCTIONS: dict[str, _Forms] = {}


def register(name: str, like: Callable[..., Tensor]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of arrays be called by `exact`; `like` is the torch function that it stands for."""

    def add(arrays: Callable[..., Any]) -> Callable[..., Any]:
        def run(*operands: Tensor, **arguments: Any) -> Tensor:
            return torch.from_numpy(arrays(*map(ops.as_numpy, operands), **arguments))

        register_torch(name, like, run)
        return arrays

    return add


def register_torch(name: str, like: Callable[..., Tensor], run: Callable[..., Tensor]) -> None:
    """As `register`, for an exact form that is made of torch functions itself."""
    _FUNCTIONS[name] = _Forms(run, like)


def exact(function: str, *operands: Tensor, **arguments: Any) -> Tensor:
    """A registered function of float32 tensors on the CPU.

    Args:
        function: Its name.
        *operands: Tensors.
        **arguments: What JSON can say.
    """
    call = torch.ops.intact.exact.default
    return call(list(operands), function, json.dumps(arguments))  # type: ignore[no-any-return]


def _run(operands: list[Tensor], function: str, arguments: str) -> Tensor:
    with torch.no_grad():
        return _FUNCTIONS[function].run(*operands, **json.loads(arguments))


def _like(operands: list[Tensor], function: str, arguments: str) -> Tensor:
    with DisableTorchFunction():
        return _FUNCTIONS[function].torch(*operands, **json.loads(arguments))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    operands, ctx.function, ctx.arguments = inputs
    ctx.save_for_backward(*operands)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """That of the torch function, which runs once more."""
    needed = ctx.needs_input_grad[0]
    wanted = needed if isinstance(needed, (list, tuple)) else [needed] * len(ctx.saved_tensors)
    operands = [
        x.detach().requires_grad_(bool(wants) and x.is_floating_point())
        for x, wants in zip(ctx.saved_tensors, wanted, strict=True)
    ]
    asked = [x for x in operands if x.requires_grad]
    with torch.enable_grad():
        made = _like(operands, ctx.function, ctx.arguments)
    found = iter(torch.autograd.grad(made, asked, grad, allow_unused=True) if asked else ())
    return [next(found) if x.requires_grad else None for x in operands], None, None


_LIB.impl("exact", _run, "CPU")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::exact", _like, lib=_LIB)
torch.library.register_autograd("intact::exact", _gradient, setup_context=_save, lib=_LIB)

"""Register `intact::exact`: a torch function in the engine's arithmetic, with PyTorch's own gradient.

Each function has two forms. One runs on arrays, and computes what the engine computes. The other is made of
torch functions, and gives sizes and gradients.
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
    """Holds the two forms of a function, which take the same arguments: `run` is exact, `torch` gives sizes
    and gradient.
    """

    run: Callable[..., Tensor]
    torch: Callable[..., Tensor]


_FUNCTIONS: dict[str, _Forms] = {}


def register(name: str, like: Callable[..., Tensor]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function of arrays for `exact`; `like` is the torch function that
    it replaces.
    """

    def add(arrays: Callable[..., Any]) -> Callable[..., Any]:
        def run(*operands: Tensor, **arguments: Any) -> Tensor:
            return torch.from_numpy(arrays(*map(ops.as_numpy, operands), **arguments))

        register_torch(name, like, run)
        return arrays

    return add


def register_torch(name: str, like: Callable[..., Tensor], run: Callable[..., Tensor]) -> None:
    """Register an exact form that consists of torch functions itself."""
    _FUNCTIONS[name] = _Forms(run, like)


def exact(function: str, *operands: Tensor, **arguments: Any) -> Tensor:
    """Call a registered function on float32 tensors on the CPU.

    Args:
        function: Its name.
        *operands: Tensors.
        **arguments: Values that JSON can hold.
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
    """Return the gradient of the torch function, which runs once more."""
    needed = ctx.needs_input_grad[0]
    needs_grad = needed if isinstance(needed, (list, tuple)) else [needed] * len(ctx.saved_tensors)
    operands = [
        x.detach().requires_grad_(bool(needs) and x.is_floating_point())
        for x, needs in zip(ctx.saved_tensors, needs_grad, strict=True)
    ]
    differentiable = [x for x in operands if x.requires_grad]
    with torch.enable_grad():
        output = _like(operands, ctx.function, ctx.arguments)
    gradients = iter(
        torch.autograd.grad(output, differentiable, grad, allow_unused=True) if differentiable else ()
    )
    return [next(gradients) if x.requires_grad else None for x in operands], None, None


def _each_sample(
    info: Any, dims: tuple[Any, ...], operands: list[Tensor], function: str, arguments: str
) -> tuple[Tensor, int]:
    """Run the function on one sample of `torch.vmap` after the other."""

    def run_sample(index: int) -> Tensor:
        sample = [
            x if dim is None else x.select(dim, index) for x, dim in zip(operands, dims[0], strict=True)
        ]
        return torch.ops.intact.exact.default(sample, function, arguments)  # type: ignore[no-any-return]

    return torch.stack([run_sample(index) for index in range(info.batch_size)]), 0


_LIB.impl("exact", _run, "CPU")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::exact", _like, lib=_LIB)
torch.library.register_autograd("intact::exact", _gradient, setup_context=_save, lib=_LIB)
torch.library.register_vmap("intact::exact", _each_sample, lib=_LIB)

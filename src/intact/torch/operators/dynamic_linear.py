"""Register `intact::dynamic_linear`: a layer whose activations get their ranges while it runs, on kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from intact.engine import Engine

__all__ = ["dynamic_linear"]

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "dynamic_linear(Tensor x, Tensor codes, Tensor scales, Tensor? bias, int inputs, int bits, int block, "
    "int x_block) -> Tensor"
)

_engines: WeakIdKeyDictionary = WeakIdKeyDictionary()  # by the tensor of codes


def dynamic_linear(
    x: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, inputs: int, bits: int, block: int,
    x_block: int,
) -> Tensor:  # fmt: skip
    """Quantize x to int8 by the range of each block, and multiply it by weights in blocks (N68, N69).

    Args:
        x: Floats [..., inputs], on the CPU.
        codes: uint8 [outputs, bytes], codes of `bits` bits of each row one behind the other.
        scales: float32 [outputs, blocks].
        bias: float32 [outputs].
        block, x_block: Elements of a block of weights, and of x.
    Returns:
        [..., outputs], of x's dtype.
    """
    result: Tensor = torch.ops.intact.dynamic_linear(x, codes, scales, bias, inputs, bits, block, x_block)
    return result


def _run(
    x: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, inputs: int, bits: int, block: int,
    x_block: int,
) -> Tensor:  # fmt: skip
    rows = x.detach().to("cpu", torch.float32).reshape(-1, x.shape[-1]).numpy()
    parameters = [codes, scales] if bias is None else [codes, scales, bias]
    state = (
        [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters],
        (inputs, bits, block, x_block, torch.get_num_threads()),
    )
    cached = _engines.get(codes)  # type: ignore[no-untyped-call]
    if cached is None or cached[0] != state:
        cached = state, _engine(parameters, inputs, bits, block, x_block)
        _engines[codes] = cached
    y = torch.from_numpy(cached[1].run({"x": np.ascontiguousarray(rows)})["y"])
    return y.reshape(*x.shape[:-1], codes.shape[0]).to(x.device, x.dtype)


def _engine(parameters: list[Tensor], inputs: int, bits: int, block: int, x_block: int) -> Engine:
    from intact.engine import Engine, Plan
    from intact.engine.steps import BlockLinear, DynamicQuantize, Step
    from intact.engine.steps import Tensor as Value

    constants = {
        name: p.detach().to("cpu").numpy().copy()
        for name, p in zip(("w", "s", "b"), parameters, strict=False)
    }
    tensors = [
        Value("x", "float32", ("rows", inputs)),
        Value("q", "int8", ("rows", inputs)),
        Value("r", "float32", ("rows", -(-inputs // x_block))),
        Value("y", "float32", ("rows", len(constants["w"]))),
    ]
    steps: tuple[Step, ...] = (
        DynamicQuantize("quantize", (), "x", "q", "r", "", x_block),
        BlockLinear(
            "product", (), "q", "r", "y", "w", "s", inputs, bits, block, x_block,
            bias="b" if "b" in constants else "",
        ),
    )  # fmt: skip
    plan = Plan(steps, {value.name: value for value in tensors}, constants, ("x",), ("y",))
    plan.check()
    return Engine(plan, threads=torch.get_num_threads())


def _sizes(
    x: Tensor, codes: Tensor, scales: Tensor, bias: Tensor | None, inputs: int, bits: int, block: int,
    x_block: int,
) -> Tensor:  # fmt: skip
    return x.new_empty(*x.shape[:-1], codes.shape[0])


_LIB.impl("dynamic_linear", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
# What it makes asks for no gradient: it is a step function of its input.
_LIB.impl("dynamic_linear", torch.library.fallthrough_kernel, "Autograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::dynamic_linear", _sizes, lib=_LIB)

"""Register `intact::block_linear`: a linear layer with weights in blocks, on the engine's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from intact.numerics import BlockWeights, dequantize_blocks, split_stream

if TYPE_CHECKING:
    from intact.engine import Engine

__all__ = ["block_linear", "block_values", "block_weights"]

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "block_linear(Tensor x, Tensor codes, Tensor scales, Tensor? zero_points, Tensor? bias, int inputs, "
    "int bits, int block, int x_block) -> Tensor"
)

_LIB.define(  # type: ignore[no-untyped-call]
    "block_values(Tensor codes, Tensor scales, Tensor? zero_points, int inputs, int bits, int block) "
    "-> Tensor"
)

_engines: WeakIdKeyDictionary = WeakIdKeyDictionary()  # by the tensor of codes


def block_linear(
    x: Tensor, codes: Tensor, scales: Tensor, zero_points: Tensor | None, bias: Tensor | None, inputs: int,
    bits: int, block: int, x_block: int,
) -> Tensor:  # fmt: skip
    """Multiply x by weights in blocks: int8 codes of x with the range of each block (N68, N69), or floats.

    Args:
        x: Floats [..., inputs], on the CPU.
        codes: uint8 [outputs, bytes], codes of `bits` bits of each row one behind the other.
        scales: float32 [outputs, blocks].
        zero_points: uint8 [outputs, blocks]; None: half of the codes' range.
        bias: float32 [outputs].
        block: Elements of a block of weights.
        x_block: Elements of a block of x; 0: x stays floats, and is multiplied by the floats of N67 (N51).
    Returns:
        [..., outputs], of x's dtype.
    Gradient: to x, scales and bias, that of the product with the floats of the weights; rounding of x passes
        it straight through.
    """
    result: Tensor = torch.ops.intact.block_linear(
        x, codes, scales, zero_points, bias, inputs, bits, block, x_block
    )
    return result


def block_weights(
    codes: Tensor, scales: Tensor, zero_points: Tensor | None, inputs: int, bits: int, block: int
) -> BlockWeights:
    """Return the record of weights that `block_linear` reads."""
    ranges = scales.detach().to("cpu", torch.float32).numpy()
    points = np.full(ranges.shape, 2 ** (bits - 1), np.uint8)
    if zero_points is not None:
        points = zero_points.detach().cpu().numpy()
    fields = split_stream(codes.detach().cpu().numpy(), bits, inputs)
    return BlockWeights(fields, f"uint{bits}", ranges, min(block, inputs), zero_points=points)


def _run(
    x: Tensor, codes: Tensor, scales: Tensor, zero_points: Tensor | None, bias: Tensor | None, inputs: int,
    bits: int, block: int, x_block: int,
) -> Tensor:  # fmt: skip
    rows = x.detach().to("cpu", torch.float32).reshape(-1, inputs).numpy()
    parameters = [codes, scales, zero_points, bias]
    state = (
        [
            None if p is None else (p.data_ptr(), p.dtype, 0 if p.is_inference() else p._version)
            for p in parameters
        ],
        (inputs, bits, block, x_block, torch.get_num_threads()),
    )
    cached = _engines.get(codes)  # type: ignore[no-untyped-call]
    if cached is None or cached[0] != state:
        arguments = (codes, scales, zero_points, inputs, bits, block)
        cached = state, _engine(arguments, bias, x_block)
        _engines[codes] = cached
    y = torch.from_numpy(cached[1].run({"x": np.ascontiguousarray(rows)})["y"])
    return y.reshape(*x.shape[:-1], codes.shape[0]).to(x.device, x.dtype)


def _engine(
    weights: tuple[Tensor, Tensor, Tensor | None, int, int, int], bias: Tensor | None, x_block: int
) -> Engine:
    from intact.engine import Engine, Plan
    from intact.engine.steps import BlockLinear, DynamicQuantize, FloatLinear, Step
    from intact.engine.steps import Tensor as Value

    codes, scales, zero_points, inputs, bits, block = weights
    constants: dict[str, Any] = {} if bias is None else {"b": _array(bias, torch.float32)}
    tensors = [Value("x", "float32", ("rows", inputs)), Value("y", "float32", ("rows", len(codes)))]
    steps: tuple[Step, ...]
    if not x_block:
        constants["w"] = np.ascontiguousarray(dequantize_blocks(block_weights(*weights)).T)
        steps = (FloatLinear("product", (), "x", "y", "w", "b" if "b" in constants else ""),)
    else:
        constants |= {"w": _array(codes), "s": _array(scales, torch.float32)}
        if zero_points is not None:
            constants["z"] = _array(zero_points)
        tensors += [
            Value("q", "int8", ("rows", inputs)),
            Value("r", "float32", ("rows", -(-inputs // x_block))),
        ]
        steps = (
            DynamicQuantize("quantize", (), "x", "q", "r", "", x_block),
            BlockLinear(
                "product", (), "q", "r", "y", weight="w", scales="s", inputs=inputs, bits=bits, block=block,
                x_block=x_block, zero_points="z" if "z" in constants else "",
                bias="b" if "b" in constants else "",
            ),
        )  # fmt: skip
    plan = Plan(steps, {value.name: value for value in tensors}, constants, ("x",), ("y",))
    plan.check()
    return Engine(plan, threads=torch.get_num_threads())


def _array(tensor: Tensor, dtype: torch.dtype | None = None) -> np.ndarray:
    """Return a copy, which later changes of the module do not reach."""
    return tensor.detach().to("cpu", dtype or tensor.dtype).numpy().copy()


def _sizes(
    x: Tensor, codes: Tensor, scales: Tensor, zero_points: Tensor | None, bias: Tensor | None, inputs: int,
    bits: int, block: int, x_block: int,
) -> Tensor:  # fmt: skip
    return x.new_empty(*x.shape[:-1], codes.shape[0])


def block_values(
    codes: Tensor, scales: Tensor, zero_points: Tensor | None, inputs: int, bits: int, block: int
) -> Tensor:
    """Return the floats that weights in blocks stand for, float32 [outputs, inputs]."""
    result: Tensor = torch.ops.intact.block_values(codes, scales, zero_points, inputs, bits, block)
    return result


def _values(
    codes: Tensor, scales: Tensor, zero_points: Tensor | None, inputs: int, bits: int, block: int
) -> Tensor:
    weights = block_weights(codes, scales, zero_points, inputs, bits, block)
    return torch.from_numpy(dequantize_blocks(weights)).to(codes.device)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, codes, scales, zero_points, _, *sizes, _ = inputs
    ctx.save_for_backward(x if ctx.needs_input_grad[2] else None, codes, scales, zero_points)
    ctx.sizes = sizes


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, *weights = ctx.saved_tensors
    grad_x = grad @ block_values(*weights, *ctx.sizes).to(grad.dtype) if ctx.needs_input_grad[0] else None
    rows = grad.reshape(-1, grad.shape[-1])
    grad_scales = None if x is None else _gradient_of_scales(rows, x, weights, *ctx.sizes)
    grad_bias = rows.sum(0) if ctx.needs_input_grad[4] else None
    return grad_x, None, grad_scales, None, grad_bias, *[None] * 4


def _gradient_of_scales(
    rows: Tensor, x: Tensor, weights: list[Tensor], inputs: int, bits: int, block: int
) -> Tensor:
    codes, scales, zero_points = weights
    steps = block_values(codes, torch.ones_like(scales), zero_points, inputs, bits, block)
    products = (rows.t() @ x.reshape(-1, inputs)) * steps.to(rows.dtype)
    blocks = scales.shape[1]
    size = min(block, inputs)
    padded = torch.nn.functional.pad(products, (0, blocks * size - inputs))
    return padded.reshape(-1, blocks, size).sum(-1).to(scales.dtype)


_LIB.impl("block_linear", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_LIB.impl("block_values", _values, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
_LIB.impl("block_values", torch.library.fallthrough_kernel, "Autograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::block_linear", _sizes, lib=_LIB)
torch.library.register_fake(
    "intact::block_values",
    lambda codes, scales, zero_points, inputs, *_: scales.new_empty(
        (codes.shape[0], inputs), dtype=torch.float32
    ),
    lib=_LIB,
)
torch.library.register_autograd("intact::block_linear", _gradient, setup_context=_save, lib=_LIB)

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

__all__ = ["block_linear", "block_weights"]

_LIB = torch.library.Library("intact", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIB.define(  # type: ignore[no-untyped-call]
    "block_linear(Tensor x, Tensor codes, Tensor scales, Tensor? zero_points, Tensor? bias, int inputs, "
    "int bits, int block, int x_block) -> Tensor"
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


_LIB.impl("block_linear", _run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
# What it makes asks for no gradient: it is a step function of its input.
_LIB.impl("block_linear", torch.library.fallthrough_kernel, "Autograd")  # type: ignore[no-untyped-call]
torch.library.register_fake("intact::block_linear", _sizes, lib=_LIB)

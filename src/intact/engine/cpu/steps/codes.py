"""Codes from floats and back, from grid to grid, looked up, and added."""

from __future__ import annotations

import numpy as np

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.views import broadcast, grid_of, move, zero_of
from intact.engine.steps import Add, Dequantize, Quantize, Reinterpret, Rescale, SplitQuantize, Table
from intact.errors import FileFormatError
from intact.kernels import moves, pointwise
from intact.kernels.program import NativeStep


@binds(Quantize)
def bind_quantize(step: Quantize, binding: Binding) -> list[NativeStep]:
    """float32 -> codes."""
    codes = binding.codes(step.y)
    x, y = binding.view(step.x), binding.view(step.y)
    return [pointwise.quantize(x, y, codes.scale, grid_of(codes), binding.kernels)]


@binds(SplitQuantize)
def bind_split_quantize(step: SplitQuantize, binding: Binding) -> list[NativeStep]:
    """float32 -> the high and the low bytes of codes of 16 bits."""
    x, spec = binding.view(step.x), step.spec
    ends = int(spec.qmin) - step.zero_point, int(spec.qmax) - step.zero_point
    high, low = binding.view(step.high), binding.view(step.low)
    return [pointwise.split_quantize(x, high, low, step.scale, ends, binding.kernels)]


@binds(Dequantize)
def bind_dequantize(step: Dequantize, binding: Binding) -> list[NativeStep]:
    """codes -> float32."""
    codes = binding.codes(step.x)
    x, y = binding.view(step.x), binding.view(step.y)
    return [pointwise.dequantize(x, y, codes.scale, zero_of(codes), binding.kernels)]


@binds(Rescale)
def bind_rescale(step: Rescale, binding: Binding) -> list[NativeStep]:
    """Codes of one grid to codes of another."""
    return move(binding, step.x, binding.view(step.x), step.y, binding.view(step.y))


@binds(Reinterpret)
def bind_reinterpret(step: Reinterpret, binding: Binding) -> list[NativeStep]:
    """The same codes: the same bytes, or all of them so much above."""
    x, y = binding.view(step.x), binding.view(step.y)
    if further := binding.codes(step.y).offset - binding.codes(step.x).offset:
        shifted = np.clip(np.arange(256) + further, 0, 255).astype(np.uint8)
        return [pointwise.lookup(x, binding.hold(shifted), y, binding.kernels)]
    return [] if binding.same_memory(x, y) else [moves.copy(x, y, binding.kernels)]


@binds(Table)
def bind_table(step: Table, binding: Binding) -> list[NativeStep]:
    """A function of one code.

    Raises:
        FileFormatError: Of a code that can occur it gives one that y's grid does not have.
    """
    low, high = binding.codes(step.x).byte_range
    made = binding.array(step.table)[low : high + 1]
    least, most = binding.codes(step.y).byte_range
    if made.min() < least or made.max() > most:
        got, want = f"a table of {made.min()} to {made.max()}", f"bytes from {least} to {most}"
        raise FileFormatError(f"step '{step.name}'", got, want, "build the plan from the model again")
    table = binding.constant(step.table)
    return [pointwise.lookup(binding.view(step.x), table, binding.view(step.y), binding.kernels)]


@binds(Add)
def bind_add(step: Add, binding: Binding) -> list[NativeStep]:
    """Sum of two tensors of codes."""
    y, shape = binding.codes(step.y), binding.shape(step.y)
    grid = grid_of(y, step.low, step.high)
    a, b = (broadcast(binding, name, shape) for name in (step.a, step.b))
    from_a, from_b = ((zero_of(c), c.scale) for c in (binding.codes(step.a), binding.codes(step.b)))
    return [pointwise.add(a, b, binding.view(step.y), from_a, from_b, y.scale, grid, binding.kernels)]

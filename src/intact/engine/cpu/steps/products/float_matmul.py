"""Products of two tensors of floats."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import spread
from intact.engine.steps import FloatMatMul
from intact.kernels import NativeStep, View, float_gemm


@binds(FloatMatMul)
def bind_float_matmul(step: FloatMatMul, binding: Binding) -> list[NativeStep]:
    """Product of two tensors, read where they lie; rows by one matrix for all of them are one matrix."""
    y = binding.view(step.y)
    lead = tuple(y.sizes)[:-2]
    a, b = (spread(binding, n, (*lead, *binding.view(n).sizes[-2:])).view for n in (step.a, step.b))
    if not any(b.strides[axis] for axis in range(len(lead))):
        rows, output_rows = _rows(a), _rows(y)
        if rows is not None and output_rows is not None:
            a, y, b = rows, output_rows, b.part(b.offset, b.sizes[-2:], b.strides[-2:])
    return [float_gemm.matmul(a, y, b, kernels=binding.kernels)]


def _rows(view: View) -> View | None:
    """All but the last axis as one; None where its elements are not evenly spaced."""
    sizes, strides = list(view.sizes), list(view.strides)
    while len(sizes) > 2:
        if sizes[0] == 1 or strides[0] == strides[1] * sizes[1]:
            sizes, strides = [sizes[0] * sizes[1], *sizes[2:]], strides[1:]
        elif sizes[1] == 1:
            sizes, strides = [sizes[0], *sizes[2:]], [strides[0], *strides[2:]]
        else:
            return None
    return view.part(view.offset, sizes, strides)

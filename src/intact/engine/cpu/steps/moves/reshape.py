"""The same elements under another shape."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dtype_of
from intact.engine.cpu.layout import same_strides_under
from intact.engine.cpu.steps.base.views import dense, is_dense, move
from intact.engine.steps import Reshape
from intact.kernels import NativeStep


@binds(Reshape)
def bind_reshape(step: Reshape, binding: Binding) -> list[NativeStep]:
    """The elements in ONNX's order. Nothing where they lie in it on both sides."""
    x, y = binding.view(step.x), binding.view(step.y)
    strides = same_strides_under(x.sizes, x.strides, y.sizes)
    if strides is not None:
        x = x.part(x.offset, y.sizes, strides)
    elif is_dense(y):
        y = dense(y, x.sizes)
    elif is_dense(x):
        x = dense(x, y.sizes)
    else:
        rows = binding.temporary(dtype_of(binding.tensor(step.y)), x.sizes)
        again = dense(rows, y.sizes)
        return [
            *move(binding, step.x, x, step.x, rows),
            *move(binding, step.x, again, step.y, y),
        ]
    return move(binding, step.x, x, step.y, y)

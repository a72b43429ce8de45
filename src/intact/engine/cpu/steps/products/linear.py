"""Products with constant matrices: convolutions of an image of one row."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds, dtype_of
from intact.engine.cpu.steps.base.partial_conv import PartialConv, native_conv
from intact.engine.steps import Linear
from intact.kernels import NativeStep, View, moves


@binds(Linear)
def bind_linear(step: Linear, binding: Binding) -> list[NativeStep]:
    """A matrix of rows: an image of one row of pixels, or of as many axes as there are.

    Where a row's elements are no neighbours (those of an image of width 2, channels last), it is copied.
    """
    before: list[NativeStep] = []

    def as_rows(name: str) -> View:
        view = binding.view(name)
        if (rows := _rows(view)) is not None:
            return rows
        dense = binding.temporary(dtype_of(binding.tensor(name)), tuple(view.sizes))
        before.append(moves.copy(view, dense))
        return _dense_rows(dense)

    x, low = as_rows(step.x), as_rows(step.low) if step.low else None
    residual = as_rows(step.epilogue.residual) if step.epilogue.residual else None
    weight = binding.weight(step.weight)[:, None, None, :]
    y = binding.view(step.y)
    if (rows := _rows(y)) is not None:
        return [*before, native_conv(PartialConv(x, rows, residual, weight, low=low), step, binding)]
    dense = binding.temporary(dtype_of(binding.tensor(step.y)), tuple(y.sizes))
    part = PartialConv(x, _dense_rows(dense), residual, weight, low=low)
    return [*before, native_conv(part, step, binding), moves.copy(dense, y)]


def _dense_rows(view: View) -> View:
    rows = _rows(view)
    assert rows is not None, "dense memory is rows"
    return rows


def _rows(view: View) -> View | None:
    """A tensor as (n, h, w, c), its last axis being c; None where that is no row of neighbours."""
    sizes, strides = list(view.sizes), list(view.strides)
    if sizes[-1] <= 1:
        strides[-1] = view.itemsize  # a single element leads nowhere
    if strides[-1] != view.itemsize:
        return None
    while len(sizes) < 4:
        sizes, strides = [1, *sizes], [0, *strides]
    while len(sizes) > 4:
        if strides[0] != strides[1] * sizes[1] and 0 not in sizes:
            return None
        sizes, strides = [sizes[0] * sizes[1], *sizes[2:]], strides[1:]
    return view.part(view.offset, sizes, strides)

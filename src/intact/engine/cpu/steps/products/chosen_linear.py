"""Products with matrices that rows choose."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds, dtype_of
from intact.engine.cpu.steps.base.epilogue import bind_epilogue
from intact.engine.cpu.steps.base.indices import check_constant_index
from intact.engine.cpu.steps.base.views import zero_of
from intact.engine.steps import ChosenLinear
from intact.kernels import NativeStep, View, alternatives, gemm, moves


@binds(ChosenLinear)
def bind_chosen_linear(step: ChosenLinear, binding: Binding) -> list[NativeStep]:
    """Rows are an image of one line; what does not lie so is copied."""
    before, behind = list[NativeStep](), list[NativeStep]()
    x, y = binding.view(step.x), binding.view(step.y)
    if (rows := _rows(x)) is None:
        dense = binding.temporary(dtype_of(binding.tensor(step.x)), tuple(x.sizes))
        before.append(moves.copy(x, dense))
        rows = _dense(dense)
    if (output_rows := _rows(y)) is None:
        dense = binding.temporary(dtype_of(binding.tensor(step.y)), tuple(y.sizes))
        behind.append(moves.copy(dense, y))
        output_rows = _dense(dense)
    check_constant_index(step, binding)
    index = binding.view(step.index)
    index = index.part(index.offset, index.sizes[:1], index.strides[:1])
    return [*before, _native(step, binding, rows, index, output_rows), *behind]


def _native(step: ChosenLinear, binding: Binding, x: View, index: View, y: View) -> NativeStep:
    weight = binding.weight(step.weight)
    kernel, high = _kernel(step, binding, index.sizes[0]), x.holds[1]

    def pack() -> NDArray[np.uint8]:
        return gemm.pack(weight[:, None, None, :], high=high, groups=step.groups, joined=False, kernel=kernel)

    def add() -> NDArray[np.int32]:
        added: NDArray[np.int32] = weight.sum(axis=1, dtype=np.int32)
        return added

    zero = zero_of(binding.codes(step.x))
    correction = -zero * binding.pack_constant(step.weight, "sums", add).astype(np.int64)
    return gemm.linear_by_index(
        x,
        index,
        y,
        binding.pack_constant(step.weight, f"{kernel}.to{high}.chosen{step.groups}", pack),
        bind_epilogue(step.epilogue, step.y, binding, channels=len(weight), correction=correction),
        kernel=kernel,
        threads=binding.threads,
        zero=zero,
    )


def _kernel(step: ChosenLinear, binding: Binding, rows: int) -> str:
    """The first kernel of vectors that the matrices and the rows of each suit."""
    chosen = binding.kernels[gemm.FAMILY]
    alternative_kernels = [k for k in alternatives(gemm.FAMILY) if k != chosen and not gemm.is_grouped(k)]
    alternative_kernels = alternative_kernels or [
        k for k in alternatives(gemm.FAMILY, forced=False) if not gemm.is_grouped(k)
    ]
    kernels = [k for k in (chosen, *alternative_kernels) if not gemm.is_tiled(k)]
    out, depth = binding.weight(step.weight).shape
    sizes = {"pixels": max(rows // step.groups, 1), "window": depth, "channels": out // step.groups}
    return next((k for k in kernels if gemm.fills(k, **sizes)), kernels[0])


def _dense(view: View) -> View:
    rows = _rows(view)
    assert rows is not None, "dense memory is rows"
    return rows


def _rows(view: View) -> View | None:
    """A tensor as (1, 1, rows, c), its last axis being c; None where that is no row of neighbours, or rows
    are not equally far from each other."""
    *sizes, width = view.sizes
    *strides, element = view.strides
    if width > 1 and element != view.itemsize:
        return None
    axes = [(n, step) for n, step in zip(sizes, strides, strict=True) if n != 1]
    if any(a[1] != b[0] * b[1] for a, b in pairwise(axes)) and 0 not in sizes:
        return None
    row = axes[-1][1] if axes else width * view.itemsize
    shape = [1, 1, prod(sizes), width]
    return view.part(view.offset, shape, [0, 0, row, view.itemsize])

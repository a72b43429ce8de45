"""Steps that compute element by element, over a window or along an axis, without a sum over channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from intact import numerics
from intact.engine.reference.functions import BINARY, FUNCTIONS
from intact.engine.reference.run import Run, Runner, affine_of, spec_of
from intact.engine.steps import (
    Add,
    Binary,
    Clip,
    Dequantize,
    Function,
    LayerNorm,
    Pool,
    Quantize,
    Reduce,
    Softmax,
    Table,
)


def _quantize(run: Run, step: Quantize) -> None:
    run.write_real(step.y, run.real(step.x))


def _dequantize(run: Run, step: Dequantize) -> None:
    run.bind(step.y, run.real(step.x))


def _pool(run: Run, step: Pool) -> None:
    x, grid, out = run.array(step.x), run.codes(step.x), run.codes(step.y)
    top, left, bottom, right = step.pads
    window: dict[str, Any] = {
        "stride": step.strides, "padding": ((top, bottom), (left, right)),
        "dilation": step.dilations, "ceil_mode": step.ceil_mode,
    }  # fmt: skip
    kernel = step.kernel
    if kernel is None:
        kernel, window = x.shape[2:], {}
    if step.mode == "max":
        codes = numerics.max_pool(x, kernel, **window)
    else:
        codes = numerics.avg_pool(
            x, kernel, affine_of(grid), affine_of(out), spec_of(out),
            count_include_pad=step.count_include_pad, **window,
        )  # fmt: skip
    run.write_codes(step.y, codes)


def _add(run: Run, step: Add) -> None:
    out = run.codes(step.y)
    bounds = (out.low if step.low is None else step.low, out.high if step.high is None else step.high)
    a, b = (affine_of(run.codes(name)) for name in (step.a, step.b))
    codes = numerics.add(
        run.array(step.a), run.array(step.b), a, b, affine_of(out), spec_of(out), bounds=bounds
    )
    run.write_codes(step.y, codes)


def _table(run: Run, step: Table) -> None:
    x = run.array(step.x).astype(np.int32) + run.codes(step.x).offset
    y = run.array(step.table)[x].astype(np.int32) - run.codes(step.y).offset
    run.write_codes(step.y, y)


def _softmax(run: Run, step: Softmax) -> None:
    mask = run.real(step.mask) if step.mask else None
    run.write_real(step.y, numerics.softmax(run.real(step.x), step.axis, step.gain, mask))


def _layer_norm(run: Run, step: LayerNorm) -> None:
    weight, bias = (run.array(name) if name else None for name in (step.weight, step.bias))
    residual = run.real(step.residual) if step.residual else None
    run.write_real(step.y, numerics.layer_norm(run.real(step.x), weight, bias, step.epsilon, residual))


def _reduce(run: Run, step: Reduce) -> None:
    over = numerics.mean_over if step.function == "mean" else numerics.sum_over
    run.write_real(step.y, over(run.real(step.x), step.axes, step.keepdims))


def _function(run: Run, step: Function) -> None:
    run.write_real(step.y, FUNCTIONS[step.function](run.real(step.x)))


def _clip(run: Run, step: Clip) -> None:
    low = -np.inf if step.low is None else step.low
    run.write_real(step.y, numerics.clip(run.real(step.x), low, np.inf if step.high is None else step.high))


def _binary(run: Run, step: Binary) -> None:
    run.write_real(step.y, BINARY[step.function](run.real(step.a), run.real(step.b)))


RUNNERS: dict[str, Runner] = {
    "quantize": _quantize, "dequantize": _dequantize, "pool": _pool, "add": _add, "table": _table,
    "softmax": _softmax, "layer_norm": _layer_norm, "function": _function, "binary": _binary,
    "clip": _clip, "reduce": _reduce,
}  # fmt: skip

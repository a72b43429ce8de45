"""Layers with integer sums: N19 to N25."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.reference.functions import FUNCTIONS
from intact.engine.reference.run import Run, Runner, spec_of
from intact.engine.steps import Conv, ConvTranspose, Epilogue, Linear, MatMul
from intact.numerics import Residual


def _conv(run: Run, step: Conv) -> None:
    x, grid = run.array(step.x), run.codes(step.x)
    acc = numerics.conv(
        x, _filters(run, step.weight), grid.zero_point, bias=_integer_bias(run, step.epilogue),
        stride=step.strides, padding=_pairs(step.pads), dilation=step.dilations, groups=step.groups,
    )  # fmt: skip
    _finish(run, step.y, step.epilogue, acc, axis=1)


def _conv_transpose(run: Run, step: ConvTranspose) -> None:
    """The convolution of x with zeros between its pixels, and around it, by the kernel turned round."""
    grid, filters = run.codes(step.x), _filters(run, step.weight)
    x = run.array(step.x)
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], step.strides, strict=True)]
    x = _spread(x, grid.zero_point, step.strides)
    room = [d * (k - 1) for d, k in zip(step.dilations, filters.shape[2:], strict=True)]
    top, left, bottom, right = step.pads
    around = [
        (room[0] - top, room[0] - bottom + step.output_padding[0]),
        (room[1] - left, room[1] - right + step.output_padding[1]),
    ]
    # No pixels take up less room than none: the frame is all there is, and by that much smaller.
    around = [(a, b) if n > 0 else (max(a + n + b, 0), 0) for n, (a, b) in zip(sizes, around, strict=True)]
    x = _framed(x, around, grid.zero_point)
    acc = numerics.conv(
        x, filters[:, :, ::-1, ::-1], grid.zero_point, bias=_integer_bias(run, step.epilogue),
        dilation=step.dilations, groups=step.groups,
    )  # fmt: skip
    _finish(run, step.y, step.epilogue, acc, axis=1)


def _spread(x: NDArray[Any], fill: int, strides: tuple[int, int]) -> NDArray[Any]:
    """`x` with strides - 1 codes of real 0 between its pixels."""
    sizes = [max((n - 1) * s + 1, 0) for n, s in zip(x.shape[2:], strides, strict=True)]
    wide = np.full((*x.shape[:2], *sizes), fill, x.dtype)
    wide[:, :, :: strides[0], :: strides[1]] = x
    return wide


def _framed(x: NDArray[Any], around: list[tuple[int, int]], fill: int) -> NDArray[Any]:
    """`x` with a frame of real 0; a negative width cuts."""
    padded = np.pad(x, ((0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in around]), constant_values=fill)
    cut = [slice(max(-a, 0), b if b < 0 else None) for a, b in around]
    return padded[:, :, cut[0], cut[1]]


def _linear(run: Run, step: Linear) -> None:
    x, w, zero_point = run.array(step.x), run.array(step.weight), run.codes(step.x).zero_point
    acc = numerics.linear(x, w, zero_point, bias=_integer_bias(run, step.epilogue))
    _finish(run, step.y, step.epilogue, acc, axis=-1)


def _matmul(run: Run, step: MatMul) -> None:
    a, b = run.array(step.a), run.array(step.b)
    acc = numerics.matmul(a, b, run.codes(step.a).zero_point, run.codes(step.b).zero_point)
    _finish(run, step.y, step.epilogue, acc, axis=-1)


def _filters(run: Run, name: str) -> NDArray[Any]:
    return np.moveaxis(run.array(name), -1, 1)


def _pairs(pads: tuple[int, int, int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    top, left, bottom, right = pads
    return (top, bottom), (left, right)


def _integer_bias(run: Run, epilogue: Epilogue) -> NDArray[Any] | None:
    return run.array(epilogue.integer_bias) if epilogue.integer_bias else None


def _finish(run: Run, y: str, epilogue: Epilogue, acc: NDArray[np.int32], axis: int) -> None:
    """Codes of y's grid, or floats, from the sums."""
    m = _channels(run.array(epilogue.multiplier))
    bias = _channels(run.array(epilogue.bias)) if epilogue.bias else np.zeros((), np.float32)
    residual = _residual(run, epilogue)
    slope = _channels(run.array(epilogue.slope)) if epilogue.slope else None
    if (grid := run.grid(y)) is not None and not epilogue.activation:
        bounds = _bounds(epilogue, grid.low, grid.high)
        codes = numerics.requantize(
            acc, m, bias, grid.zero_point, spec_of(grid),
            residual=residual, slope=slope, bounds=bounds, axis=axis,
        )  # fmt: skip
        run.write_codes(y, codes)
        return
    real = numerics.to_real(acc, m, bias, axis=axis)
    if residual is not None:
        steps = (np.asarray(residual.codes, np.int32) - residual.zero_point).astype(np.float32)
        real = real + steps * np.asarray(residual.multiplier, np.float32)
    if slope is not None:
        real = np.moveaxis(numerics.sloped(np.moveaxis(real, axis, -1), slope), -1, axis)
    if epilogue.activation:
        real = FUNCTIONS[epilogue.activation](real)
        if epilogue.factors:
            real = np.moveaxis(np.moveaxis(real, axis, -1) * run.array(epilogue.factors), -1, axis)
    elif epilogue.low is not None or epilogue.high is not None:
        low = -np.inf if epilogue.low is None else epilogue.low
        high = np.inf if epilogue.high is None else epilogue.high
        real = np.clip(real, np.float32(low), np.float32(high))
    run.write_real(y, real)


def _channels(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(()) if values.size == 1 else values


def _residual(run: Run, epilogue: Epilogue) -> Residual | None:
    if not epilogue.residual:
        return None
    zero_point = run.codes(epilogue.residual).zero_point
    return Residual(run.array(epilogue.residual), np.float32(epilogue.residual_multiplier), zero_point)


def _bounds(epilogue: Epilogue, low: int, high: int) -> tuple[int, int]:
    return (
        low if epilogue.low is None else int(epilogue.low),
        high if epilogue.high is None else int(epilogue.high),
    )


RUNNERS: dict[str, Runner] = {
    "conv": _conv, "conv_transpose": _conv_transpose, "linear": _linear, "matmul": _matmul,
}  # fmt: skip

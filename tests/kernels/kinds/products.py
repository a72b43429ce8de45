"""Random cases of the steps of src/intact/engine/steps/products, but for those of weights in blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tests.kernels.kinds.draw import UNSIGNED, Draw
from tests.kernels.kinds.layers import WEIGHTS, Layer, layer, widen
from tests.one_step import Case

from intact import numerics
from intact.engine.steps import (
    Binary,
    ChosenLinear,
    Codes,
    ConvTranspose,
    Epilogue,
    FloatConv,
    FloatConvTranspose,
    FloatLinear,
    FloatMatMul,
    LayerNorm,
    Linear,
    MatMul,
    Quantize,
    Recurrent,
    Softmax,
)

WILD = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-42, -1e-42])
CODES_OF_WEIGHTS = Codes(1 / 255, 0, False, 0, 255)


def far_floats(d: Draw, *shape: int) -> Any:
    """Of sizes so far apart that their order counts; in one of four, what is no number, or hardly one."""
    x = (d.rng.standard_normal(shape) * 2.0 ** d.rng.integers(-12, 13, shape)).astype(np.float32)
    if d.chance(0.25) and x.size:
        x.reshape(-1)[d.rng.integers(0, x.size, 3)] = d.rng.choice(WILD, 3)
    return x


def finish(d: Draw, plain: Layer) -> Layer:
    """Give a layer any epilogue: bounds or a function, factors, slopes, gains, a residual; any output."""
    out, floats = len(plain.weight), d.chance(0.3)
    channels: dict[str, Any] = {}

    def numbers() -> Any:
        return d.rng.uniform(-1, 2, d.pick(1, out)).astype(np.float32)

    options: dict[str, Any] = {"divided": d.chance()}
    grid = Codes(d.pick(0.25, float(np.float32(0.013)), 1.0), d.integer(0, 255), False, 0, 255)
    function = d.pick("", "", "gelu", "hard_swish", "sigmoid", "silu")
    if function:
        options["activation"] = function
        for name in ("factors", "offsets"):
            if d.chance():
                channels[name] = numbers()
    else:
        low = d.integer(0, 120)
        options["low"], options["high"] = (-2.0, 9.5) if floats else (low, d.integer(low, 255))
        if d.chance(0.3):
            channels["slope"] = numbers()
    if d.chance(0.3):
        channels["gain"] = numbers()
        if d.chance():
            channels["shift"] = numbers()
    whole = replace(plain, channels=channels, options=options, y=None if floats else grid)
    return whole.with_residual(d.rng, d.rng.uniform(-1, 1), d.integer(0, 255)) if d.chance(0.4) else whole


def conv(d: Draw, *, tiles: bool = False) -> Case:
    """Any convolution; with `tiles` one that Winograd's form takes."""
    window, kernel, sizes = d.window()
    high = d.pick(1, 127, 200, 255)
    if tiles:
        kernel, window = (3, 3), {"pads": tuple(d.integer(0, 2) for _ in range(4))}
        sizes = d.integer(3, 12), d.integer(3, 12)
    else:
        window["groups"] = d.pick(1, 1, 2, 3)
    drawn = layer(
        d.rng, n=d.integer(1, 3), c=32 * d.integer(1, 3) if tiles else d.integer(1, 21), h=sizes[0],
        w=sizes[1], out=d.pick(1, 7, 8, 9, 16, 24, 33, 64, 65, 100, 144), kernel=kernel, high=high,
        weights=d.pick(*sorted(WEIGHTS)), zero=d.integer(0, high), window=window,
    )  # fmt: skip
    if not tiles and d.chance(0.3):
        drawn = widen(drawn, d.rng, d.pick(0, 1, 255, 32768, 65535, d.integer(0, 65535)))
        drawn.shift = d.pick(0, 0, 1, 7)
    return finish(d, drawn).case()


def winograd(d: Draw) -> Case:
    """Any convolution that Winograd's form takes."""
    return conv(d, tiles=True)


def depthwise(d: Draw) -> Case:
    """Each channel by itself, one or hundreds, of bytes or of codes of 16 bits."""
    window, kernel, sizes = d.window(5)
    if d.chance():
        kernel, window = d.pick((3, 3), (5, 5)), {"strides": d.pick((1, 1), (2, 2)), "pads": (1, 1, 1, 1)}
        sizes = d.integer(4, 9), d.pick(4, 21, 64)
    high, channels = d.pick(127, 255), d.pick(1, 3, 16, 24, 48, 80, 144, d.integer(1, 150))
    window["groups"] = channels
    drawn = layer(
        d.rng, n=d.integer(1, 2), c=1, h=max(sizes[0], kernel[0]), w=max(sizes[1], kernel[1]), out=1,
        kernel=kernel, high=high, weights=d.pick("random", "random", "all -128", "all 127"),
        zero=d.integer(0, high), window=window,
    )  # fmt: skip
    if d.chance(0.3):
        drawn = widen(drawn, d.rng, d.pick(0, 32768, 65535, 300))
    return finish(d, drawn).case()


def conv_transpose(d: Draw) -> Case:
    """Any kernel, strides and dilations, in groups or not."""
    kernel, strides = (d.integer(1, 4), d.integer(1, 4)), (d.integer(1, 3), d.integer(1, 3))
    dilations, groups = (d.integer(1, 3), d.integer(1, 3)), d.pick(1, 1, 2)
    reach = [(k - 1) * dilation + 1 for k, dilation in zip(kernel, dilations, strict=True)]
    pads = tuple(d.integer(0, (reach[i % 2] - 1) // 2) for i in range(4))
    extra = tuple(d.integer(0, max(s, a) - 1) for s, a in zip(strides, dilations, strict=True))
    w = d.constant("w", d.rng.integers(-127, 128, (6 * groups, *kernel, 3)), np.int8)
    epilogue = Epilogue(d.constant("m", d.rng.uniform(0.5, 1.5, 6 * groups) * 2**-9), d.constant("b", [3.0]))
    x = d.codes("x", (2, 3 * groups, d.integer(2, 5), d.integer(2, 5)))
    step = ConvTranspose("s", (), x, d.output(), w, epilogue, strides, dilations, pads, extra, groups)
    return d.case(step)


def linear(d: Draw) -> Case:
    """Rows of any axes."""
    rows, depth, out = d.pick((7,), (1, 13), (2, 3, 5), (2, 2, 3, 4)), d.integer(1, 70), d.integer(1, 70)
    w = d.constant("w", d.rng.integers(-127, 128, (out, depth)), np.int8)
    residual = d.codes("r", (*rows, out)) if d.chance() else ""
    ib = d.constant("ib", d.rng.integers(-999, 999, out), np.int32)
    m = d.constant("m", d.rng.uniform(0.5, 1.5, out) * 2**-9)
    epilogue = Epilogue(m, "", ib, residual, float(np.float32(0.3)) if residual else 0.0)
    return d.case(Linear("s", (), d.codes("x", (*rows, depth)), d.output(), w, epilogue))


def linear_by_index(d: Draw) -> Case:
    """One matrix of several for each row, or two."""
    groups, each, depth, rows = d.integer(1, 4), d.pick(1, 5, 16, 40), d.integer(1, 70), d.integer(1, 40)
    w = d.constant("w", d.rng.integers(-127, 128, (groups * each, depth)), np.int8)
    m = d.constant("m", d.rng.uniform(0.5, 1.5, groups * each) * 2**-9)
    index = d.index("index", (rows * d.pick(1, 2), 1), groups)
    return d.case(
        ChosenLinear("s", (), d.codes("x", (rows, depth)), index, d.output(), w, groups, Epilogue(m))
    )


def _batches(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    batch = tuple(d.integer(1, 3) for _ in range(d.integer(0, 2)))
    return d.smaller(batch), d.smaller(batch)


def matmul(d: Draw) -> Case:
    """Two tensors of codes, their leading axes broadcast."""
    (left, right), (i, k, j) = _batches(d), (d.integer(1, 20), d.integer(1, 70), d.integer(1, 70))
    a, b, y = d.codes("a", (*left, i, k)), d.codes("b", (*right, k, j)), d.output()
    m = d.constant("m", [d.rng.uniform(1e-4, 1e-2)])
    quotient = d.pick(1.0, 1.0, 8.0)
    bounds = (None, None) if y in d.grids else (-2.0, 30.0)
    return d.case(MatMul("s", (), a, b, y, Epilogue(m, low=bounds[0], high=bounds[1], quotient=quotient)))


def float_matmul(d: Draw) -> Case:
    """Two tensors of floats, or one and a constant, whose order of sums counts."""
    (left, right), (i, k, j) = _batches(d), (d.integer(1, 27), d.integer(0, 20), d.integer(1, 75))
    d.feeds["a"], b = far_floats(d, *left, i, k), far_floats(d, *right, k, j)
    if d.chance():
        d.constants["b"] = b
    else:
        d.feeds["b"] = b
    return d.case(FloatMatMul("s", (), "a", "b", "y"))


def float_linear(d: Draw) -> Case:
    """A packed matrix, with and without bias."""
    rows, k, n = d.pick((7,), (1, 13), (2, 3, 5)), d.integer(1, 20), d.integer(1, 140)
    d.feeds["x"], d.constants["w"] = far_floats(d, *rows, k), far_floats(d, k, n)
    bias = d.constant("b", far_floats(d, n)) if d.chance() else ""
    return d.case(FloatLinear("s", (), "x", "y", "w", bias))


def float_conv(d: Draw) -> Case:
    """Any convolution of floats: in groups, of each channel by itself, and of one channel."""
    window, kernel, sizes = d.window()
    kind = d.pick("plain", "groups", "depthwise", "one channel")
    groups = {"groups": 2, "depthwise": d.pick(2, 5, 19, 40)}.get(kind, 1)
    depth, each = (1, 1) if kind == "depthwise" else (d.integer(1, 5), d.integer(1, 35))
    if kind == "one channel":
        depth, each, sizes = 1, d.integer(1, 5), (sizes[0], sizes[1] + d.integer(0, 200))
    d.feeds["x"] = far_floats(d, d.integer(1, 2), depth * groups, *sizes)
    d.constants["w"] = far_floats(d, each * groups, *kernel, depth)
    bias = d.constant("b", far_floats(d, each * groups)) if d.chance() else ""
    return d.case(FloatConv("s", (), "x", "y", "w", bias, **window, groups=groups))


def float_conv_transpose(d: Draw) -> Case:
    """Any kernel and strides."""
    kernel, strides, groups = (
        (d.integer(1, 4), d.integer(1, 4)),
        (d.integer(1, 3), d.integer(1, 3)),
        d.pick(1, 2),
    )
    pads = tuple(d.integer(0, (kernel[i % 2] - 1) // 2) for i in range(4))
    d.feeds["x"] = far_floats(d, 2, 3 * groups, d.integer(2, 5), d.integer(2, 5))
    d.constants["w"] = far_floats(d, 6 * groups, *kernel, 3)
    bias = d.constant("b", far_floats(d, 6 * groups)) if d.chance() else ""
    step = FloatConvTranspose("s", (), "x", "y", "w", bias, strides, (1, 1), pads, (0, 0), groups)
    return d.case(step)


def recurrent(d: Draw) -> Case:
    """Every cell, either direction and both, with and without first states, lengths and codes."""
    cell, reverse = d.pick(*numerics.GATES), d.pick((False,), (True,), (False, True))
    steps, batch, hidden = d.integer(1, 6), d.integer(1, 30), d.integer(1, 40)
    states, rows = (len(reverse), batch, hidden), numerics.GATES[cell] * hidden
    w = d.constant("w", d.rng.standard_normal((len(reverse), rows, hidden)) / np.sqrt(hidden))
    more: dict[str, Any] = {}
    if cell == "gru_reset_after" and d.chance():
        more["bias"] = d.constant("b", d.rng.standard_normal((len(reverse), hidden)))
    if d.chance():
        more["h"] = d.floats("h", states)
        if cell == "lstm":
            more["c"] = d.floats("c", states)
    if d.chance():
        d.feeds["lengths"] = d.rng.integers(0, steps + 1, batch).astype(np.int32)
        more["lengths"] = "lengths"
    outputs = {"y": d.output("y"), "last_h": d.output("last_h")}
    if cell == "lstm":
        outputs["last_c"] = "last_c"
    x = d.floats("x", (steps, batch, len(reverse) * rows), 1.0)
    return d.case(Recurrent(name="s", nodes=(), x=x, weight=w, reverse=reverse, cell=cell, **outputs, **more))


def attention(d: Draw) -> Case:
    """Scores, their softmax and its product with values, which run as one step."""
    rows, tokens, width, batch = d.integer(1, 9), d.integer(1, 140), d.integer(1, 20), d.pick((), (2, 3))
    q, k = d.codes("q", (*batch, rows, width)), d.codes("k", (*batch, width, tokens))
    v, mask = d.codes("v", (*batch, tokens, d.integer(1, 20))), ""
    if d.chance():
        hidden = np.where(d.rng.random((rows, tokens)) < 0.4, d.pick(-np.inf, -1e4, -3e38), 0.5)
        hidden[0, -1] = d.pick(-np.inf, np.nan, np.inf, 0.0)
        mask = d.constant("mask", hidden)
    scale = float(np.float32(d.pick(1 / 255, 4e-4, 2**-13, 0.02, 2e-7, 3.0)))
    d.grids["p"] = Codes(scale, d.pick(0, 128, 255), False, 0, 255)
    if d.chance(0.3):
        d.grids["s"] = UNSIGNED
    m = d.constant("m", [d.pick(1e-6, 0.004, 0.05)])
    gain = float(np.float32(d.pick(1.0, 0.125, -0.3, 0.0)))
    steps = (
        MatMul("qk", (), q, k, "s", Epilogue(m)), Softmax("soft", (), "s", "p", -1, gain, mask),
        MatMul("pv", (), "p", v, d.output(), Epilogue(m)),
    )  # fmt: skip
    return d.case(steps)


def norm_and_codes(d: Draw) -> Case:
    """A norm whose floats become codes in the same step, multiplied by a vector or not."""
    shape = (d.pick(1, 2), d.pick(d.integer(1, 5), d.integer(6, 300)), d.integer(1, 70))
    x, residual, codes = d.real("x", shape), d.real("r", shape), d.output_codes("codes")
    w = d.constant("f", d.rng.uniform(-2, 2, shape[-1]))
    narrow = Quantize("q", (), "n", codes) if d.chance() else Binary("q", (), "mul", "n", w, codes)
    steps = (
        LayerNorm("norm", (), x, "n", "", "", 1e-5, residual), narrow,
        Binary("sum", (), "add", "n", "codes", "y"),
    )  # fmt: skip
    return d.case(steps)


KINDS = {
    "attention": attention, "chosen_linear": linear_by_index, "conv": conv, "conv_transpose": conv_transpose,
    "depthwise": depthwise, "float_conv": float_conv, "float_conv_transpose": float_conv_transpose,
    "float_linear": float_linear, "float_matmul": float_matmul, "linear": linear, "matmul": matmul,
    "norm_and_codes": norm_and_codes, "recurrent": recurrent, "winograd": winograd,
}  # fmt: skip
"""Those of kinds, and of steps that the engine makes of several or for a part of them."""

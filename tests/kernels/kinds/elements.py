"""Random cases of the steps of src/intact/engine/steps/elements."""

from __future__ import annotations

import numpy as np
from tests.kernels.kinds.draw import Draw
from tests.one_step import Case

from intact import numerics
from intact.engine.steps import (
    Add,
    Binary,
    Clip,
    Codes,
    Dequantize,
    DynamicQuantize,
    FakeQuantize,
    Function,
    Quantize,
    Reinterpret,
    Rescale,
    Rotary,
    SplitQuantize,
    Table,
)
from intact.engine.steps.elements.split_quantize import split_codes

BINARY = ("add", "sub", "mul", "div", "max", "min", "slope")
SCALES = (2.0**-6, 0.02, 1.0, 2.0**6)
WIDE = (("int16", 0), ("int16", -12345), ("uint16", 0), ("uint16", 40000))
"""Formats of 16 bits with zero points."""


def add(d: Draw) -> Case:
    """Codes with broadcasting, bounds, one tensor twice."""
    shape = d.shape()
    a = d.codes("a", d.smaller(shape))
    b = a if d.chance(0.15) else d.codes("b", d.smaller(shape))
    y = d.output_codes()
    grid = d.grids[y]
    low = d.integer(grid.low, grid.high)
    bounds = (low, d.integer(low, grid.high)) if d.chance() else (None, None)
    return d.case(Add("s", (), a, b, y, *bounds))


def binary(d: Draw) -> Case:
    """Floats, codes and constants with broadcasting."""
    shape, function = d.shape(), d.pick(*BINARY)
    a = d.real("a", d.smaller(shape))
    b = d.real("b", d.smaller(shape))
    if d.chance(0.3):
        b = d.constant("c", d.feeds.pop(b))
        d.grids.pop("b", None)
    return d.case(Binary("s", (), function, a, b, d.output()))


def clip(d: Draw) -> Case:
    """Bounds on either side, on both, and on none."""
    x = d.real("x", d.shape())
    return d.case(Clip("s", (), x, d.output(), d.pick(None, -1.0, 0.0), d.pick(None, 1.5, 6.0)))


def function(d: Draw) -> Case:
    """Any function of floats or codes."""
    name = d.pick(*sorted(numerics.FUNCTIONS))
    return d.case(Function("s", (), d.real("x", d.shape(), special=0.2), d.output(), name))


def quantize(d: Draw) -> Case:
    """Floats far and near, infinities and NaNs."""
    y = d.output_codes(scale=d.pick(*SCALES))
    return d.case(Quantize("s", (), d.floats("x", d.shape(), 100 * d.grids[y].scale, 0.1), y))


def dequantize(d: Draw) -> Case:
    """Codes of any grid."""
    return d.case(Dequantize("s", (), d.codes("x", d.shape()), d.output(dtype="float32")))


def fake_quantize(d: Draw) -> Case:
    """Grids that reach far beyond what comes in, and grids that end within it."""
    format, zero = d.pick(*WIDE)
    scale = float(np.float32(d.pick(6.1e-5, 2.0**-14, 1e-3, 0.7)))
    ends = d.pick((None, None), (zero, zero + 100))
    return d.case(FakeQuantize("s", (), d.real("x", d.shape()), d.output(), format, scale, zero, *ends))


def rescale(d: Draw) -> Case:
    """Codes of one grid to another."""
    return d.case(Rescale("s", (), d.codes("x", d.shape()), d.output_codes()))


def reinterpret(d: Draw) -> Case:
    """The same codes under another grid."""
    x = d.codes("x", d.shape())
    grid = d.grids[x]
    d.grids["y"] = Codes(0.7, 5, grid.signed, grid.low, 127 if grid.signed else 255)
    return d.case(Reinterpret("s", (), x, "y"))


def rotary(d: Draw) -> Case:
    """Whole heads and parts of them, neighbours and halves, any position."""
    batch, tokens, heads, pairs = (d.integer(1, most) for most in (3, 5, 3, 9))
    x = d.floats("x", (batch, tokens, heads * (2 * pairs + d.pick(0, 3))))
    d.feeds["last"] = d.rng.integers(tokens - 1, 20, batch)
    tables = [d.constant(name, d.rng.uniform(-1, 1, (20, pairs))) for name in ("cosines", "sines")]
    return d.case(Rotary("s", (), x, "last", "y", *tables, heads, d.chance()))


def dynamic_quantize(d: Draw) -> Case:
    """One range for all, or one for each block; int8, or uint8 with zero points."""
    signed, block = d.chance(), d.pick(0, 0, 16, 32)
    shape = d.shape(2, 3)
    d.dtypes = {"y": "int8" if signed else "uint8", "points": "uint8"}
    return d.case(
        DynamicQuantize("s", (), d.floats("x", shape), "y", "scales", "" if signed else "points", block)
    )


def split_quantize(d: Draw) -> Case:
    """Codes of 16 bits in two tensors of bytes."""
    (format, zero), scale = d.pick(*WIDE), float(np.float32(d.pick(*SCALES)))
    d.grids["high"], d.grids["low"] = split_codes(format, scale, zero)
    x = d.floats("x", d.shape(), 20000 * scale, 0.1)
    d.feeds[x] = np.nan_to_num(d.feeds[x], nan=3e38, posinf=np.inf, neginf=-np.inf)
    return d.case(SplitQuantize("s", (), x, "high", "low", format, scale, zero))


def table(d: Draw) -> Case:
    """Any byte for any other."""
    x = d.codes("x", d.shape())
    entries = d.constant("t", d.rng.integers(0, 256, 256), np.uint8)
    return d.case(Table("s", (), x, d.output_codes(), entries))


KINDS = {
    "add": add, "binary": binary, "clip": clip, "dequantize": dequantize,
    "dynamic_quantize": dynamic_quantize, "fake_quantize": fake_quantize, "function": function,
    "quantize": quantize, "reinterpret": reinterpret, "rescale": rescale, "rotary": rotary,
    "split_quantize": split_quantize, "table": table,
}  # fmt: skip

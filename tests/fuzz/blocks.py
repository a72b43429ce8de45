"""Steps with weights of few bits in blocks: products of floats, and rows of tables."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from tests.fuzz.layers import MOST
from tests.fuzz.net import Impossible, Net

_DTYPES = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int8": np.int8, "uint8": np.uint8}


def _dequantize(net: Net, shape: tuple[int, int], axis: int, size: float) -> str:
    """Codes with scales in blocks along an axis, per row or per column, as floats of about `size`."""
    if net.opset < 21:
        raise Impossible  # blocks and codes of 4 bits came with it
    name = net.pick(sorted(_DTYPES))
    bits = 4 if name.endswith("4") else 8
    low = -(2 ** (bits - 1)) if name.startswith("i") else 0

    def draw(sizes: tuple[int, ...]) -> str:
        codes = net.rng.integers(low, low + 2**bits, sizes).astype(np.int16)
        return net.constant(codes.astype(_DTYPES[name]))

    block = net.pick([0, 8, 16, 24, 32])
    attributes = {"axis": axis, "block_size": block} if block else {"axis": net.pick([0, 1])}
    ranges = tuple(-(-n // block) if at == axis else n for at, n in enumerate(shape)) if block else (
        shape[attributes["axis"]],
    )  # fmt: skip
    scales = net.rng.uniform(0.5, 1, ranges) * net.pick([1, -1]) * size / 2 ** (bits - 1)
    operands = [draw(shape), net.constant(scales.astype(np.float32))]
    if net.chance(0.5):
        operands.append(draw(ranges))
    return net.node("DequantizeLinear", *operands, **attributes)


def few_bits(net: Net) -> None:
    """MatMul or Gemm of floats with weights of few bits."""
    x = net.real(2, 3, 4)
    k, out = x.sizes[-1], net.pick([1, 3, 16, 17, 40])
    if k == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    turned = net.chance(0.4)
    w = _dequantize(net, (out, k) if turned else (k, out), int(turned), 1.0)
    spread = x.spread * k**0.5
    if x.rank == 2 and net.chance(0.3):
        bias = [net.floats_of((out,), spread)] if net.chance(0.5) else []
        y = net.node("Gemm", x.name, w, *bias, transB=int(turned))
    else:
        y = net.node("MatMul", x.name, net.node("Transpose", w, perm=[1, 0]) if turned else w)
    net.end(net.add_value(y, [*x.sizes[:-1], out], spread))


def table(net: Net) -> None:
    """Rows of a table, by what the largest of some numbers is."""
    x = net.real(2, 3)
    if 0 in x.sizes:
        raise Impossible
    index = net.node("ArgMax", x.name, axis=-1, keepdims=0)
    if net.chance(0.3):
        index = net.node("Sub", index, net.constant(np.int64(x.sizes[-1])))
    width = net.pick([1, 8, 20, 33])
    rows = _dequantize(net, (x.sizes[-1], width), 1, x.spread)
    net.end(net.add_value(net.node("Gather", rows, index), [*x.sizes[:-1], width], x.spread))


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = ((0.5, few_bits), (0.3, table))
"""Steps with their frequencies."""

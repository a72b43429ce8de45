"""Steps whose codes get their ranges while they run, and operators that multiply codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto
from tests.fuzz.blocks import OUTPUTS, rows, scales
from tests.fuzz.layers import MOST, finish, window
from tests.fuzz.net import Impossible, Net, Real

from intact.graph import ops


def _byte_codes(net: Net, shape: tuple[int, ...], dtype: str = "") -> tuple[str, str, str, int]:
    """Codes, zero point and dtype of a weight of 8 bits for all of it; and the zero point as a number."""
    dtype = dtype or net.pick(["int8", "uint8"])
    limits = np.iinfo(dtype)
    codes = net.rng.integers(limits.min, limits.max, shape, endpoint=True)
    if net.chance(0.15):
        codes[...] = net.pick([int(limits.min), int(limits.max)])
    zero = net.pick([0, 0, 128 if dtype == "uint8" else 0, 7, int(limits.min), int(limits.max)])
    if limits.min > zero or limits.max < zero:
        zero = 0
    return net.constant(codes.astype(dtype)), net.constant(np.array(zero, dtype)), dtype, zero


def _codes_of(net: Net, x: Real) -> tuple[str, str, str]:
    """Codes, scale and zero point of a value: of the range that it has, or seldom of a fixed one."""
    if net.chance(0.8):
        codes, scale, zero = net.node("DynamicQuantizeLinear", x.name, outputs=3)
        return codes, scale, zero
    grid = net.grid(x.spread)
    if grid.dtype not in ("int8", "uint8"):
        raise Impossible
    parameters = net.constant(np.float32(grid.scale)), net.constant(np.array(grid.zero, grid.dtype))
    return net.node("QuantizeLinear", x.name, *parameters), *parameters


def _scale_sums(net: Net, sums: str, *factors: str) -> str:
    """Sums of codes as floats: times the product of factors, in either order."""
    pair = list(factors)
    if net.chance(0.2):
        pair.reverse()
    product = [net.node("Cast", sums, to=TensorProto.FLOAT), net.node("Mul", *pair)]
    if net.chance(0.2):
        product.reverse()
    return net.node("Mul", *product)


def dynamic_conv(net: Net) -> None:
    """ConvInteger between the nodes that quantize_dynamic writes."""
    x = net.real(3, 4)
    channels = x.sizes[1]
    attributes, kernel, sizes = window(net, x.sizes[2:])
    group = net.pick([g for g in range(1, channels + 1) if channels % g == 0] or [0])
    if group == 0 or 0 in x.sizes[1:] or np.prod(x.sizes) > MOST or np.prod(sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    out = group * net.pick([1, 1, 2, 3, 16, 17])
    w, zero, _, _ = _byte_codes(net, (out, channels // group, *kernel))
    wide = [1] * len(kernel)
    q, s, z = _codes_of(net, x)
    operands = [q, w, z if net.chance(0.95) else "", zero]
    sums = net.node("ConvInteger", *operands, group=group, **attributes)
    own = net.constant(scales(net, [1, out, *wide] if net.chance(0.5) else [], 0.01))
    y, spread = _scale_sums(net, sums, s, own), x.spread * 2
    if net.chance(0.7):
        bias = net.constant(net.rng.normal(0, spread, [1, out, *wide]).astype(np.float32))
        y = net.node("Add", *([y, bias] if net.chance(0.8) else [bias, y]))
    finish(net, net.add_value(y, [x.sizes[0], out, *sizes], spread), 1)


def dynamic_product(net: Net) -> None:
    """A product of codes by the range of what comes: in several nodes, or in one of ONNX Runtime's."""
    x = rows(net, 2, 3, 4)
    k, out = x.sizes[-1], net.pick(OUTPUTS)
    if 0 in x.sizes[1:] or np.prod(x.sizes) > 2 * MOST:
        raise Impossible
    net.off |= {"empty"}
    w, zero, dtype, point = _byte_codes(net, (k, out))
    counts = [out] if net.chance(0.5) else []
    scale = net.constant(scales(net, counts, 0.02))
    if net.chance(0.4):
        zero = net.constant(np.full(out, point, dtype))
    if net.chance(0.2):
        zero = ""
    bias = net.floats_of((out,), x.spread) if net.chance(0.5) else ""
    how, sizes = net.pick(["nodes", "nodes", "matmul", "to_float"]), [[*x.sizes[:-1], out]]
    if how == "matmul":
        operands = (x.name, w, scale, zero, bias)
        (y,) = net.foreign_node(ops.MICROSOFT, "DynamicQuantizeMatMul", *operands, sizes=sizes)
    else:
        q, s, z = _codes_of(net, x)
        if how == "to_float":
            operands = (q, w, s, scale, z, zero, bias)
            (y,) = net.foreign_node(ops.MICROSOFT, "MatMulIntegerToFloat", *operands, sizes=sizes)
        else:
            y = _scale_sums(net, net.node("MatMulInteger", q, w, z, zero), s, scale)
            y = net.node("Add", y, bias) if bias else y
    finish(net, net.add_value(y, [*x.sizes[:-1], out], x.spread * 2), x.rank - 1)


def product_of_values(net: Net) -> None:
    """MatMulInteger of two values' codes, such as a product of attention."""
    a = net.real(3, 4)
    fits = [r for r in net.floats if r.sizes == a.sizes]
    b = net.pick(fits)
    if a.empty or np.prod(a.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    (q, s, z), (r, t, v) = (_codes_of(net, value) for value in (a, b))
    turned = net.node("Transpose", r, perm=[*range(a.rank - 2), a.rank - 1, a.rank - 2])
    y = _scale_sums(net, net.node("MatMulInteger", q, turned, z, v), s, t)
    spread = a.spread * b.spread * a.sizes[-1] ** 0.5
    finish(net, net.add_value(y, [*a.sizes[:-1], a.sizes[-2]], spread), a.rank - 1)


def dynamic_lstm(net: Net) -> None:
    """DynamicQuantizeLSTM over the first axis; all states behind each other, or the last one."""
    x = net.real(3)
    steps, batch, inputs = x.sizes
    if min(x.sizes) == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    hidden, direction = net.pick([1, 2, 5, 8, 17, 33, 64]), net.pick(["forward", "reverse", "bidirectional"])
    directions, gates = 1 + (direction == "bidirectional"), 4 * hidden
    per_channel = net.chance(0.5)
    operands, code_dtype = [], net.pick(["int8", "uint8"])
    for size in (inputs, hidden):
        codes, _, dtype, point = _byte_codes(net, (directions, size, gates), code_dtype)
        ranges = (directions, gates) if per_channel else (directions,)
        factors = net.constant(scales(net, ranges, size**-0.5 / 128))
        points = net.constant(np.full(ranges, point if not per_channel or point == 0 else 0, dtype))
        operands.append((codes, factors, points))
    bias = net.floats_of((directions, 2 * gates), 0.5) if net.chance(0.7) else ""
    lengths = ""
    if net.chance(0.3):
        lengths = net.constant(net.rng.integers(1, steps + 1, batch).astype(np.int32))
    states = [net.floats_of((directions, batch, hidden), 1.0) if net.chance(0.4) else "" for _ in range(2)]
    (w, w_scale, w_zero), (r, r_scale, r_zero) = operands
    every = net.foreign_node(
        ops.MICROSOFT, "DynamicQuantizeLSTM", x.name, w, r, bias, lengths, *states, "",
        w_scale, w_zero, r_scale, r_zero, direction=direction, hidden_size=hidden,
        sizes=[(steps, directions, batch, hidden), *[(directions, batch, hidden)] * 2],
    )  # fmt: skip
    if net.chance(0.3):
        net.end(net.add_value(every[net.pick([1, 2])], (directions, batch, hidden), 1.0))
        return
    y = net.node("Transpose", every[0], perm=[0, 2, 1, 3])
    y = net.node("Reshape", y, net.ints(0, 0, directions * hidden))
    net.end(net.add_value(y, (steps, batch, directions * hidden), 1.0))


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = (
    (0.5, dynamic_conv), (0.5, dynamic_product), (0.3, product_of_values), (0.4, dynamic_lstm),
)  # fmt: skip
"""Steps with their frequencies."""

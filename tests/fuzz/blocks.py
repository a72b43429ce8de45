"""Steps with weights of few bits in blocks, and steps whose activations get their ranges while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto
from tests.fuzz.layers import MOST, finish, window
from tests.fuzz.net import Impossible, Net

from intact.numerics import join_stream

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


def _runtime_node(
    net: Net, op_type: str, *inputs: str, sizes: Sequence[Sequence[int]], **attributes: Any
) -> list[str]:
    """A node of ONNX Runtime's, whose outputs have these sizes, the first one free.

    Shape inference of ONNX does not know it: a Cast and a Reshape say what it makes.
    """
    net.domains["com.microsoft"] = 1
    outputs = net.node(op_type, *inputs, outputs=len(sizes), domain="com.microsoft", **attributes)
    typed = []
    for name, shape in zip([outputs] if len(sizes) == 1 else outputs, sizes, strict=True):
        cast = net.node("Cast", name, to=TensorProto.FLOAT)
        typed.append(str(net.node("Reshape", cast, net.ints(-1, *shape[1:]))))
    return typed


def _byte_codes(net: Net, shape: tuple[int, ...]) -> tuple[str, str, str, int]:
    """Codes, zero point and dtype of a weight of 8 bits for all of it; and the zero point as a number."""
    dtype = net.pick(["int8", "uint8"])
    limits = np.iinfo(dtype)
    codes = net.rng.integers(limits.min, limits.max, shape, endpoint=True)
    if net.chance(0.15):
        codes[...] = net.pick([int(limits.min), int(limits.max)])
    zero = net.pick([0, 0, 128 if dtype == "uint8" else 0, 7, int(limits.min), int(limits.max)])
    if limits.min > zero or limits.max < zero:
        zero = 0
    return net.constant(codes.astype(dtype)), net.constant(np.array(zero, dtype)), dtype, zero


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
    scales = net.rng.uniform(0.002, 0.02, [1, out, *wide] if net.chance(0.5) else []).astype(np.float32)
    q, s, z = net.node("DynamicQuantizeLinear", x.name, outputs=3)
    factors = [s, net.constant(scales)]
    operands = [q, w, z if net.chance(0.95) else "", zero]
    sums = net.node("ConvInteger", *operands, group=group, **attributes)
    if net.chance(0.2):
        factors.reverse()
    product = [net.node("Cast", sums, to=TensorProto.FLOAT), net.node("Mul", *factors)]
    if net.chance(0.2):
        product.reverse()
    y, spread = net.node("Mul", *product), x.spread * 2
    if net.chance(0.7):
        bias = net.constant(net.rng.normal(0, spread, [1, out, *wide]).astype(np.float32))
        y = net.node("Add", *([y, bias] if net.chance(0.8) else [bias, y]))
    finish(net, net.add_value(y, [x.sizes[0], out, *sizes], spread), 1)


def dynamic_product(net: Net) -> None:
    """A product of codes by the range of what comes: in several nodes, or in one of ONNX Runtime's."""
    x = net.real(2, 3, 4)
    k, out = x.sizes[-1], net.pick([1, 3, 16, 17, 40])
    if 0 in x.sizes[1:] or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    w, zero, dtype, point = _byte_codes(net, (k, out))
    counts = [out] if net.chance(0.5) else []
    scale = net.constant(net.rng.uniform(0.002, 0.02, counts).astype(np.float32))
    if counts and net.chance(0.5):
        zero = net.constant(np.full(counts, point, dtype))
    bias = net.floats_of((out,), x.spread) if net.chance(0.5) else ""
    how, sizes = net.pick(["nodes", "matmul", "to_float"]), [[*x.sizes[:-1], out]]
    if how == "matmul":
        (y,) = _runtime_node(net, "DynamicQuantizeMatMul", x.name, w, scale, zero, bias, sizes=sizes)
    else:
        q, s, z = net.node("DynamicQuantizeLinear", x.name, outputs=3)
        if how == "to_float":
            (y,) = _runtime_node(net, "MatMulIntegerToFloat", q, w, s, scale, z, zero, bias, sizes=sizes)
        else:
            sums = net.node("Cast", net.node("MatMulInteger", q, w, z, zero), to=TensorProto.FLOAT)
            y = net.node("Mul", sums, net.node("Mul", s, scale))
            y = net.node("Add", y, bias) if bias else y
    net.end(net.add_value(y, [*x.sizes[:-1], out], x.spread * 2))


def nbits(net: Net) -> None:
    """MatMulNBits at level 0 or 4."""
    x = net.real(2, 3)
    k, out = x.sizes[-1], net.pick([1, 3, 16, 17, 40])
    if 0 in x.sizes[1:] or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    bits, block = net.pick([2, 4, 4, 8]), net.pick([16, 32, 64, 128])
    blocks = -(-k // block)
    codes = net.rng.integers(0, 2**bits, (out, blocks * block), np.uint8)
    packed = join_stream(codes, bits, 1).reshape(out, blocks, block * bits // 8)
    scales = net.rng.uniform(-1, 1, (out, blocks)) * x.spread / 2**bits
    operands = [x.name, net.constant(packed), net.constant(scales.astype(np.float32))]
    zeros, bias = net.chance(0.5), net.chance(0.4)
    if zeros:
        points = net.rng.integers(0, 2**bits, (out, blocks), np.uint8)
        operands.append(net.constant(join_stream(points, bits, 1)))
    if bias:
        operands += [""] * (5 - len(operands)) + [net.floats_of((out,), x.spread)]
    (y,) = _runtime_node(
        net, "MatMulNBits", *operands, K=k, N=out, bits=bits, block_size=block,
        accuracy_level=net.pick([0, 4, 4]), sizes=[[*x.sizes[:-1], out]],
    )  # fmt: skip
    net.end(net.add_value(y, [*x.sizes[:-1], out], x.spread * k**0.5))


def block_rows(net: Net) -> None:
    """GatherBlockQuantized, by what the largest of some numbers is."""
    x = net.real(2, 3)
    if net.opset < 21 or 0 in x.sizes:
        raise Impossible
    net.off |= {"empty"}
    index = net.node("ArgMax", x.name, axis=-1, keepdims=0)
    rows, width, block = x.sizes[-1], net.pick([4, 16, 40, 64]), net.pick([16, 32])
    dtype = net.pick(["uint4", "int4"])
    low = 0 if dtype == "uint4" else -8
    codes = net.rng.integers(low, low + 16, (rows, width)).astype(np.int16).astype(_DTYPES[dtype])
    scales = net.rng.uniform(-1, 1, (rows, -(-width // block))).astype(np.float32) * np.float32(x.spread / 8)
    operands = [net.constant(codes), index, net.constant(scales)]
    if net.chance(0.5):
        points = net.rng.integers(low, low + 16, scales.shape).astype(np.int16)
        operands.append(net.constant(points.astype(_DTYPES[dtype])))
    (y,) = _runtime_node(
        net, "GatherBlockQuantized", *operands, gather_axis=0, quantize_axis=1, block_size=block,
        sizes=[[*x.sizes[:-1], width]],
    )  # fmt: skip
    net.end(net.add_value(y, [*x.sizes[:-1], width], x.spread))


def dynamic_lstm(net: Net) -> None:
    """DynamicQuantizeLSTM over the first axis; all states behind each other, or the last one."""
    x = net.real(3)
    steps, batch, inputs = x.sizes
    if min(x.sizes) == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    hidden, direction = net.pick([1, 2, 5, 8, 17, 33]), net.pick(["forward", "reverse", "bidirectional"])
    directions, rows = 1 + (direction == "bidirectional"), 4 * hidden
    per_channel = net.chance(0.5)
    operands = []
    for size in (inputs, hidden):
        codes, _, dtype, point = _byte_codes(net, (directions, size, rows))
        ranges = (directions, rows) if per_channel else (directions,)
        scales = net.constant((net.rng.uniform(0.2, 1, ranges) / 128 * size**-0.5).astype(np.float32))
        points = net.constant(np.full(ranges, point if not per_channel or point == 0 else 0, dtype))
        operands.append((codes, scales, points))
    bias = net.floats_of((directions, 2 * rows), 0.5) if net.chance(0.7) else ""
    lengths = ""
    if net.chance(0.3):
        lengths = net.constant(net.rng.integers(1, steps + 1, batch).astype(np.int32))
    states = [net.floats_of((directions, batch, hidden), 1.0) if net.chance(0.4) else "" for _ in range(2)]
    (w, w_scale, w_zero), (r, r_scale, r_zero) = operands
    every = _runtime_node(
        net, "DynamicQuantizeLSTM", x.name, w, r, bias, lengths, *states, "",
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
    (0.5, few_bits), (0.3, table), (0.5, dynamic_conv), (0.4, dynamic_product), (0.4, nbits),
    (0.2, block_rows), (0.4, dynamic_lstm),
)  # fmt: skip
"""Steps with their frequencies."""

"""Steps with weights of few bits in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from tests.fuzz.layers import MOST, finish
from tests.fuzz.net import WILD, Impossible, Net, Real

from intact.engine.steps.base.block_constants import misfit
from intact.graph import ops
from intact.numerics import code_values, join_stream

_DTYPES = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int8": np.int8, "uint8": np.uint8}
OUTPUTS = (1, 3, 16, 17, 40)


def rows(net: Net, *ranks: int, grid: bool = False) -> Real:
    """A value whose last axis is long now and then: it lies several times in a row, some of them negated."""
    x = net.real(*ranks, grid=grid)
    size = int(np.prod(x.sizes))
    if x.empty or size > MOST or net.chance(0.5):
        return x
    count = min(net.pick([2, 3, 5, 8, 17, 33]), 2 * MOST // size)
    parts = [x.name if net.chance(0.7) else net.node("Neg", x.name) for _ in range(count)]
    sizes = (*x.sizes[:-1], x.sizes[-1] * count)
    return net.add_value(net.node("Concat", *parts, axis=x.rank - 1), sizes, x.spread)


def scales(net: Net, shape: Sequence[int], size: float) -> np.ndarray:
    """Scales of about a size: of one sign or both, some 0; in wild graphs tiny and huge ones."""
    values = np.array(net.rng.uniform(0.5, 1, tuple(shape)) * size)
    how = net.pick(["positive", "negative", "signs", "signs", "zeros"])
    if how != "positive":
        values *= -1 if how == "negative" else net.rng.choice([-1, 1], values.shape)
    if how == "zeros":
        values *= net.rng.random(values.shape) < 0.6
    if net.wild and net.chance(0.3):
        values = np.where(net.rng.random(values.shape) < 0.3, net.pick(WILD), values)
    return values.astype(np.float32)


def _codes(net: Net, shape: Sequence[int], bits: int) -> np.ndarray:
    """Codes without a sign: any, or those at the ends."""
    codes = net.rng.integers(0, 2**bits, tuple(shape), np.uint8)
    if net.chance(0.15):
        codes = np.where(codes < 2 ** (bits - 1), 0, 2**bits - 1).astype(np.uint8)
    return codes


def _dequantize(net: Net, shape: Sequence[int], axis: int, size: float) -> str:
    """Codes with scales in blocks along an axis, per row or per column, as floats of about `size`."""
    if net.opset < 21:
        raise Impossible  # blocks and codes of 4 bits came with it
    name = net.pick(sorted(_DTYPES))
    bits = 4 if name.endswith("4") else 8
    low = -(2 ** (bits - 1)) if name.startswith("i") else 0

    def draw(sizes: Sequence[int]) -> str:
        codes = _codes(net, sizes, bits).astype(np.int16) + low
        return net.constant(codes.astype(_DTYPES[name]))

    block = net.pick([0, 5, 8, 16, 24, 32, 128])
    attributes = {"axis": axis, "block_size": block} if block else {"axis": net.pick([0, 1])}
    ranges = tuple(-(-n // block) if at == axis else n for at, n in enumerate(shape)) if block else (
        shape[attributes["axis"]],
    )  # fmt: skip
    operands = [draw(shape), net.constant(scales(net, ranges, size / 2 ** (bits - 1)))]
    if net.chance(0.5):
        operands.append(draw(ranges))
    return net.node("DequantizeLinear", *operands, **attributes)


def few_bits(net: Net) -> None:
    """MatMul or Gemm of floats with weights of few bits."""
    x = rows(net, 2, 3, 4)
    k, out = x.sizes[-1], net.pick(OUTPUTS)
    if k == 0 or np.prod(x.sizes) > 2 * MOST:
        raise Impossible
    turned = net.chance(0.4)
    w = _dequantize(net, (out, k) if turned else (k, out), int(turned), 1.0)
    spread = x.spread * k**0.5
    if x.rank == 2 and net.chance(0.3):
        bias = [net.floats_of((out,), spread)] if net.chance(0.5) else []
        y = net.node("Gemm", x.name, w, *bias, transB=int(turned))
    else:
        y = net.node("MatMul", x.name, net.node("Transpose", w, perm=[1, 0]) if turned else w)
    finish(net, net.add_value(y, [*x.sizes[:-1], out], spread), x.rank - 1)


def pointwise(net: Net) -> None:
    """Conv of single pixels, with weights in blocks of channels."""
    x = net.real(3, 4)
    channels, out = x.sizes[1], net.pick(OUTPUTS)
    if channels == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    w = _dequantize(net, (out, channels, *[1] * (x.rank - 2)), 1, 1.0)
    spread = x.spread * channels**0.5
    bias = [net.floats_of((out,), spread)] if net.chance(0.5) else []
    y = net.node("Conv", x.name, w, *bias)
    finish(net, net.add_value(y, [x.sizes[0], out, *x.sizes[2:]], spread), 1)


def _indices(net: Net, x: Real) -> str:
    """Numbers of columns of a value: its largest, some of them counted from the end."""
    index = net.node("ArgMax", x.name, axis=-1, keepdims=0)
    return net.node("Sub", index, net.constant(np.int64(x.sizes[-1]))) if net.chance(0.3) else index


def table(net: Net) -> None:
    """Rows of a table, by what the largest of some numbers is."""
    x = net.real(2, 3)
    if 0 in x.sizes:
        raise Impossible
    index, width = _indices(net, x), net.pick([1, 8, 20, 33, 130])
    rows_of_table = _dequantize(net, (x.sizes[-1], width), 1, x.spread)
    net.end(net.add_value(net.node("Gather", rows_of_table, index), [*x.sizes[:-1], width], x.spread))


def nbits(net: Net) -> None:
    """MatMulNBits at every accuracy level; now and then its columns have an order, or float zero points."""
    x = rows(net, 2, 3)
    k, out = x.sizes[-1], net.pick(OUTPUTS)
    if 0 in x.sizes[1:] or np.prod(x.sizes) > 2 * MOST:
        raise Impossible
    net.off |= {"empty"}
    bits, block = net.pick([2, 4, 4, 8]), net.pick([16, 32, 64, 128, 256])
    blocks = -(-k // block)
    packed = join_stream(_codes(net, (out, blocks * block), bits), bits, 1)
    operands = {0: x.name, 1: net.constant(packed.reshape(out, blocks, block * bits // 8))}
    operands[2] = net.constant(scales(net, (out, blocks), x.spread / 2 ** (bits - 1)))
    zeros = net.pick(["", "", "codes", "codes", "floats"])
    if bits == 8 and zeros == "floats" and net.chance(0.9):
        zeros = ""  # ONNX Runtime refuses them
    if zeros == "codes":
        operands[3] = net.constant(join_stream(_codes(net, (out, blocks), bits), bits, 1))
    elif zeros == "floats":
        operands[3] = net.constant(net.rng.uniform(0, 2**bits, (out, blocks)).astype(np.float32))
    if bits == 4 and net.chance(0.15):  # of others ONNX Runtime knows no order, or computes something else
        operands[4] = net.constant(net.rng.permutation(np.arange(k) // block).astype(np.int32))
    if net.chance(0.4):
        operands[5] = net.floats_of((out,), x.spread)
    (y,) = net.foreign_node(
        ops.MICROSOFT, "MatMulNBits", *(operands.get(at, "") for at in range(max(operands) + 1)), K=k, N=out,
        bits=bits, block_size=block, accuracy_level=net.pick([0, 1, 2, 3, 4, 4, 4]),
        sizes=[[*x.sizes[:-1], out]],
    )  # fmt: skip
    finish(net, net.add_value(y, [*x.sizes[:-1], out], x.spread * k**0.5), x.rank - 1)


def block_rows(net: Net) -> None:
    """GatherBlockQuantized, by what the largest of some numbers is."""
    x = net.real(2, 3)
    if net.opset < 21 or 0 in x.sizes:
        raise Impossible
    net.off |= {"empty"}
    index = _indices(net, x)
    count, width, block = x.sizes[-1], net.pick([4, 16, 40, 64, 150]), net.pick([16, 32, 128])
    shape, has_zeros, more = (count, -(-width // block)), net.chance(0.5), {}
    # Codes of fewer bits in uint8 are read otherwise by some versions of ONNX Runtime.
    dtype = net.pick(["uint4", "int4", "uint8"])
    if dtype == "uint8":
        more = {"bits": 8}
        codes, points = _codes(net, (count, width), 8), _codes(net, shape, 8)
    else:
        low = 0 if dtype == "uint4" else -8
        codes, points = (
            (_codes(net, sizes, 4).astype(np.int16) + low).astype(_DTYPES[dtype])
            for sizes in ((count, width), shape)
        )
    operands = [net.constant(codes), index, net.constant(scales(net, shape, x.spread / 8))]
    if has_zeros:
        operands.append(net.constant(points))
    (y,) = net.foreign_node(
        ops.MICROSOFT, "GatherBlockQuantized", *operands, gather_axis=0, quantize_axis=1, block_size=block,
        sizes=[[*x.sizes[:-1], width]], **more,
    )  # fmt: skip
    net.end(net.add_value(y, [*x.sizes[:-1], width], x.spread))


def _own_weights(net: Net, out: int, k: int, size: float, in_floats: bool) -> tuple[dict[int, str], int, int]:
    """Operands 1 to 8 of INTact's operators by number, the bits and the block: one level of scales or two.

    `in_floats`: values of a table may be any.
    """
    bits = net.pick([2, 3, 4, 4, 5, 6, 7, 8])
    block = net.pick([8, 8, 16, 16, 24, 32, 64, 256, k, 5])
    blocks = -(-k // block)
    shape, size = (out, blocks), size / 2 ** (bits - 1)
    has_minima, has_levels = net.chance(0.4), net.chance(0.6)
    fine, minima_fine = has_levels and net.chance(0.9), has_levels and has_minima and net.chance(0.8)
    supers = net.pick([n for n in range(1, blocks + 1) if blocks % n == 0])
    float_type = net.pick([np.float32, np.float32, np.float16])

    def numbers(is_fine: bool, size: float) -> str:
        values = scales(net, (out, supers) if is_fine else shape, size / 64 if is_fine else size)
        if float_type == np.float16:
            values = np.clip(values, -6e4, 6e4)
        return net.constant(values.astype(float_type))

    def integers() -> str:
        low, high = net.pick([(-128, 128), (-32, 32), (0, 64), (0, 1)])
        return net.constant(net.rng.integers(low, high, shape).astype(np.int8))

    operands = {1: net.constant(join_stream(_codes(net, (out, k), bits), bits, 1)), 2: numbers(fine, size)}
    if bits == 4 and net.chance(0.4):
        operands[8] = net.constant(_values(net, in_floats))
    elif net.chance(0.5):
        points = _codes(net, shape, bits)
        if net.chance(0.3):
            points[...] = net.pick([0, 1, 2**bits - 1])
        operands[3] = net.constant(points)
    if has_minima:
        operands[4] = numbers(minima_fine, size * 4)
    if fine:
        operands[6] = integers()
    if minima_fine:
        operands[7] = integers()
    return operands, bits, block


def _values(net: Net, any_reals: bool) -> np.ndarray:
    """A table of 16 values: whole numbers as int8 holds, those of a format, or any others."""
    how = net.pick(["whole", "whole", "iq4", "fp4e2m1", *["nf4", "any"] * any_reals])
    if how == "whole":
        return net.rng.integers(-128, 128, 16).astype(np.float32)
    table = code_values(how) if how != "any" else scales(net, (16,), 8)
    assert table is not None
    return table


def own_product(net: Net) -> None:
    """BlockLinear of INTact: floats, or codes in blocks of their own, by weights in one level or two."""
    x = rows(net, 2, 3, 4)
    k, out = x.sizes[-1], net.pick(OUTPUTS)
    dims = [dim for value in net.inputs for dim in value.type.tensor_type.shape.dim[1:]]
    if k == 0 or np.prod(x.sizes) > 2 * MOST or any(dim.dim_param for dim in dims):
        raise Impossible  # rows of a free length have no step, and ONNX Runtime does not know the operator
    in_floats = net.chance(0.3)
    operands, bits, block = _own_weights(net, out, k, 1.0, in_floats)
    if net.chance(0.5):
        operands[5] = net.floats_of((out,), x.spread)
    sizes = [] if in_floats else [n for n in (block, block, 8, 16, 32, 256, k) if not misfit(k, block, n)]
    x_block = net.pick([0, *sizes])
    names = (operands.get(at, "") for at in range(1, max(operands) + 1))
    (y,) = net.foreign_node(
        ops.BlockLinear.domain, "BlockLinear", x.name, *names, K=k, bits=bits, block=block, x_block=x_block,
        sizes=[[*x.sizes[:-1], out]],
    )  # fmt: skip
    finish(net, net.add_value(y, [*x.sizes[:-1], out], x.spread * k**0.5), x.rank - 1)


def own_rows(net: Net) -> None:
    """BlockGather of INTact, by what the largest of some numbers is."""
    x = net.real(2, 3)
    if 0 in x.sizes[1:]:
        raise Impossible
    index, width = _indices(net, x), net.pick([1, 8, 20, 33, 64, 130, 512])
    operands, bits, block = _own_weights(net, x.sizes[-1], width, x.spread, in_floats=True)
    names = (operands.get(at, "") for at in range(1, max(operands) + 1))
    (y,) = net.foreign_node(
        ops.BlockGather.domain, "BlockGather", index, *names, K=width, bits=bits, block=block,
        sizes=[[*x.sizes[:-1], width]],
    )  # fmt: skip
    net.end(net.add_value(y, [*x.sizes[:-1], width], x.spread))


def experts(net: Net) -> None:
    """QMoE, whose logits are columns of what it multiplies."""
    x = rows(net, 2, 3, grid=True)
    hidden = x.sizes[-1]
    bits, block = net.pick([2, 4, 4, 8]), net.pick([0, 16, 16, 32])
    if 0 in x.sizes[1:] or hidden * bits % 8 or (block and hidden % block) or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}
    count = net.pick([n for n in (1, 2, 3, 5, 8) if n <= hidden])
    inner = net.pick([n for n in (8, 16, 24, 32, 48) if not block or n % block == 0])
    activation = net.pick(["relu", "gelu", "silu", "identity", "swiglu", "swiglu"])
    fusion = net.pick([1, 1, 1, 1, 1, 1, 1, 1, 0, 2]) if activation == "swiglu" else 0
    has_zeros, has_bias = net.chance(0.5), net.chance(0.5)
    columns = net.node("Slice", x.name, net.ints(0), net.ints(count), net.ints(x.rank - 1))
    # Of equal logits ONNX Runtime may choose others.
    logits = net.node("Add", columns, net.floats_of((count,), x.spread))
    operands = {0: x.name, 1: net.node("Reshape", logits, net.ints(-1, count))}
    products = [(2, 2 * inner if fusion else inner, hidden), (5, hidden, inner)]
    if activation == "swiglu" and not fusion:
        products.append((8, inner, hidden))
    for at, (first, out, k) in enumerate(products):
        shape = (count, out, k // block) if block else (count, out)
        operands[first] = net.constant(join_stream(_codes(net, (count, out, k), bits), bits, 1))
        operands[first + 1] = net.constant(scales(net, shape, k**-0.5 / 2 ** (bits - 1)))
        if has_bias:
            operands[first + 2] = net.floats_of((count, out), x.spread)
        if has_zeros:
            operands[11 + at] = net.constant(join_stream(_codes(net, shape, bits), bits, 1))
    own = {"block_size": block} if block else {}
    (y,) = net.foreign_node(
        ops.MICROSOFT, "QMoE", *(operands.get(at, "") for at in range(max(operands) + 1)),
        k=1 + net.upto(count - 1), activation_type=activation, swiglu_fusion=fusion, expert_weight_bits=bits,
        normalize_routing_weights=net.upto(1), accuracy_level=net.pick([0, 4]), sizes=[x.sizes], **own,
    )  # fmt: skip
    net.end(net.add_value(y, x.sizes, x.spread))


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = (
    (0.5, few_bits), (0.3, pointwise), (0.3, table), (0.5, nbits), (0.3, block_rows), (0.6, own_product),
    (0.3, own_rows), (0.3, experts),
)  # fmt: skip
"""Steps with their frequencies."""

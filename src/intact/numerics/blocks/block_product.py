"""Products of activations with block weights, exact in integers within a block. NORMATIVE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.blocks.block_weights import (
    BlockWeights,
    block_minima,
    block_scales,
    dequantize_blocks,
)
from intact.numerics.blocks.code_tables import has_whole_values
from intact.numerics.blocks.dynamic_activations import DynamicActivations, quantize_dynamic
from intact.numerics.floats.float_matmul import float_product
from intact.numerics.grids.affine import to_float32
from intact.numerics.integers.accumulator import accumulator, exact_product, shape_error

Reals = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Piece:
    """Neighbours along K that share both scales."""

    begin: int
    end: int
    block: int
    activation_block: int


def block_product(x: DynamicActivations, weights: BlockWeights, bias: ArrayLike | None = None) -> Reals:
    """Compute ``y = sum over blocks of fl32(fl32(acc) * fl32(s_x * s_w))``, acc exact in a block. NORMATIVE.

    K is cut where a scale of either side changes. Each piece adds to y, which begins at +0, in order:
    ``acc = sum (x - z_x) * (q - z_w)``, int32; then ``fl32(fl32(acc) * fl32(s_x * s_w))``. Minima add
    ``fl32(fl32(t) * fl32(s_x * m))`` behind it, with ``t = sum (x - z_x)``. A float zero point leaves q in
    acc, and ``fl32(fl32(acc) - fl32(z * fl32(t)))`` stands for fl32(acc). The bias is added last.

    Integer sub-scales are part of acc where one s_x covers the super-block:
    ``acc = sum over its blocks of scale * sum (x - z_x) * (q - z_w)``, int32, with the super-scale for s_w.
    Integer minima are part of t alike.

    Args:
        x: Activations [..., K].
        weights: Weights [N, K] of an integer format, fp4e2m1, iq4, or table4 with whole numbers: of halves
            and integers sums are exact.
        bias: Reals [N].
    Returns:
        float32 [..., N].
    Raises:
        QuantValueError: Shapes do not fit, a sum leaves int32, blocks overlap without one being part of the
            other, or the format has no exact sums.
    Source: com.microsoft MatMulNBits, accuracy_level 4; ggml's vec_dot of Q4_0 and Q8_0, with float32 scales.

    Rules N69, N75.
    """
    size = weights.codes.shape[-1]
    if weights.codes.ndim != 2 or x.codes.ndim < 1 or x.codes.shape[-1] != size:
        raise shape_error(x.codes.shape, weights.codes.shape, "x [..., K] and weights [N, K]")
    steps, unit = _integer_steps(weights)
    differences = _without_zero_points(x)
    if weights.groups is not None:
        steps, differences, x = _sort_by_block(weights, steps, differences, x)
    rows = differences.reshape(-1, size)
    y = np.zeros((rows.shape[0], steps.shape[0]), np.float32)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for term in _terms(x, weights, rows, steps, unit):
            y = y + term
        if bias is not None:
            y = y + to_float32(bias)
    return np.asarray(y, np.float32).reshape(*x.codes.shape[:-1], steps.shape[0])


def nbits_product(
    x: ArrayLike, weights: BlockWeights, accuracy_level: int = 0, bias: ArrayLike | None = None
) -> Reals:
    """Compute ONNX Runtime's MatMulNBits at one of its accuracy levels. NORMATIVE.

    Level 4 quantizes x to int8 in blocks of the weights' size and is `block_product`. The others, and level 4
    with float zero points, with groups or with 2 bits in blocks of 16, are the float product of x and the
    dequantized weights, which begins at the bias.

    Args:
        x: Reals [..., K].
        weights: Weights [N, K] of uint2, uint4 or uint8.
        accuracy_level: As the operator's attribute, 0 to 4.
        bias: Reals [N].
    Returns:
        float32 [..., N].
    Raises:
        QuantValueError: As for `block_product`; or the level is none.
    Source: com.microsoft MatMulNBits. ONNX Runtime sums in another order, and differs by it.

    Rule N70.
    """
    if has_block_product(weights, accuracy_level):
        return block_product(quantize_dynamic(x, block_size=weights.block_size), weights, bias)
    x = to_float32(x)
    flat = x.reshape(-1, x.shape[-1]) if x.ndim else x
    y = float_product(flat, dequantize_blocks(weights).T, bias)
    return y.reshape(*x.shape[:-1], weights.codes.shape[0])


def has_block_product(weights: BlockWeights, accuracy_level: int) -> bool:
    """Return whether `nbits_product` is `block_product`, of activations in blocks of the weights' size (N70).

    NORMATIVE.

    Args:
        weights: Shape [N, K].
        accuracy_level: Of a MatMulNBits, 0 to 4; 4 asks for products of int8.
    Raises:
        QuantValueError: The level is none.
    """
    if accuracy_level not in (0, 1, 2, 3, 4):
        raise QuantValueError("accuracy_level", f"{accuracy_level!r:.40}", "0 to 4", "choose 0 or 4")
    is_small = (weights.bits, weights.block_size) == (2, 16)
    in_floats = _has_float_zero_points(weights) or weights.groups is not None
    return accuracy_level == 4 and not in_floats and not is_small


def _has_float_zero_points(weights: BlockWeights) -> bool:
    return weights.zero_points is not None and weights.zero_points.dtype.kind not in "iu"


def _integer_steps(weights: BlockWeights) -> tuple[Integers, float]:
    """Return the integers that are multiplied, without float zero points, and the value of 1: 0.5 for fp4."""
    values = weights.values
    if values is not None:
        unit = 0.5 if weights.format == "fp4e2m1" else 1.0
        if not has_whole_values(values / np.float32(unit)):
            raise QuantValueError(
                "weights", f"format {weights.format}", "integer codes, or values that are whole numbers",
                "multiply float activations with dequantize_blocks(weights)",
            )  # fmt: skip
        return (values / np.float32(unit)).astype(np.int64)[weights.codes], unit
    steps, zero = weights.codes.astype(np.int64), weights.zero_points
    if zero is not None and zero.dtype.kind in "iu":
        steps = steps - zero.astype(np.int64)[..., weights.block_of()]
    return steps, 1.0


def _without_zero_points(x: DynamicActivations) -> Integers:
    codes, zero = x.codes.astype(np.int64), x.zero_points
    if zero is None:
        return codes
    if x.block_size is not None:
        return np.asarray(codes - zero.astype(np.int64)[..., np.arange(codes.shape[-1]) // x.block_size])
    return np.asarray(codes - (zero.astype(np.int64)[..., None] if zero.ndim else zero.astype(np.int64)))


def _sort_by_block(
    weights: BlockWeights, steps: Integers, differences: Integers, x: DynamicActivations
) -> tuple[Integers, Integers, DynamicActivations]:
    """Put the elements of a block of both sides side by side; sums of integers have no order."""
    if x.block_size is not None:
        raise QuantValueError(
            "x", f"blocks of {x.block_size} with weights in groups", "one scale per token or tensor",
            "quantize x per token, or permute its elements into the order of the groups first",
        )  # fmt: skip
    order = np.argsort(weights.block_of(), kind="stable")
    return steps[:, order], differences[..., order], x


def _terms(
    x: DynamicActivations, weights: BlockWeights, rows: Integers, steps: Integers, unit: float
) -> Iterator[Reals]:
    """Yield what the pieces add to the sum, in order, float32 [rows, N] each."""
    ratio = _blocks_in_one_sum(x, weights)
    if ratio > 1:
        assert weights.super_scales is not None
        scales, minima = _wide(weights.super_scales), weights.super_minima
        offsets = None if minima is None else _wide(minima)
    else:
        scales, offsets = block_scales(weights), block_minima(weights)
    zero = weights.zero_points if _has_float_zero_points(weights) else None
    for piece in _pieces(x, weights, ratio):
        activation_scale = _activation_scales(x, piece)
        part = slice(piece.begin, piece.end)
        if ratio > 1:
            sums, totals = _sub_scaled(weights, rows[:, part], steps[:, part], piece, ratio)
        else:
            sums = exact_product(rows[:, part], steps[:, part].T)
            totals = rows[:, part].sum(axis=-1, keepdims=True)
        real = _as_float(sums) * np.float32(unit)
        if zero is not None:
            real = real - zero[:, piece.block].astype(np.float32) * _as_float(totals)
        yield real * (activation_scale * scales[:, piece.block])
        if offsets is not None:
            yield _as_float(totals) * (activation_scale * offsets[:, piece.block])


def _blocks_in_one_sum(x: DynamicActivations, weights: BlockWeights) -> int:
    """Count the blocks whose integer sub-scales go into one integer sum; 1: none do."""
    supers = weights.super_scales
    integers = weights.scales.dtype.kind in "iu" and (
        weights.minima is None or weights.minima.dtype.kind in "iu"
    )
    zero = weights.zero_points
    if (
        supers is None
        or not supers.ndim
        or not integers
        or (zero is not None and zero.dtype.kind not in "iu")
    ):
        return 1
    ratio = weights.blocks // max(supers.shape[-1], 1)
    covers = x.block_size is None or x.block_size % (ratio * weights.block_size) == 0
    return ratio if covers and weights.groups is None else 1


def _pieces(x: DynamicActivations, weights: BlockWeights, ratio: int) -> Iterator[_Piece]:
    size = weights.codes.shape[-1]
    if weights.groups is not None:
        ends = np.bincount(weights.block_of(), minlength=weights.blocks).cumsum()
        begin = 0
        for block, end in enumerate(ends.tolist()):
            yield _Piece(begin, end, block, 0)
            begin = end
        return
    wide, narrow = weights.block_size * ratio, x.block_size or size
    step = min(wide, narrow)
    if max(wide, narrow) % max(step, 1) and max(wide, narrow) < size:
        raise QuantValueError(
            "block_size", f"{narrow} of activations with {wide} of weights", "one a multiple of the other",
            "quantize the activations in blocks of the weights' size",
        )  # fmt: skip
    for begin in range(0, size, max(step, 1)):
        yield _Piece(begin, min(begin + step, size), begin // wide, begin // narrow)


def _activation_scales(x: DynamicActivations, piece: _Piece) -> Reals:
    """Return float32 that broadcasts against [rows, N]."""
    if x.block_size is None:
        return np.asarray(x.scales.reshape(-1, 1))
    return np.asarray(x.scales[..., piece.activation_block].reshape(-1, 1))


def _sub_scaled(
    weights: BlockWeights, rows: Integers, steps: Integers, piece: _Piece, ratio: int
) -> tuple[Integers, Integers]:
    """Integer sums over one super-block: of products by the sub-scales, of activations by integer minima."""
    span = slice(piece.block * ratio, (piece.block + 1) * ratio)
    per_element = np.arange(rows.shape[-1]) // weights.block_size
    factors = weights.scales[:, span].astype(np.int64)[:, per_element]
    sums = exact_product(rows, (steps * factors).T)
    if weights.minima is None:
        return sums, rows.sum(axis=-1, keepdims=True)
    minima = weights.minima[:, span].astype(np.int64)[:, per_element]
    return sums, exact_product(rows, minima.T)


def _wide(supers: NDArray) -> Reals:
    return np.asarray(supers.astype(np.float32))


def _as_float(sums: Integers) -> Reals:
    """Convert sums that fit int32 to float32."""
    return accumulator(sums).astype(np.float32)

"""Decompose Attention and MultiHeadAttention of com.microsoft into MatMul, Softmax and MatMul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import Writer, sum_of
from intact.graph.core.edit import last_size, rank_of
from intact.graph.rewrites.decompose_attention import (
    attention_scores,
    is_among,
    join_heads,
    places_ahead,
    split_heads,
    zero_where,
)

_T = ir.DataType

Inputs = Sequence[ir.Value | None]
"""Inputs of a node, padded with None."""


def self_attention(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose Attention with its projections.

    Return keys and values together, behind those of the past, too.

    Args:
        write: Puts the nodes into a graph.
        node: An Attention.
        inputs: What it reads, padded with None.
    Returns:
        What it makes; None, and no node, where it has no such form.
    """
    x, weight, bias, mask, past, addend, shared = inputs[:7]
    form, matrix = ops.RuntimeAttention.of(node), _array(weight)
    heads = form.num_heads
    if x is None or matrix is None or matrix.ndim != 2 or shared is not None:
        return None
    third = matrix.shape[1] // 3
    sizes = (third, third, third) if form.qkv_hidden_sizes is None else form.qkv_hidden_sizes
    offsets = np.zeros(matrix.shape[1], matrix.dtype) if bias is None else _array(bias)
    if heads < 1 or sum(sizes) != matrix.shape[1] or offsets is None or form.do_rotary:
        return None
    if (attention_mask := _Mask.of(mask, x)) is None:
        return None
    ends = list(np.cumsum(sizes)[:-1])
    projected = [
        write("Add", write("MatMul", x, write.constant(w)), write.constant(b))
        for w, b in zip(np.split(matrix, ends, axis=1), np.split(offsets, ends), strict=True)
    ]
    return _attend_with_past(write, node, projected, sizes[0] // heads, (attention_mask, addend, past))


def quantized_self_attention(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose QAttention, whose projections multiply codes: each is a MatMulInteger with its scales.

    Arguments and results as for `self_attention`.
    """
    x, weight, bias, x_scale, scale, mask, x_zero, zero, past = inputs[:9]
    form, matrix, offsets = ops.RuntimeAttention.of(node), _array(weight), _array(bias)
    if x is None or x_scale is None or matrix is None or matrix.ndim != 2 or offsets is None:
        return None
    outputs = matrix.shape[1]
    parameters = [_array(part) for part in (scale, zero)]
    is_known = parameters[0] is not None and (zero is None or parameters[1] is not None)
    if form.num_heads < 1 or outputs % 3 or offsets.shape != (outputs,) or form.do_rotary or not is_known:
        return None
    if any(part is not None and part.size not in (1, outputs) for part in parameters):
        return None
    if (attention_mask := _Mask.of(mask, x)) is None:
        return None
    thirds = [
        [None] * 3 if part is None else np.split(np.broadcast_to(part.reshape(-1), outputs), 3)
        for part in (*parameters, offsets)
    ]
    projected = []
    for w, s, z, b in zip(np.split(matrix, 3, axis=1), *thirds, strict=True):
        point = None if z is None else write.constant(z, matrix.dtype)
        sums = write("MatMulInteger", x, write.constant(w, w.dtype), x_zero, point, dtype=_T.INT32)
        floats = write("Cast", sums, to=_T.FLOAT.value)
        factor = write("Mul", x_scale, write.constant(s))
        projected.append(write("Add", write("Mul", floats, factor), write.constant(b)))
    size = outputs // 3 // form.num_heads
    return _attend_with_past(write, node, projected, size, (attention_mask, None, past))


def _attend_with_past(
    write: Writer, node: ir.Node, projected: Sequence[ir.Value], size: int,
    masking: tuple[_Mask, ir.Value | None, ir.Value | None],
) -> list[ir.Value]:  # fmt: skip
    """Mix values by queries and keys, [batch, places, size] each; return keys and values together, too."""
    mask, addend, past = masking
    form = ops.RuntimeAttention.of(node)
    q, k, v = (split_heads(write, part, form.num_heads) for part in projected)
    before = None
    if past is not None:
        before, values = (write("Gather", past, write.constant(at, np.int64), axis=0) for at in (0, 1))
        k, v = write("Concat", before, k, axis=2), write("Concat", values, v, axis=2)
    present = write("Concat", *(write("Unsqueeze", part, write.sizes(0)) for part in (k, v)), axis=0)
    return [_attend(write, node, (q, k, v), size, (mask, addend, before)), present]


def multi_head(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose MultiHeadAttention; return the keys and values, too.

    Args:
        write: Puts the nodes into a graph.
        node: A MultiHeadAttention.
        inputs: What it reads, padded with None.
    Returns:
        What it makes; None, and no node, where it has no such form.
    """
    q, k, v, bias, mask, addend, past_keys, past_values, shared, cache = inputs[:10]
    heads, ranks = ops.MultiHeadAttention.of(node).num_heads, [rank_of(operand) for operand in (q, k, v)]
    if q is None or k is None or v is None or ranks[0] != 3 or ranks[1] != ranks[2] or ranks[1] not in (3, 4):
        return None
    size, offsets = last_size(q), _array(bias)
    unknown = bias is not None and (offsets is None or ranks[1] == 4)
    if heads < 1 or size is None or unknown or shared is not None or cache is not None:
        return None
    attention_mask = _Mask.of(mask, q)
    if attention_mask is None or (past_keys is None) != (past_values is None):
        return None
    if offsets is not None:
        ends = [size, 2 * size]
        q, k, v = (
            write("Add", operand, write.constant(part))
            for operand, part in zip((q, k, v), np.split(offsets, ends), strict=True)
        )
    q = split_heads(write, q, heads)
    if ranks[1] == 3:
        k, v = split_heads(write, k, heads), split_heads(write, v, heads)
    if past_keys is not None:
        k, v = write("Concat", past_keys, k, axis=2), write("Concat", past_values, v, axis=2)
    y = _attend(write, node, (q, k, v), size // heads, (attention_mask, addend, past_keys))
    return [y, *(write("Identity", operand) for operand in (k, v))]


@dataclass(frozen=True)
class _Mask:
    """Describes the keys that may be attended to.

    Attributes:
        value: 1 for each that may, [batch, keys] or [batch, queries, keys]; or the ends of samples; None: all
            may.
        samples: Of `value`, where the starts of all samples stand behind their ends; else 0.
    """

    value: ir.Value | None
    samples: int = 0

    @classmethod
    def of(cls, value: ir.Value | None, x: ir.Value) -> _Mask | None:
        """Classify a mask of x.

        None where its meaning is not known: ends alone, with starts or more than that.
        """
        if value is None or rank_of(value) in (2, 3):
            return cls(value)
        if rank_of(value) != 1 or value.shape is None or not x.shape:
            return None
        count, samples = value.shape[0], x.shape[0]
        if isinstance(count, int) and isinstance(samples, int):
            starts_by_count = {samples: 0, 2 * samples: samples}
            return cls(value, starts_by_count[count]) if count in starts_by_count else None
        is_same = isinstance(count, ir.SymbolicDim) and count.value is not None and count == samples
        return cls(value) if is_same else None

    def exclude_keys(self, write: Writer, k: ir.Value) -> ir.Value | None:
        """Write 1 for keys that may not be attended to, else 0, as scores broadcast; None for nothing.

        Args:
            write: Puts the nodes into a graph.
            k: All keys, [batch, heads, places, size].
        """
        if self.value is None:
            return None
        if rank_of(self.value) == 1:
            return write("Cast", write("Not", self._inside(write, k), dtype=_T.BOOL), to=int(write.dtype))
        closed = write("Sub", write.constant(1), write("Cast", self.value, to=int(write.dtype)))
        return write("Unsqueeze", closed, write.sizes(*([1, 2] if rank_of(self.value) == 2 else [1])))

    def _inside(self, write: Writer, k: ir.Value) -> ir.Value:
        places = write("Cast", self.value, to=int(_T.INT64), dtype=_T.INT64)
        rows = write("Unsqueeze", places, write.sizes(1, 2, 3), dtype=_T.INT64)
        if not self.samples:
            return is_among(write, k, rows)
        cuts = ((0, self.samples), (self.samples, 2 * self.samples))
        ends, starts = (
            write("Slice", rows, write.sizes(start), write.sizes(end), write.sizes(0), dtype=_T.INT64)
            for start, end in cuts
        )
        late = write("Not", is_among(write, k, starts), dtype=_T.BOOL)
        return write("And", is_among(write, k, ends), late, dtype=_T.BOOL)


def _attend(
    write: Writer,
    node: ir.Node,
    heads: tuple[ir.Value, ir.Value, ir.Value],
    size: int,
    masking: tuple[_Mask, ir.Value | None, ir.Value | None],
) -> ir.Value:
    """Mix values by the scores of queries and keys.

    Args:
        heads: Queries, keys and values, [batch, heads, places, size].
        size: Of a query.
        masking: Which keys may be attended to, where not to all of them; what is added to scores; old keys.
    """
    (q, k, v), (mask, addend, past) = heads, masking
    form = ops.RuntimeScores.of(node)
    addends = [] if addend is None else [addend]
    if (closed := mask.exclude_keys(write, k)) is not None:
        addends.append(write("Mul", closed, write.constant(form.mask_filter_value)))
    if form.unidirectional:
        behind = write("LessOrEqual", places_ahead(write, q, k, past), write.sizes(0), dtype=_T.BOOL)
        addends.append(zero_where(write, behind))
    scale = form.scale or 1 / sqrt(size)
    _, weights = attention_scores(write, q, k, scale, sum_of(write, *addends) if addends else None)
    return join_heads(write, write.names(write("MatMul", weights, v)))


def _array(value: ir.Value | None) -> NDArray | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()

"""Decompose Attention into two products and a Softmax, for which there are rules and kernels.

torch's exporter writes such a node from opset 23 on, for scaled_dot_product_attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Namer, Writer, is_read, take_place
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene, Stays

_T = ir.DataType
_MASK, _PAST, _LENGTHS = 3, 4, 6  # inputs behind query, key and value
_SCORES, _WEIGHTS = 0, 3  # what `qk_matmul_output` may be; 1 and 2 changed places between versions of ONNX


def _decompose_attention(node: ir.Node, scene: Scene) -> Outcome:
    """Write an Attention of ONNX (opset 23 and newer) as MatMul, Softmax and MatMul.

    Before: ``Attention(q, k, v, mask)``, all of them [batch, heads, places, size].
    After:  ``MatMul(Softmax(MatMul(q, Transpose(k, [0, 1, 3, 2])) * scale + mask), v)``.

    Queries of three axes are cut into heads first, and what comes out is put together again; the past goes
    in front of keys and values; a key that several queries share is repeated; a causal mask, or a window,
    becomes an addend, and so does how many keys each sample has (`nonpad_kv_seqlen`), whose last ones stand
    beside the queries then; rows of which a mask leaves nothing to attend to become 0.

    Guards: sizes and numbers of heads are known; a mask is as long as the keys.
    """
    heads = _Heads.of(node)
    why = "sizes of its heads are not known" if heads is None else _obstacle(node)
    if heads is None or why:
        return Stays(f"Attention stays one node: {why}")
    _open(node, heads, scene.names)
    return "Attention is written as two products and a Softmax"


def attention_scores(
    write: Writer,
    q: ir.Value,
    k: ir.Value,
    scale: float,
    bias: ir.Value | None = None,
    *,
    softcap: float = 0,
    guarded: bool = False,
    sinks: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    """Write ``softmax(q @ k.T * scale + bias)`` along the last axis.

    Args:
        write: Puts the nodes into a graph.
        q, k: [batch, heads, places, size].
        scale: Of the scores.
        bias: To be added to them.
        softcap: The scores s become ``softcap * tanh(s / softcap)`` first; 0: they stay.
        guarded: Rows for which the bias has -inf alone become 0, as the specification wants it; rows with a
            NaN stay NaN.
        sinks: [heads], each one more score of its head, which the softmax counts and no value has.
    Returns:
        The scores without a bias, and the weights.
    """
    product = write("MatMul", q, write("Transpose", k, perm=[0, 1, 3, 2]))
    raw = scores = write("Mul", product, write.constant(scale))
    if softcap > 0:
        cap = write.constant(softcap)
        scores = write("Mul", write("Tanh", write("Div", scores, cap)), cap)
    if bias is not None:
        scores = write("Add", scores, bias)
    if sinks is not None:
        shape = write("Shape", scores, end=3, dtype=_T.INT64)
        sizes = write("Concat", shape, write.sizes(1), axis=0, dtype=_T.INT64)
        column = write("Expand", write("Reshape", sinks, write.sizes(1, -1, 1, 1)), sizes)
        scores = write("Concat", scores, column, axis=-1)
    weights = write("Softmax", scores, axis=-1)
    if sinks is not None:
        weights = write("Slice", weights, write.sizes(0), write.sizes(-1), write.sizes(-1))
    if bias is None or not guarded:
        return raw, weights
    largest = write("ReduceMax", bias, write.sizes(-1), keepdims=1)
    is_masked = write("Equal", largest, write.constant(-inf), dtype=_T.BOOL)
    return raw, write("Where", is_masked, write.constant(0), weights)


def split_heads(write: Writer, x: ir.Value, count: int) -> ir.Value:
    """Split heads: [batch, places, count * size] becomes [batch, count, places, size]."""
    apart = write("Reshape", x, write.sizes(0, 0, count, -1))
    return write("Transpose", apart, perm=[0, 2, 1, 3])


def join_heads(write: Writer, x: ir.Value) -> ir.Value:
    """Join heads: [batch, count, places, size] becomes [batch, places, count * size]."""
    turned = write("Transpose", x, perm=[0, 2, 1, 3])
    return write("Reshape", turned, write.sizes(0, 0, -1))


@dataclass(frozen=True)
class _Heads:
    """Describes how a node splits its inputs into heads.

    Attributes:
        queries, keys: How many heads.
        size: Of a query and a key.
        width: Of a value.
        joined: They come, and go, side by side along the last of three axes.
    """

    queries: int
    keys: int
    size: int
    width: int
    joined: bool

    @classmethod
    def of(cls, node: ir.Node) -> _Heads | None:
        """Return the heads of a node; None where sizes are missing, or do not fit."""
        q, k, v = (_sizes(x) for x in node.inputs[:3])
        if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
            return None
        if len(q) == 4:
            counts = q[1], k[1], q[3], v[3]
        else:
            form = ops.Attention.of(node)
            queries, keys = form.q_num_heads, form.kv_num_heads
            counts = queries, keys, _part(q[2], queries), _part(v[2], keys)
        known_counts = [size for size in counts if size]
        if len(known_counts) < len(counts) or known_counts[0] % known_counts[1]:
            return None
        return cls(known_counts[0], known_counts[1], known_counts[2], known_counts[3], len(q) == 3)


def _part(whole: int | None, count: int) -> int | None:
    return None if whole is None or count <= 0 or whole % count else whole // count


def _sizes(value: ir.Value | None) -> list[int | None]:
    """Return the size along each axis, None where it is not known; [] where the rank is not."""
    shape = None if value is None else value.shape
    return [] if shape is None else [size if isinstance(size, int) else None for size in shape]


def _obstacle(node: ir.Node) -> str:
    """Return why a node cannot be decomposed; "" where it can."""
    q, k, *_ = node.inputs
    assert q is not None and k is not None
    inputs = (*node.inputs, *[None] * 7)
    if q.dtype not in (_T.FLOAT, _T.DOUBLE):
        return "it is not of float32"
    mode = ops.Attention.of(node).qk_matmul_output_mode
    if len(node.outputs) > 3 and mode not in (_SCORES, _WEIGHTS):
        return f"'qk_matmul_output_mode' {mode} is not the same in all versions of ONNX"
    mask = inputs[_MASK]
    if mask is not None and (sizes := _sizes(mask)):
        total = _sizes(k)[-2] if inputs[_PAST] is None else None
        if sizes[-1] != total and (sizes[-1] == 1 or None not in (sizes[-1], total)):
            return "its mask is shorter than the keys"
    return ""


def _open(node: ir.Node, heads: _Heads, names: Namer) -> None:
    q, k, v, mask, *past, lengths = (*node.inputs, *[None] * 4)[: _LENGTHS + 1]
    assert q is not None and k is not None and v is not None and q.dtype is not None
    write = Writer(node, names, q.dtype)
    if heads.joined:
        q, k, v = split_heads(write, q, heads.queries), *(split_heads(write, x, heads.keys) for x in (k, v))
    old_keys, old_values = past
    if old_keys is not None and old_values is not None:
        k, v = write("Concat", old_keys, k, axis=2), write("Concat", old_values, v, axis=2)
    present = k, v
    group = heads.queries // heads.keys
    if group > 1:
        k = repeat_heads(write, k, group, heads.queries, heads.size)
        v = repeat_heads(write, v, group, heads.queries, heads.width)
    bias = _bias(write, node, (q, k), mask, old_keys, lengths)
    form = ops.Attention.of(node)
    scale = 1 / sqrt(heads.size) if form.scale is None else form.scale
    # Causal masks alone leave each query at least one key; a window does not where queries outnumber keys.
    guarded = mask is not None or lengths is not None or form.left_window_size >= 0
    raw, weights = attention_scores(write, q, k, scale, bias, softcap=form.softcap, guarded=guarded)
    y = write.names(write("MatMul", weights, v))
    scores = weights if form.qk_matmul_output_mode == _WEIGHTS else raw
    results = join_heads(write, y) if heads.joined else y, *present, scores
    own = [
        write("Identity", result) if is_read(old) and result in node.inputs else result
        for old, result in zip(node.outputs, results, strict=False)
    ]
    take_place(node, own, names)


def repeat_heads(write: Writer, x: ir.Value, times: int, heads: int, size: int) -> ir.Value:
    """Repeat each head of [batch, keys, places, size] `times` times in a row, `heads` of them."""
    apart = write("Unsqueeze", x, write.sizes(2))
    spread = write("Expand", apart, write.sizes(1, 1, times, 1, 1))
    return write("Reshape", spread, write.sizes(0, heads, -1, size))


def _bias(
    write: Writer,
    node: ir.Node,
    read: tuple[ir.Value, ir.Value],
    mask: ir.Value | None,
    past: ir.Value | None,
    lengths: ir.Value | None,
) -> ir.Value | None:
    """Return the bias of the scores of queries and all keys; None for nothing."""
    addends = []
    if mask is not None and mask.dtype == _T.BOOL:
        addends.append(zero_where(write, mask))
    elif mask is not None:
        addends.append(mask if mask.dtype == write.dtype else write("Cast", mask, to=int(write.dtype)))
    if (allowed := _in_reach(write, node, *read, past, lengths)) is not None:
        addends.append(zero_where(write, allowed))
    return write("Add", *addends) if len(addends) > 1 else addends[0] if addends else None


def zero_where(write: Writer, allowed: ir.Value) -> ir.Value:
    return write("Where", allowed, write.constant(0), write.constant(-inf))


def _in_reach(
    write: Writer,
    node: ir.Node,
    q: ir.Value,
    k: ir.Value,
    past: ir.Value | None,
    lengths: ir.Value | None,
) -> ir.Value | None:
    """Write a mask of the keys that each query may attend to by position, as scores broadcast; None: all."""
    form = ops.Attention.of(node)
    causal, left, right = form.is_causal != 0, form.left_window_size, form.right_window_size
    bounds = [("LessOrEqual", 0)] * causal + [("LessOrEqual", right)] * (right >= 0)
    bounds += [("GreaterOrEqual", -left)] * (left >= 0)
    tests = []
    if lengths is not None:
        lengths = write("Unsqueeze", lengths, write.sizes(1, 2, 3), dtype=_T.INT64)
        tests.append(is_among(write, k, lengths))
    if bounds:
        ahead = places_ahead(write, q, k, past)
        if lengths is not None:  # the last of a sample's keys stand beside its queries
            ahead = write("Add", ahead, size_of(write, q, 2), dtype=_T.INT64)
            ahead = write("Sub", ahead, lengths, dtype=_T.INT64)
        tests += [write(op, ahead, write.sizes(bound), dtype=_T.BOOL) for op, bound in bounds]
    while len(tests) > 1:
        tests = [write("And", tests[0], tests[1], dtype=_T.BOOL), *tests[2:]]
    return tests[0] if tests else None


def is_among(write: Writer, k: ir.Value, ends: ir.Value) -> ir.Value:
    """Write a mask of the keys in front of `ends`, an int64 of a last axis of 1: bool, that axis for the
    keys."""
    return write("Less", count_to(write, size_of(write, k, 2)), ends, dtype=_T.BOOL)


def places_ahead(write: Writer, q: ir.Value, k: ir.Value, past: ir.Value | None) -> ir.Value:
    """Return how far each key is ahead of each query, int64 [queries, keys]; keys of the past come first."""

    def places(x: ir.Value, axis: int) -> ir.Value:
        return write("Unsqueeze", count_to(write, size_of(write, x, 2)), write.sizes(axis), dtype=_T.INT64)

    queries = places(q, 1)
    if past is not None:
        queries = write("Add", queries, size_of(write, past, 2), dtype=_T.INT64)
    return write("Sub", places(k, 0), queries, dtype=_T.INT64)


def size_of(write: Writer, x: ir.Value, axis: int) -> ir.Value:
    """Return how long an axis is, an int64 without axes."""
    shape = write("Shape", x, dtype=_T.INT64)
    return write("Gather", shape, write.constant(axis, np.int64), axis=0, dtype=_T.INT64)


def count_to(write: Writer, end: ir.Value) -> ir.Value:
    """Write the numbers 0, 1, 2, ... in front of `end`, int64."""
    zero, step = (write.constant(number, np.int64) for number in (0, 1))
    return write("Range", zero, end, step, dtype=_T.INT64)


ATTENTION = Rewrite("write out Attention", _decompose_attention, ("Attention",), ensures=Ensures(shapes=True))

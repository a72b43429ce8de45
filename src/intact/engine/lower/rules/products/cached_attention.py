"""Lowers GroupQueryAttention of com.microsoft, and INTact's with narrow caches, to attention over a cache."""

from __future__ import annotations

from math import sqrt

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, who
from intact.engine.lower.rules.elements.rotary import write_rotary
from intact.engine.steps import CachedAttention, Dim, Slice
from intact.graph import Node, Value, cache_limitation, input_of, ops, set_shape


def lower_group_query(builder: PlanBuilder, node: Node) -> None:
    """Lower a GroupQueryAttention: rotate queries and keys, append to the cache, attend.

    The number of all tokens, its input 6, is not read: positions of last tokens say as much.
    """
    if why := cache_limitation(node):
        raise NoMatch(why)
    form = ops.GroupQueryAttention.of(node)
    last = plain(builder, input_of(node, 5))
    q, k, v = _projections(builder, node, form)
    size = _size(builder, q, form.num_heads)
    if form.do_rotary:
        tables = [builder.constant(input_of(node, at), "its angles") for at in (7, 8)]
        cos, sin = (
            builder.hold(f"{node.name}.{name}", np.ascontiguousarray(table, np.float32))
            for name, table in zip(("cosines", "sines"), tables, strict=True)
        )
        q, k = (
            write_rotary(builder, node, x, last.name, (cos, sin), heads, bool(form.rotary_interleaved))
            for x, heads in ((q, form.num_heads), (k, form.kv_num_heads))
        )
    pasts = [_past(builder, input_of(node, at)) for at in (3, 4)]
    shape = (*builder.tensors[q].shape[:2], form.num_heads * size)
    set_shape(node.outputs[0], shape)  # inference does not know the operator
    y = builder.write_plain(node.outputs[0], "float32")
    tokens = builder.tensors[q].shape[1]
    keys, values = (
        _cache(builder, node, at, (shape[0], form.kv_num_heads, _room(builder, past, tokens), size), past)
        for at, past in zip((1, 2), pasts, strict=True)
    )
    step = CachedAttention(
        *who(node), q, k, v, last.name, y, keys, values, form.num_heads, form.kv_num_heads,
        form.scale or 1 / sqrt(size), pasts[0] or "", pasts[1] or "", form.softcap,
        max(form.local_window_size, 0), _sinks(builder, node, form),
    )  # fmt: skip
    builder.add(step, node)


def _sinks(builder: PlanBuilder, node: Node, form: ops.GroupQueryAttention) -> str:
    """Hold the sinks of a node; "" where it has none."""
    if input_of(node, 11) is not None:
        sinks = builder.constant(input_of(node, 11), "what its heads' sinks are").astype(np.float32)
    elif form.smooth_softmax:
        sinks = np.zeros(form.num_heads, np.float32)
    else:
        return ""
    return builder.hold(f"{node.name}.sinks", sinks)


def _projections(builder: PlanBuilder, node: Node, form: ops.GroupQueryAttention) -> list[str]:
    """Return queries, keys and values, apart where they come in one tensor."""
    if input_of(node, 1) is not None:
        return [builder.real(value) for value in node.inputs[:3]]
    x = builder.real(node.inputs[0])
    shape, counts = builder.tensors[x].shape, (form.num_heads, form.kv_num_heads, form.kv_num_heads)
    size = _size(builder, x, sum(counts))
    names, start = [], 0
    for part, count in zip("qkv", counts, strict=True):
        name = builder.scratch(f"{node.name}.{part}", "float32", (*shape[:2], count * size))
        builder.add(Slice(*who(node), x, name, (0, 0, start), (1, 1, 1)))
        names.append(name)
        start += count * size
    return names


def _size(builder: PlanBuilder, x: str, heads: int) -> int:
    """Return the size of a head of x [batch, tokens, heads * size]."""
    shape = builder.tensors[x].shape
    if len(shape) != 3 or not isinstance(shape[2], int) or shape[2] % heads:
        raise NoMatch(f"'{x}' has shape {shape}, not {heads} heads of a known size")
    return shape[2] // heads


def _past(builder: PlanBuilder, value: Value | None) -> str | None:
    return None if value is None else plain(builder, value).name


def _room(builder: PlanBuilder, past: str | None, tokens: Dim) -> Dim:
    return tokens if past is None else builder.tensors[past].shape[2]


def _cache(builder: PlanBuilder, node: Node, at: int, shape: tuple[Dim, ...], past: str | None) -> str:
    """Define a cache that is an output of the node, or one that nobody reads."""
    dtype = "float32"
    if past is not None:
        dtype, shape = builder.tensors[past].dtype, (*shape[:3], builder.tensors[past].shape[3])
    value = node.outputs[at] if at < len(node.outputs) else None
    if value is not None and value.name:
        return builder.write_plain(value, dtype)
    return builder.scratch(f"{node.name}.{'keys' if at == 1 else 'values'}", dtype, shape)

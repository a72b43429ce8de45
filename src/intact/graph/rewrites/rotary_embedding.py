"""Decompose RotaryEmbedding into Slice, Mul and Add."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Writer, take_place
from intact.graph.core.edit import last_size, rank_of
from intact.graph.rewrites.decompose_attention import count_to, size_of
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene

_T = ir.DataType


@dataclass(frozen=True)
class Angles:
    """By how much pairs of elements are turned.

    Attributes:
        cos, sin: [batch or 1, 1, places, pairs].
        pairs: How many, from the first element on; the others stay as they are.
        side_by_side: A pair is two neighbours; else the second elements are all behind the first.
    """

    cos: ir.Value
    sin: ir.Value
    pairs: int
    side_by_side: bool


def _decompose_rotary(node: ir.Node, scene: Scene) -> Outcome:
    """Write a RotaryEmbedding of ONNX (opset 23 and newer) in other operators.

    Guards: the sizes of its heads and angles are known.
    """
    x, cos, sin, places = (*node.inputs, None)[:4]
    dtype = x.dtype if x is not None and x.dtype is not None else _T.FLOAT
    write = Writer(node, scene.names, dtype)
    y = rotate(write, node, x, cos, sin, places) if dtype in (_T.FLOAT, _T.DOUBLE) else None
    if y is None:
        return None
    take_place(node, [y], scene.names)
    return "RotaryEmbedding is written as products and sums"


def rotate(
    write: Writer,
    node: ir.Node,
    x: ir.Value | None,
    cos: ir.Value | None,
    sin: ir.Value | None,
    places: ir.Value | None,
) -> ir.Value | None:
    """Decompose a RotaryEmbedding of x; None, and no node, where sizes are missing.

    Args:
        write: Puts the nodes into a graph.
        node: Says heads and sizes.
        x: [batch, heads, places, size], or [batch, places, heads * size].
        cos, sin: [all places, pairs], or, without `places`, [batch, places, pairs].
        places: Of each row, int64 [batch, places]; [1]: of the first one, from which they count on.
    """
    if x is None or cos is None or sin is None:
        return None
    rank, pairs, wide = rank_of(x), last_size(cos), last_size(x)
    form = ops.RotaryEmbedding.of(node)
    heads, part = form.num_heads, form.rotary_embedding_dim
    if not pairs or wide is None or rank not in (3, 4) or (part and part != 2 * pairs):
        return None
    if rank == 3:
        heads = heads or wide // (2 * pairs)
        if heads < 1 or wide % heads:
            return None
        wide //= heads
    if wide < 2 * pairs or rank_of(cos) != (3 if places is None else 2):
        return None
    if places is not None and rank_of(places) not in (1, 2):
        return None
    if places is not None and rank_of(places) == 1:
        counted = write("Add", places, count_to(write, size_of(write, x, rank - 2)), dtype=_T.INT64)
        places = write("Unsqueeze", counted, write.sizes(0), dtype=_T.INT64)
    apart = x
    if rank == 3:  # [batch, places, heads, size]: the angles have their 1 behind the places
        apart = write("Reshape", x, write.sizes(0, 0, heads, wide))
    side_by_side = bool(form.interleaved)
    angles = angles_at(write, cos, sin, places, pairs, side_by_side, axis=5 - rank)
    y = rotate_pairs(write, apart, angles, wide)
    return write("Reshape", y, write.sizes(0, 0, -1)) if rank == 3 else y


def angles_at(
    write: Writer,
    cos: ir.Value,
    sin: ir.Value,
    places: ir.Value | None,
    pairs: int,
    side_by_side: bool,
    axis: int = 1,
) -> Angles:
    """Return the angles of places; `axis`: where they get the axis of the heads."""
    cos_and_sin = [
        write("Unsqueeze", x if places is None else write("Gather", x, places, axis=0), write.sizes(axis))
        for x in (cos, sin)
    ]
    return Angles(cos_and_sin[0], cos_and_sin[1], pairs, side_by_side)


def rotate_pairs(write: Writer, x: ir.Value, angles: Angles, size: int) -> ir.Value:
    """Rotate pairs (a, b) of the last axis: ``(a * cos - b * sin, a * sin + b * cos)``.

    Args:
        write: Puts the nodes into a graph.
        x: Of four axes; the last one has `size` elements, an even number of which, the first, are turned.
        angles: That fit x.
        size: Of a head.
    """
    turns = 2 * angles.pairs
    if angles.side_by_side:
        a, b = _slice_last_axis(write, x, 0, turns, 2), _slice_last_axis(write, x, 1, turns, 2)
    else:
        a, b = _slice_last_axis(write, x, 0, angles.pairs), _slice_last_axis(write, x, angles.pairs, turns)
    first = write("Sub", write("Mul", a, angles.cos), write("Mul", b, angles.sin))
    second = write("Add", write("Mul", a, angles.sin), write("Mul", b, angles.cos))
    rest = [_slice_last_axis(write, x, turns, size)] if size > turns else []
    if not angles.side_by_side:
        return write("Concat", first, second, *rest, axis=-1)
    apart = [write("Unsqueeze", element, write.sizes(-1)) for element in (first, second)]
    y = write("Reshape", write("Concat", *apart, axis=-1), write.sizes(0, 0, 0, turns))
    return write("Concat", y, *rest, axis=-1) if rest else y


def _slice_last_axis(write: Writer, x: ir.Value, start: int, end: int, step: int = 1) -> ir.Value:
    """Slice the last axis."""
    return write("Slice", x, *map(write.sizes, (start, end, -1, step)))


ROTARY = Rewrite(
    "write out RotaryEmbedding", _decompose_rotary, ("RotaryEmbedding",), ensures=Ensures(shapes=True)
)

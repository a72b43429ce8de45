"""Decompose GroupQueryAttention of com.microsoft, as builders of models write it, and narrow its caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import sqrt

import numpy as np
import onnx_ir as ir

from intact.errors import QuantValueError
from intact.graph import ops
from intact.graph.core.build import Writer
from intact.graph.core.edit import input_of, last_size, rank_of, set_shape
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.contrib_attention import Inputs
from intact.graph.rewrites.decompose_attention import (
    attention_scores,
    count_to,
    join_heads,
    repeat_heads,
    size_of,
    split_heads,
    zero_where,
)
from intact.graph.rewrites.rotary_embedding import angles_at, rotate_pairs
from intact.numerics import CACHE_DTYPES, SCALE_BYTES
from intact.processes import cached_property

_T = ir.DataType
_INPUTS = 12  # the further ones are scales of caches, norms and padded chunks


def cache_limitation(node: ir.Node) -> str:
    """Say why the engine has no step for a GroupQueryAttention; "" where it has one.

    Its caches grow to sizes that the inputs' sizes tell, or stay as long as they are.
    """
    form = ops.GroupQueryAttention.of(node)
    inputs = (*node.inputs, *[None] * (_GROUP_QUERY_INPUTS - len(node.inputs)))
    _, k, v, past_keys, past_values, last, _, cosines, sines, positions, bias, sinks, *further_inputs = inputs
    floats = [x.dtype for x in (*inputs[:3], cosines, sines, sinks) if x is not None]
    if any(dtype not in (None, _T.FLOAT) for dtype in floats):
        return "it computes in another type than float32"
    caches = {x.dtype for x in (past_keys, past_values) if x is not None} - {None}
    if len(caches) > 1 or not caches <= _CACHE_TYPES[node.domain]:
        return "it has caches of a type that its operator does not have"
    if not form.is_plain or bias is not None or any(further_inputs):
        return "it has a bias, or a cache of codes or of a window"
    if sinks is not None and not _is_stored(sinks):
        return "its sinks are computed"
    if min(form.num_heads, form.kv_num_heads) < 1 or form.num_heads % form.kv_num_heads or last is None:
        return "its heads or lengths are not those of its operator"
    if (k is None) != (v is None) or (past_keys is None) != (past_values is None):
        return "it has keys without values"
    if form.do_rotary and (positions is not None or not all(map(_is_stored, (cosines, sines)))):
        return "it rotates by positions of an input, or by angles that are computed"
    if any(not _has_known_room(node, at) for at in (1, 2)):
        return "how long its caches become is computed"
    return ""


_GROUP_QUERY_INPUTS = 24
_NARROW_TYPES = {"float16": _T.FLOAT16, "int8": _T.INT8}
_CACHE_TYPES = {
    ops.MICROSOFT: {_T.FLOAT},
    ops.NarrowGroupQueryAttention.domain: {*_NARROW_TYPES.values()},
}


def _is_stored(value: ir.Value | None) -> bool:
    return value is not None and value.const_value is not None


def _has_known_room(node: ir.Node, at: int) -> bool:
    """Return whether sizes of the graph's inputs say how long the cache is that output `at` becomes."""
    past = input_of(node, at + 2)
    if past is None:
        return True
    new_shape = node.outputs[at].shape if at < len(node.outputs) else past.shape
    if new_shape is None or len(new_shape) != 4 or node.graph is None:
        return False
    shapes = [value.shape for value in node.graph.inputs if value.shape is not None]
    return isinstance(new_shape[2], int) or (
        new_shape[2].value is not None and any(new_shape[2] == dim for shape in shapes for dim in shape)
    )


_PASTS, _PRESENTS = (3, 4), (1, 2)


def narrow_caches(model: ir.Model, dtype: str) -> None:
    """Let the caches of a decoder hold numbers of another type, in place (N72).

    Args:
        model: A decoder whose GroupQueryAttention nodes have float32 caches.
        dtype: "float32", as they are; "float16"; or "int8".
    Raises:
        QuantValueError: It is another one.
    """
    if dtype not in CACHE_DTYPES:
        raise QuantValueError(
            "cache", f"{dtype!r:.40}", " or ".join(CACHE_DTYPES), "choose how keys and values are kept"
        )
    if dtype == "float32":
        return
    for node in model.graph:
        if not is_op(node, "GroupQueryAttention", domain=ops.MICROSOFT):
            continue
        node.domain = ops.NarrowGroupQueryAttention.domain
        caches = [node.inputs[at] for at in _PASTS] + [node.outputs[at] for at in _PRESENTS]
        for cache in caches:
            if cache is not None:
                _retype(cache, dtype)
    model.opset_imports[ops.NarrowGroupQueryAttention.domain] = 1


def _retype(cache: ir.Value, dtype: str) -> None:
    cache.dtype = _NARROW_TYPES[dtype]
    if dtype != "int8" or cache.shape is None:
        return
    axes = [axis if isinstance(axis, int) else axis.value for axis in cache.shape]
    if isinstance(axes[-1], int):
        set_shape(cache, [*axes[:-1], axes[-1] + SCALE_BYTES])


def group_query(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose GroupQueryAttention: the newest places attend to all; return the keys and values, too.

    A row b of the batch has ``seqlens_k[b] + 1`` places, the last of which are new. The new keys stand behind
    those places of the past that the row has, not behind the last of the buffer: so rows of different lengths
    share one, and a buffer may be longer than what it holds. What stands behind a row's places is open.

    Args:
        write: Puts the nodes into a graph.
        node: A GroupQueryAttention.
        inputs: What it reads, padded with None.
    Returns:
        What it makes, keys and values; None, and no node, where there is no exact form: quantized caches,
        norms, chunks with padding, windows as caches, and sizes that are not known.
    """
    form = _Form.of(node, inputs)
    q, _, _, old_keys, old_values, lengths, total, cos, sin, ids, addend, sinks = inputs[:_INPUTS]
    if form is None or q is None or lengths is None or total is None:
        return None
    steps = _Steps(write, q, lengths, total, old_keys)
    q, k, v = form.heads(write, inputs)
    if cos is not None and sin is not None and form.pairs:
        at = steps.at if ids is None else steps.positions_from_input(ids)
        angles = angles_at(write, cos, sin, at, form.pairs, form.side_by_side)
        q, k = (rotate_pairs(write, x, angles, form.size) for x in (q, k))
    keys, values = (steps.behind(old, x, form) for old, x in ((old_keys, k), (old_values, v)))
    bias = zero_where(write, steps.in_reach(form.window))
    if addend is not None:
        bias = write("Add", addend, bias)
    read = [steps.used_part(x) for x in (keys, values)]
    if form.queries > form.keys:
        group = form.queries // form.keys
        read = [repeat_heads(write, x, group, form.queries, form.size) for x in read]
    if sinks is None and form.has_sinks:
        sinks = write.constant(np.zeros(form.queries))
    _, weights = attention_scores(write, q, read[0], form.scale, bias, softcap=form.softcap, sinks=sinks)
    return [join_heads(write, write.names(write("MatMul", weights, read[1]))), keys, values]


@dataclass(frozen=True)
class _Form:
    """Attributes and inputs of one GroupQueryAttention node.

    Attributes:
        queries, keys: How many heads.
        size: Of a query, a key and a value.
        packed: Keys and values stand behind the queries in one tensor.
        pairs: Elements of a query and a key that are turned, by twos; 0: none are.
        side_by_side: See `Angles`.
        window: So many places, up to its own, each query attends to; 0: to all of them.
        scale, softcap: See `attention_scores`.
        has_sinks: Each head has one, of 0 where no input says what they are.
    """

    queries: int
    keys: int
    size: int
    packed: bool
    pairs: int
    side_by_side: bool
    window: int
    scale: float
    softcap: float
    has_sinks: bool

    @classmethod
    def of(cls, node: ir.Node, inputs: Inputs) -> _Form | None:
        """Read the form of a node; None where it, or a size, is not known."""
        q, k, v, old_keys, old_values, _, _, cos, sin, _, _, sinks, *_ = inputs
        form = ops.GroupQueryAttention.of(node)
        queries, keys = form.num_heads, form.kv_num_heads
        turns, packed, wide = form.do_rotary, k is None, last_size(q)
        floats = [x.dtype for x in (q, old_keys, cos, sinks) if x is not None and x.dtype]
        if any(inputs[_INPUTS:]) or not form.is_plain or any(kind != _float_type(q) for kind in floats):
            return None
        if rank_of(q) != 3 or keys < 1 or queries < 1 or queries % keys or packed != (v is None):
            return None
        if (old_keys is None) != (old_values is None) or (turns and (cos is None or sin is None)):
            return None
        heads = queries + 2 * keys if packed else queries
        size = wide // heads if wide is not None and wide % heads == 0 else last_size(old_keys)
        pairs = (last_size(cos) or 0) if turns else 0
        if size is None or (turns and not 0 < 2 * pairs <= size):
            return None
        return cls(
            queries, keys, size, packed, pairs, bool(form.rotary_interleaved),
            max(form.local_window_size, 0),
            form.scale or 1 / sqrt(size), form.softcap, bool(form.smooth_softmax),
        )  # fmt: skip

    def heads(self, write: Writer, inputs: Inputs) -> list[ir.Value]:
        """Return queries, keys and values, [batch, heads, places, size]."""
        counts = [self.queries, self.keys, self.keys]
        projections = [x for x in inputs[:3] if x is not None]
        if self.packed:
            ends = [sum(counts[:at]) * self.size for at in range(4)]
            projections = [
                write("Slice", projections[0], write.sizes(start), write.sizes(end), write.sizes(2))
                for start, end in pairwise(ends)
            ]
        return [split_heads(write, x, count) for x, count in zip(projections, counts, strict=True)]


def _float_type(x: ir.Value | None) -> ir.DataType:
    return _T.DOUBLE if x is not None and x.dtype == _T.DOUBLE else _T.FLOAT


class _Steps:
    """Computes which positions of each row are new, and where their keys go; all of it int64.

    Args:
        write: Puts the nodes into a graph.
        q: [batch, new, ...].
        lengths: Places of each row without its last, one for each row.
        total: The most places of a row, one number.
        past: Keys [batch, heads, room, size]; None: all places are new.
    """

    def __init__(
        self, write: Writer, q: ir.Value, lengths: ir.Value, total: ir.Value, past: ir.Value | None
    ) -> None:
        self._write, self._q, self._past = write, q, past
        self._ints: Callable[..., ir.Value] = partial(write, dtype=_T.INT64)
        self._lengths, self._total = lengths, total
        self._rows: ir.Value | None = None

    # -- numbers

    @cached_property
    def _new(self) -> ir.Value:
        return size_of(self._write, self._q, 1)

    @cached_property
    def _most(self) -> ir.Value:
        total = self._ints("Cast", self._total, to=int(_T.INT64))
        return self._ints("Reshape", total, self._write.sizes(1))

    @cached_property
    def _room(self) -> ir.Value:
        assert self._past is not None
        return size_of(self._write, self._past, 2)

    @cached_property
    def _before(self) -> ir.Value:
        """Places of the past that each row has, [batch, 1]; a prompt, which may end in padding, has none."""
        rows = self._ints("Cast", self._lengths, to=int(_T.INT64))
        rows = self._ints("Reshape", rows, self._write.sizes(-1, 1))
        behind = self._ints("Sub", self._ints("Add", rows, self._write.sizes(1)), self._new)
        return self._ints("Max", behind, self._write.sizes(0))

    @cached_property
    def at(self) -> ir.Value:
        """The place of each new one in its row, [batch, new]."""
        return self._ints("Add", self._before, count_to(self._write, self._new))

    def positions_from_input(self, ids: ir.Value) -> ir.Value:
        """Return positions from an input: of a prompt the kernels read the first one alone, and count on."""
        if ids.dtype != _T.INT64:
            ids = self._ints("Cast", ids, to=int(_T.INT64))
        flat = self._ints("Reshape", ids, self._write.sizes(-1))
        first = self._ints("Slice", flat, *map(self._write.sizes, (0, 1)))
        counted = self._ints("Add", first, count_to(self._write, self._new))
        prompt = self._write("Equal", self._most, self._new, dtype=_T.BOOL)
        return self._ints("Where", prompt, counted, ids)

    # -- keys and values

    def behind(self, old: ir.Value | None, new: ir.Value, form: _Form) -> ir.Value:
        """Return all rows of a buffer [batch, heads, as long as it must be, size], each one's new ones in
        place."""
        if old is None:
            return new
        rows = self._write(
            "Reshape", self._write("Concat", old, new, axis=2), self._write.sizes(-1, form.size)
        )
        return self._write("Gather", rows, self._buffer_rows(form.keys), axis=0)

    @cached_property
    def _ends(self) -> ir.Value:
        """Return the length of the new buffers: the longest row, and at least the old length; no axes."""
        most = self._ints("Max", self._most, self._room)
        return self._ints("Squeeze", most, self._write.sizes(0))

    def _buffer_rows(self, heads: int) -> ir.Value:
        """Return the row of past and new ones, one sample and head after the other, for each place of a
        buffer."""
        if self._rows is None:
            fresh = self._ints("Sub", count_to(self._write, self._ends), self._before)
            last = self._ints("Sub", self._new, self._write.sizes(1))
            added = self._ints("Add", self._ints("Min", fresh, last), self._room)
            is_old = self._write("Less", fresh, self._write.sizes(0), dtype=_T.BOOL)
            own = self._ints("Where", is_old, count_to(self._write, self._ends), added)
            count = self._ints("Mul", size_of(self._write, self._q, 0), self._write.constant(heads, "int64"))
            each = self._ints("Add", self._room, self._new)
            begins = self._ints("Mul", count_to(self._write, count), each)
            begins = self._ints("Reshape", begins, self._write.sizes(-1, heads, 1))
            self._rows = self._ints("Add", begins, self._ints("Unsqueeze", own, self._write.sizes(1)))
        return self._rows

    def used_part(self, x: ir.Value) -> ir.Value:
        """Slice a buffer to the length of the longest row."""
        if self._past is None:
            return x
        return self._write("Slice", x, self._write.sizes(0), self._most, self._write.sizes(2))

    def in_reach(self, window: int) -> ir.Value:
        """Return which places each new one may attend to, bool [batch, 1, new, the most places of a row]."""
        most = self._new if self._past is None else self._ints("Squeeze", self._most, self._write.sizes(0))
        own = self._ints("Unsqueeze", self.at, self._write.sizes(1, 3))
        ahead = self._ints("Sub", count_to(self._write, most), own)
        allowed = self._write("LessOrEqual", ahead, self._write.sizes(0), dtype=_T.BOOL)
        if window:
            near = self._write("Greater", ahead, self._write.sizes(-window), dtype=_T.BOOL)
            allowed = self._write("And", allowed, near, dtype=_T.BOOL)
        return allowed

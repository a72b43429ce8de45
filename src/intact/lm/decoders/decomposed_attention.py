"""Attention that a file writes as MatMul, Softmax and MatMul: its queries, keys, values and masks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from intact.errors import UnsupportedError
from intact.graph import Graph, Node, Value, is_op, ops
from intact.lm.decoders.position_values import FIX, PositionValues

_CASTS = ("Cast", "Identity", "Dropout")
_MOVES = ops.MOVING | {"Cast"}
_SCORES = (*_CASTS, "Add", "Sub", "Mul", "Div", "Where", "Tanh")
_FAR = 256
"""Values that are looked at on the way to the projection of queries."""


@dataclass(frozen=True)
class Mask:
    """An operator on scores that says which of them count.

    Attributes:
        value: What is added to scores, or the condition of a Where.
        kind: "added", "kept" where the condition holds, or "dropped" where it holds.
    """

    value: Value
    kind: str


@dataclass(frozen=True)
class DecomposedAttention:
    """One layer's attention.

    Attributes:
        softmax, product: Its nodes; the second multiplies by the values.
        q: [batch, heads, tokens, size], without what scales it.
        keys, values: [batch, kv heads, past + tokens, size], before they are repeated for groups.
        new_keys, new_values: Those of the new tokens.
        past_keys, past_values: Inputs of the graph; None where there is no cache.
        masks: Of the scores.
        heads, kv_heads: How many.
        size, value_size: Of a query and key, and of a value.
    """

    softmax: Node
    product: Node
    q: Value
    keys: Value
    values: Value
    new_keys: Value
    new_values: Value
    past_keys: Value | None
    past_values: Value | None
    masks: tuple[Mask, ...]
    heads: int
    kv_heads: int
    size: int
    value_size: int

    @property
    def name(self) -> str:
        """Name of its Softmax, for errors."""
        return self.softmax.name or ""


def find_attentions(
    graph: Graph, positions: PositionValues, pasts: Sequence[Value], heads: int, where: str
) -> list[DecomposedAttention]:
    """Find the attention of each layer, in the order of the graph.

    Args:
        graph: Of a decoder.
        positions: Tells which values follow from positions and masks.
        pasts: Inputs with keys and values; none: the file keeps no cache.
        heads: How many heads queries have; 0: what their shapes tell.
        where: The file, for errors.
    Raises:
        UnsupportedError: A Softmax is no attention that is known; names the node.
    """
    finder, caches, attentions = _Finder(positions, tuple(pasts), heads, where), set[Value](), []
    for node in graph:
        if not is_op(node, "Softmax") or not node.outputs[0].uses():
            continue
        attention = finder.attention_of(node)
        pasts_of_layer = {attention.past_keys, attention.past_values} - {None}
        if len(pasts_of_layer) == 1 or not caches.isdisjoint(pasts_of_layer):
            raise finder.refuse("a cache that another attention has, too", "keys and values of its own")
        caches.update(value for value in pasts_of_layer if value is not None)
        attentions.append(attention)
    return attentions


class _Finder:
    """Reads attention back from its Softmax."""

    def __init__(self, positions: PositionValues, pasts: tuple[Value, ...], heads: int, where: str) -> None:
        self._positions, self._pasts, self._heads, self._where = positions, pasts, heads, where

    def attention_of(self, softmax: Node) -> DecomposedAttention:
        self._node = softmax
        product = self._product_behind(softmax)
        scores, masks = self._product_before(softmax)
        q = self._without_scale(scores.inputs[0])
        keys, new_keys, past_keys = self._source(scores.inputs[1])
        values, new_values, past_values = self._source(product.inputs[1])
        sizes = [
            self._head_sizes(new, past) for new, past in ((new_keys, past_keys), (new_values, past_values))
        ]
        (kv_heads, size), (_, value_size) = sizes
        heads = self._heads or self._columns(q) // size
        self._declare_groups(scores.inputs[1], keys, heads, size)
        self._declare_groups(product.inputs[1], values, heads, value_size)
        for value, count, length, columns in (
            (q, heads, "tokens", size), (keys, kv_heads, "total", size),
            (values, kv_heads, "total", value_size), (new_keys, kv_heads, "tokens", size),
            (new_values, kv_heads, "tokens", value_size),
        ):  # fmt: skip
            self._positions.declare(value, ("batch", count, length, columns))
        if sizes[0][0] != sizes[1][0] or heads < 1 or heads % kv_heads:
            raise self.refuse(
                f"{heads} heads of queries for {sizes} of keys and values", "groups of one size"
            )
        return DecomposedAttention(
            softmax, product, q, keys, values, new_keys, new_values, past_keys, past_values, masks, heads,
            kv_heads, size, value_size,
        )  # fmt: skip

    def refuse(self, got: str, want: str) -> UnsupportedError:
        return UnsupportedError(f"{self._where}: node '{self._node.name}' (Softmax)", got, want, FIX)

    def _product_behind(self, softmax: Node) -> Node:
        """Return the MatMul of probabilities and values, behind casts and guards against NaN."""
        waiting = deque([softmax.outputs[0]])
        while waiting:
            for use in waiting.popleft().uses():
                if is_op(use.node, "MatMul") and use.idx == 0:
                    return use.node
                if is_op(use.node, *_CASTS) or (is_op(use.node, "Where") and use.idx > 0):
                    waiting.append(use.node.outputs[0])
        raise self.refuse("no MatMul behind it", "probabilities that are multiplied by values")

    def _product_before(self, softmax: Node) -> tuple[Node, tuple[Mask, ...]]:
        """Return the MatMul of queries and keys, and the masks on the way from it to the Softmax."""
        value, masks = softmax.inputs[0], list[Mask]()
        while True:
            node = None if value is None else value.producer()
            if node is None:
                raise self.refuse("scores that no node makes", "a MatMul of queries and keys")
            if is_op(node, "MatMul"):
                return node, tuple(masks)
            data = [i for i, x in enumerate(node.inputs) if x is not None and x not in self._positions]
            if not is_op(node, *_SCORES) or len(data) != 1:
                got = f"node '{node.name}' ({node.op_type}) in front of it"
                raise self.refuse(got, "a MatMul of queries and keys, with scales, caps and masks")
            masks += self._masks_of(node, data[0])
            value = node.inputs[data[0]]

    def _masks_of(self, node: Node, data: int) -> list[Mask]:
        if is_op(node, "Where"):
            condition = node.inputs[0]
            if condition is None or data == 0:
                raise self.refuse(f"node '{node.name}' (Where) that asks for scores", "a mask")
            return [Mask(condition, "kept" if data == 1 else "dropped")]
        if is_op(node, "Add"):
            addend = node.inputs[1 - data]
            assert addend is not None
            return [Mask(addend, "added")]
        return []

    def _without_scale(self, value: Value | None) -> Value:
        """Return a value without casts and products with single numbers."""
        while value is not None and (node := value.producer()) is not None:
            if is_op(node, *_CASTS):
                value = node.inputs[0]
            elif (source := self._source_of_scale(node)) is not None:
                value = source
            else:
                break
        if value is None:
            raise self.refuse("a MatMul without inputs", "queries and keys")
        return value

    def _source_of_scale(self, node: Node) -> Value | None:
        """Return what a Mul or Div scales by a single number."""
        if not is_op(node, "Mul", "Div"):
            return None
        x, y = node.inputs
        for data, number in ((x, y), (y, x))[: 1 if node.op_type == "Div" else 2]:
            if data not in self._positions and self._positions.count(number) == 1:
                return data
        return None

    def _source(self, value: Value | None) -> tuple[Value, Value, Value | None]:
        """Return all keys or values, those of new tokens, and those of the past."""
        if not self._pasts:
            source = self._without_groups(value)
            return source, source, None
        while value is not None and (node := value.producer()) is not None:
            if is_op(node, "Concat") and (past := self._past_of(node.inputs[0])) is not None:
                return self._split_cache(node, past)
            if is_op(node, *_MOVES):
                value = node.inputs[0]
            elif (scaled := self._source_of_scale(node)) is not None:
                value = scaled
            else:
                got = f"node '{node.name}' ({node.op_type})"
                raise self.refuse(f"{got} between the cache and it", "a cache that is joined with new tokens")
        raise self.refuse("keys or values that no cache holds", "a cache that is joined with new tokens")

    def _past_of(self, value: Value | None) -> Value | None:
        """Return the cache that a value is; one of float16, or joined with an empty constant, too."""
        node = None if value is None else value.producer()
        if node is not None and is_op(node, "Cast"):
            value = node.inputs[0]
        if value is None or value in self._pasts:
            return value
        if node is None or not is_op(node, "Concat"):
            return None
        data = [x for x in node.inputs if x not in self._positions]
        rest = [x for x in node.inputs if x in self._positions]
        if len(data) == 1 and data[0] in self._pasts and all(self._positions.count(x) == 0 for x in rest):
            return data[0]
        return None

    def _split_cache(self, concat: Node, past: Value) -> tuple[Value, Value, Value]:
        _, *new = concat.inputs
        if len(new) != 1 or new[0] is None or ops.Concat.of(concat).axis not in (2, -2):
            got = f"node '{concat.name}' (Concat)"
            raise self.refuse(got, "a past [batch, heads, tokens, size] and new tokens on axis 2")
        return concat.outputs[0], new[0], past

    def _without_groups(self, value: Value | None) -> Value:
        """Return keys or values before they are transposed for the product, and repeated for groups."""
        whole = self._without_scale(value)
        node = whole.producer()
        if node is not None and is_op(node, "Transpose") and ops.Transpose.of(node).perm == (0, 1, 3, 2):
            whole = self._without_scale(node.inputs[0])
        repeated = _behind(_behind(whole, "Reshape"), "Expand")
        return _behind(repeated, "Unsqueeze") or whole

    def _declare_groups(self, value: Value | None, source: Value, heads: int, size: int) -> None:
        """State the sizes of keys or values that are repeated for groups."""
        while value is not None and value is not source and (node := value.producer()) is not None:
            if is_op(node, "Reshape"):
                self._positions.declare(value, ("batch", heads, "total", size))
                return
            value = self._source_of_scale(node) or node.inputs[0]

    def _head_sizes(self, new: Value, past: Value | None) -> tuple[int, int]:
        """Return the number of heads of keys or values, and their size."""
        for value in (past, new):
            if value is not None and value.shape is not None and len(value.shape) == 4:
                heads, size = value.shape[1], value.shape[3]
                if isinstance(heads, int) and isinstance(size, int) and heads > 0 and size > 0:
                    return heads, size
        last = None if new.shape is None or len(new.shape) != 4 else new.shape[3]
        if not isinstance(last, int) or last < 1:
            raise self.refuse(
                f"'{new.name}' of shape {new.shape}", "[batch, heads, tokens, size] of known size"
            )
        return max(self._columns(new) // last, 1), last

    def _columns(self, value: Value) -> int:
        """Return the last size of the tensor [batch, tokens, columns] that a value is laid out from."""
        waiting, seen = deque([value]), set[Value]()
        while waiting and len(seen) < _FAR:
            x = waiting.popleft()
            if x in seen or x in self._positions:
                continue
            seen.add(x)
            shape = () if x.shape is None else tuple(x.shape)
            numbers = {4: shape[1::2], 3: shape[2:]}.get(len(shape), ())
            sizes = [size for size in numbers if isinstance(size, int)]
            if numbers and len(sizes) == len(numbers):
                return prod(sizes)
            node = x.producer()
            waiting += [] if node is None else [source for source in node.inputs if source is not None]
        raise self.refuse(f"'{value.name}', of which nobody tells how many heads it has", "known sizes")


def _behind(value: Value | None, op_type: str) -> Value | None:
    """Return what an operator of ONNX makes `value` of; None where another one does."""
    node = None if value is None else value.producer()
    return node.inputs[0] if node is not None and is_op(node, op_type) else None

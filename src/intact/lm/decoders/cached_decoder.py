"""Rewrites decoders whose attention is decomposed: GroupQueryAttention over caches takes its place.

Files of `optimum` and of torch's exporters write attention, masks, rotation and caches in plain operators. What
stays of positions, such as vectors of learned ones, is computed from the position of the last token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from intact.errors import UnsupportedError
from intact.graph import (
    DataType,
    Inserter,
    Model,
    Namer,
    Node,
    Value,
    hand_over,
    is_op,
    only_reader,
    ops,
    prune,
    set_shape,
)
from intact.lm.decoders.attention_form import AttentionForm, read_forms
from intact.lm.decoders.decomposed_attention import DecomposedAttention, find_attentions
from intact.lm.decoders.position_values import FIX, Lengths, PositionValues
from intact.lm.decoders.rotations import Rotation, RotationFinder

_HEADS_LAST = (0, 2, 1, 3)


@dataclass(frozen=True)
class DecoderPorts:
    """Inputs and outputs of a decoder with decomposed attention.

    Attributes:
        tokens: Input [batch, tokens].
        mask: Input [batch, past + tokens]; None for none.
        positions: Input [batch, tokens] or [tokens]; None for none.
        pasts: Inputs with keys and values [batch, heads, past, size].
        logits: Output [batch, tokens, vocabulary].
    """

    tokens: Value
    mask: Value | None
    positions: Value | None
    pasts: tuple[Value, ...]
    logits: Value


def write_caches(model: Model, ports: DecoderPorts, most: int, where: str) -> None:
    """Write attention as GroupQueryAttention with inputs ``last``, ``total``, ``keys.i`` and ``values.i``, in place.

    Args:
        model: A decoder.
        ports: Its inputs and outputs.
        most: The longest sequence.
        where: The file, for errors.
    Raises:
        UnsupportedError: Something attends, masks or rotates in a form that is not known; names the node.
    """
    _Writer(model, ports, most, where).write()


class _Writer:
    """Rewrites one graph."""

    def __init__(self, model: Model, ports: DecoderPorts, most: int, where: str) -> None:
        self._model, self._graph, self._ports, self._where = model, model.graph, ports, where
        self._most = most
        self._positions = PositionValues(
            model, where, tokens=ports.tokens, mask=ports.mask, positions=ports.positions, pasts=ports.pasts
        )
        self._rotations = RotationFinder(model.graph, self._positions, most)
        self._namer = Namer(model.graph)
        self._tables: list[tuple[Rotation, tuple[Value, Value]]] = []

    def write(self) -> None:
        attentions = find_attentions(self._graph, self._positions, self._ports.pasts, self._where)
        if not attentions:
            raise UnsupportedError(self._where, "no attention", "a decoder with a Softmax in each layer", FIX)
        for attention in attentions:
            for value, heads, size in (
                (attention.keys, attention.kv_heads, attention.size),
                (attention.values, attention.kv_heads, attention.value_size),
            ):
                self._positions.declare(value, ("batch", heads, "total", size))
        forms = read_forms(attentions, self._positions, self._most, self._where)
        rotations = [self._rotation(attention) for attention in attentions]
        self._last = self._input("last", ["batch"])
        self._total = self._input("total", [])
        outputs = []
        for layer, parts in enumerate(zip(attentions, forms, rotations, strict=True)):
            outputs += self._write_layer(layer, *parts)
        self._graph.outputs.clear()
        self._graph.outputs.extend([self._ports.logits, *outputs])
        prune(self._model)
        self._replace_positions()
        prune(self._model)
        self._drop_inputs()

    def _input(self, name: str, sizes: list[int | str]) -> Value:
        value = Value(name=name)
        value.dtype = DataType.INT32
        set_shape(value, sizes)
        self._graph.inputs.append(value)
        return value

    # -- attention

    def _rotation(self, attention: DecomposedAttention) -> tuple[Value, Value, Rotation] | None:
        """Return queries and keys before one rotation; None where they have none, or several."""
        q = self._rotations.find(attention.q, attention.heads, attention.size)
        k = self._rotations.find(attention.new_keys, attention.kv_heads, attention.size)
        if q is None or k is None or not q[1].equals(k[1]):
            return None
        return q[0], k[0], q[1]

    def _write_layer(
        self, layer: int, attention: DecomposedAttention, form: AttentionForm,
        rotation: tuple[Value, Value, Rotation] | None,
    ) -> list[Value]:  # fmt: skip
        """Write the node of a layer; return its new caches."""
        insert = Inserter(self._graph, attention.product, self._namer)
        q, k = rotation[:2] if rotation else (attention.q, attention.new_keys)
        rows = [self._rows(insert, value) for value in (q, k, attention.new_values)]
        caches = [
            self._cache(name, layer, past, (attention.kv_heads, size))
            for name, past, size in (
                ("keys", attention.past_keys, attention.size),
                ("values", attention.past_values, attention.value_size),
            )
        ]
        tables = self._angles(rotation[2]) if rotation else ()
        y = insert.node(
            "GroupQueryAttention", [*rows, *caches, self._last, self._total, *tables],
            f"layer.{layer}.attention", dtype=caches[0].dtype, shape=None, domain=ops.MICROSOFT,
            num_heads=attention.heads, kv_num_heads=attention.kv_heads, scale=form.scale,
            do_rotary=int(rotation is not None), softcap=form.softcap, local_window_size=form.window or -1,
            rotary_interleaved=int(rotation is not None and rotation[2].interleaved),
        )  # fmt: skip
        set_shape(y, ["batch", "tokens", attention.heads * attention.value_size])
        node = y.producer()
        assert node is not None
        node.resize_outputs(3)
        for output, cache, name in zip(node.outputs[1:], caches, ("new_keys", "new_values"), strict=True):
            output.name, output.type, output.shape = f"{name}.{layer}", cache.type, cache.shape
        self._replace_output(attention, insert, y)
        return list(node.outputs[1:])

    def _cache(self, name: str, layer: int, past: Value | None, sizes: tuple[int, int]) -> Value:
        if past is None:
            past = Value()
            self._graph.inputs.append(past)
        past.name, past.dtype = f"{name}.{layer}", DataType.FLOAT
        set_shape(past, ["batch", sizes[0], "room", sizes[1]])
        return past

    def _angles(self, rotation: Rotation) -> tuple[Value, Value]:
        """Return the tables of a rotation, which layers share."""
        for known, tables in self._tables:
            if known is rotation:
                return tables
        first = next(iter(self._graph))
        insert = Inserter(self._graph, first, self._namer)
        tables = insert.constant("cosines", rotation.cosines), insert.constant("sines", rotation.sines)
        self._tables.append((rotation, tables))
        return tables

    def _rows(self, insert: Inserter, value: Value) -> Value:
        """Return a tensor [batch, tokens, heads, size], or with heads before tokens, as [batch, tokens, columns]."""
        node, shape = value.producer(), None
        if node is not None and is_op(node, "Transpose") and ops.Transpose.of(node).perm == _HEADS_LAST:
            assert node.inputs[0] is not None
            value = node.inputs[0]
        elif not self._has_heads_last(value):
            value = insert.node(
                "Transpose", [value], f"{value.name}.rows", dtype=value.dtype, shape=shape, perm=_HEADS_LAST
            )
        node = value.producer()
        source = node.inputs[0] if node is not None and is_op(node, "Reshape") else None
        if source is not None and source.shape is not None and len(source.shape) == 3:
            return source
        sizes = insert.constant("rows.sizes", np.array([0, 0, -1]))
        return insert.node("Reshape", [value, sizes], f"{value.name}.flat", dtype=value.dtype, shape=shape)

    def _has_heads_last(self, value: Value) -> bool:
        """Return whether a rotated tensor was laid out [batch, tokens, heads, size] all along."""
        return any(
            is_op(use.node, "Transpose") and ops.Transpose.of(use.node).perm == _HEADS_LAST
            for use in value.uses()
        )

    def _replace_output(self, attention: DecomposedAttention, insert: Inserter, y: Value) -> None:
        """Let what reads the attention read `y` [batch, tokens, columns]."""
        product = attention.product.outputs[0]
        transpose = only_reader(product, "Transpose")
        reshape = None if transpose is None else only_reader(transpose.outputs[0], "Reshape")
        is_plain = transpose is not None and ops.Transpose.of(transpose).perm == _HEADS_LAST
        if is_plain and reshape is not None and _rank(reshape.outputs[0]) in (None, 3):
            hand_over(reshape, reshape.outputs[0], y, self._namer)
            return
        sizes = insert.constant("heads.sizes", np.array([0, 0, attention.heads, attention.value_size]))
        heads = insert.node("Reshape", [y, sizes], f"{y.name}.heads", dtype=y.dtype, shape=None)
        turned = insert.node(
            "Transpose", [heads], f"{y.name}.turned", dtype=y.dtype, shape=None, perm=_HEADS_LAST
        )
        hand_over(attention.product, product, turned, self._namer)

    # -- positions

    def _replace_positions(self) -> None:
        """Compute positions from that of the last token, where something but attention still reads them."""
        offsets = self._read_positions()
        if not offsets:
            return
        insert = Inserter(self._graph, next(iter(self._graph)), self._namer)

        def node(op_type: str, *inputs: Value, **attributes: int) -> Value:
            name = f"places.{op_type.lower()}"
            return insert.node(op_type, list(inputs), name, dtype=DataType.INT64, shape=None, **attributes)

        one, axis = (insert.constant("places.number", np.array(number)) for number in (1, [1]))
        count = node("Gather", node("Shape", self._ports.tokens), one)
        steps = node("Range", node("Sub", one, count), one, one)
        ends = node("Unsqueeze", node("Cast", self._last, to=int(DataType.INT64)), axis)
        places = node("Add", ends, steps)
        for value, offset in offsets.items():
            moved = places
            if offset:
                moved = node("Add", places, insert.constant("places.offset", np.array(offset)))
            value.replace_all_uses_with(moved)

    def _read_positions(self) -> dict[Value, int]:
        """Return the values [batch, tokens] that are positions plus a number, and that number.

        Of values that follow from each other the first one counts.
        """
        ports, offsets = self._ports, dict[Value, int]()
        roots = [value for value in (ports.mask, ports.positions, *ports.pasts) if value is not None]
        waiting, seen = deque(roots), set[Value]()
        while waiting:
            value = waiting.popleft()
            if value in seen:
                continue
            seen.add(value)
            offset = self._offset(value)
            if offset is not None:
                offsets[value] = offset
                continue
            waiting += [y for use in value.uses() for y in use.node.outputs if y in self._positions]
        return offsets

    def _offset(self, value: Value) -> int | None:
        """Return what is added to the positions of new tokens where a value [batch, tokens] is no more."""
        if value not in self._positions or value.dtype != DataType.INT64 or _rank(value) not in (None, 2):
            return None
        differences = set[int]()
        try:
            part = self._positions.part([value])
            for lengths in _CASES:
                (array,) = part.run(lengths)
                if array.shape != (1, lengths.tokens):
                    return None
                differences.update((array[0] - np.arange(lengths.past, lengths.total)).tolist())
        except UnsupportedError:
            return None
        return differences.pop() if len(differences) == 1 else None

    def _drop_inputs(self) -> None:
        """Remove the inputs that nothing reads any more."""
        ports = self._ports
        for value in (ports.mask, ports.positions):
            if value is None:
                continue
            for use in value.uses():
                raise self._refuse(use.node, f"'{value.name}', which it reads")
            self._graph.inputs.remove(value)
        for past in ports.pasts:
            for use in past.uses():
                if not is_op(use.node, "GroupQueryAttention", domain=ops.MICROSOFT):
                    raise self._refuse(use.node, f"the cache '{past.name}', which it reads")

    def _refuse(self, node: Node, got: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self._where}: node '{node.name}' ({node.op_type})", got, "masks and caches that attention reads", FIX
        )


_CASES = (Lengths(5, 3), Lengths(2, 4))


def _rank(value: Value) -> int | None:
    return None if value.shape is None else len(value.shape)

"""Rewrites decoders whose attention is decomposed: GroupQueryAttention over caches takes its place.

Files of `optimum` and of torch's exporters write attention, masks, rotation and caches in plain operators.
What stays of positions, such as vectors of learned ones, is computed from the position of the last token.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

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
    ops,
    prune,
    replace,
    set_shape,
)
from intact.lm.decoders.attention_form import AttentionForm, read_forms
from intact.lm.decoders.decomposed_attention import DecomposedAttention, find_attentions
from intact.lm.decoders.position_values import FIX, PositionValues
from intact.lm.decoders.rotations import RotatedTensor, Rotation, RotationFinder

_HEADS_LAST, _KEYS_TURNED, _LAST_SWAPPED = (0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2)


@dataclass(frozen=True)
class DecoderPorts:
    """Inputs and outputs of a decoder with decomposed attention.

    Attributes:
        tokens: Input [batch, tokens].
        mask: Input [batch, past + tokens]; None for none.
        positions: Input [batch, tokens] or [tokens]; None for none.
        pasts: Inputs with keys and values [batch, heads, past, size].
        logits: Output [batch, tokens, vocabulary].
        heads: How many heads queries have; 0 where nobody tells.
    """

    tokens: Value
    mask: Value | None
    positions: Value | None
    pasts: tuple[Value, ...]
    logits: Value
    heads: int = 0


def write_caches(model: Model, ports: DecoderPorts, most: int, where: str) -> None:
    """Write attention as GroupQueryAttention, in place: with inputs last, total, keys.i and values.i.

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
        ports = self._ports
        attentions = find_attentions(self._graph, self._positions, ports.pasts, ports.heads, self._where)
        if not attentions:
            raise UnsupportedError(self._where, "no attention", "a decoder with a Softmax in each layer", FIX)
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

    def _rotation(self, attention: DecomposedAttention) -> tuple[RotatedTensor, RotatedTensor] | None:
        """Return queries and keys before one rotation; None where they have none, or several."""
        q = self._rotations.find(attention.q, attention.heads, attention.size)
        k = self._rotations.find(attention.new_keys, attention.kv_heads, attention.size)
        return None if q is None or k is None or q.rotation is not k.rotation else (q, k)

    def _write_layer(
        self, layer: int, attention: DecomposedAttention, form: AttentionForm,
        rotated: tuple[RotatedTensor, RotatedTensor] | None,
    ) -> list[Value]:  # fmt: skip
        """Write the node of a layer; return its new caches."""
        insert = Inserter(self._graph, attention.product, self._namer)
        rotation = rotated[0].rotation if rotated else None
        rows = [self._rows(insert, x.source, x.heads_last) for x in rotated or ()]
        rows += [self._rows(insert, x) for x in (attention.q, attention.new_keys)[len(rows) :]]
        rows.append(self._rows(insert, attention.new_values))
        caches = [
            self._cache(name, layer, past, (attention.kv_heads, size))
            for name, past, size in (
                ("keys", attention.past_keys, attention.size),
                ("values", attention.past_values, attention.value_size),
            )
        ]
        tables = self._angles(rotation) if rotation else ()
        y = insert.node(
            "GroupQueryAttention", [*rows, *caches, self._last, self._total, *tables],
            f"layer.{layer}.attention", dtype=caches[0].dtype, shape=None, domain=ops.MICROSOFT,
            num_heads=attention.heads, kv_num_heads=attention.kv_heads, scale=form.scale,
            do_rotary=int(rotation is not None), softcap=form.softcap, local_window_size=form.window or -1,
            rotary_interleaved=int(rotation is not None and rotation.interleaved),
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
        for rotation_of_tables, tables in self._tables:
            if rotation_of_tables is rotation:
                return tables
        first = next(iter(self._graph))
        insert = Inserter(self._graph, first, self._namer)
        tables = insert.constant("cosines", rotation.cosines), insert.constant("sines", rotation.sines)
        self._tables.append((rotation, tables))
        return tables

    def _rows(self, insert: Inserter, value: Value, heads_last: bool = False) -> Value:
        """Return a tensor [batch, heads, tokens, size] as [batch, tokens, columns].

        `heads_last`: It is [batch, tokens, heads, size].
        """
        node = value.producer()
        if not heads_last and is_op(node, "Transpose") and node is not None and node.inputs[0] is not None:
            value = node.inputs[0]
        elif not heads_last:
            name = f"{value.name}.rows"
            value = insert.node("Transpose", [value], name, dtype=value.dtype, shape=None, perm=_HEADS_LAST)
        node = value.producer()
        source = node.inputs[0] if node is not None and is_op(node, "Reshape") else None
        if source is not None and _rank(source) == 3:
            return source
        sizes = insert.constant("rows.sizes", np.array([0, 0, -1]))
        return insert.node("Reshape", [value, sizes], f"{value.name}.flat", dtype=value.dtype, shape=None)

    def _replace_output(self, attention: DecomposedAttention, insert: Inserter, y: Value) -> None:
        """Let what reads the attention read `y` [batch, tokens, columns]."""
        product = attention.product.outputs[0]
        transpose = _only_data_reader(product, "Transpose")
        reshape = None if transpose is None else _only_data_reader(transpose.outputs[0], "Reshape")
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

        def node(op_type: str, *inputs: Value, **attributes: Any) -> Value:
            name = f"places.{op_type.lower()}"
            return insert.node(op_type, list(inputs), name, dtype=DataType.INT64, shape=None, **attributes)

        unit, axis = (insert.constant("places.number", np.array(number)) for number in (1, [1]))
        count = node("Gather", node("Shape", self._ports.tokens), unit)
        steps = node("Range", node("Sub", unit, count), unit, unit)
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
        if not ports.pasts:  # positions count the tokens of the call
            roots += [node.outputs[0] for node in self._graph if is_op(node, "Shape")]
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
            for end, tokens in _CASES:
                lengths = self._positions.lengths_until(end, tokens)
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
            for use in list(past.uses()):
                if _reads_batch(use.node):
                    use.node.replace_input_with(0, ports.tokens)
                elif not is_op(use.node, "GroupQueryAttention", domain=ops.MICROSOFT):
                    raise self._refuse(use.node, f"the cache '{past.name}', which it reads")

    def _refuse(self, node: Node, got: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self._where}: node '{node.name}' ({node.op_type})",
            got,
            "masks and caches that attention reads",
            FIX,
        )


_CASES = (8, 3), (6, 4)
"""Lengths of sequences, and new tokens, for which positions are looked at."""


def simplify_for_caches(model: Model) -> None:
    """Drop casts to the same type, and let keys be transposed by themselves, in place.

    Before: ``Transpose(x, perm=(0, 2, 3, 1))``.
    After: ``Transpose(Transpose(x, perm=(0, 2, 1, 3)), perm=(0, 1, 3, 2))``.
    """
    graph, namer = model.graph, Namer(model.graph)
    for node in list(graph):
        x = node.inputs[0] if node.inputs else None
        if x is None:
            continue
        is_cast = is_op(node, "Cast") and x.dtype is not None and int(x.dtype) == ops.Cast.of(node).to
        if (is_cast or is_op(node, "Identity")) and not (
            node.outputs[0].is_graph_output() and (x.producer() is None or x.is_graph_output())
        ):
            replace(node, x, namer)
        elif is_op(node, "Transpose") and ops.Transpose.of(node).perm == _KEYS_TURNED:
            insert = Inserter(graph, node, namer)
            heads = _heads_first(x) or insert.node(
                "Transpose", [x], f"{node.name}.heads", dtype=x.dtype, shape=None, perm=_HEADS_LAST
            )
            if x.shape is not None and len(x.shape) == 4:
                set_shape(heads, [_size(x, axis) for axis in _HEADS_LAST])
            turned = insert.node(
                "Transpose", [heads], f"{node.name}.turned", dtype=x.dtype, shape=node.outputs[0].shape,
                perm=_LAST_SWAPPED,
            )  # fmt: skip
            replace(node, turned, namer)


def _heads_first(value: Value) -> Value | None:
    """Return [batch, heads, tokens, size], where a Transpose makes it of [batch, tokens, heads, size]."""
    nodes = (use.node for use in value.uses() if is_op(use.node, "Transpose"))
    return next((node.outputs[0] for node in nodes if ops.Transpose.of(node).perm == _HEADS_LAST), None)


def _size(value: Value, axis: int) -> int | str | None:
    assert value.shape is not None
    size = value.shape[axis]
    return size if isinstance(size, int) else size.value


def _reads_batch(node: Node) -> bool:
    """Return whether a node reads the number of sequences alone of a tensor's sizes."""
    if not is_op(node, "Shape"):
        return False
    form = ops.Shape.of(node)
    if (form.start, form.end) == (0, 1):
        return True
    return form.start == 0 and all(
        is_op(use.node, "Gather") and use.idx == 0 and _number(use.node.inputs[1]) == 0
        for use in node.outputs[0].uses()
    )


def _number(value: Value | None) -> int | None:
    """Return the one integer that a constant holds."""
    tensor = None if value is None else value.const_value
    if tensor is None and value is not None and (node := value.producer()) is not None:
        tensor = ops.stored_tensor(node)
    array = None if tensor is None else tensor.numpy()
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _only_data_reader(value: Value, op_type: str) -> Node | None:
    """Return the node of a type that alone reads the elements of `value`; others read its sizes."""
    readers = {use.node for use in value.uses() if not is_op(use.node, "Shape")}
    return readers.pop() if len(readers) == 1 and is_op(next(iter(readers)), op_type) else None


def _rank(value: Value) -> int | None:
    return None if value.shape is None else len(value.shape)

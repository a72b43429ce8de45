"""Values of a decoder's graph that follow from positions, masks and sizes alone, whatever the tokens are.

Exporters compute masks, angles and indices from `attention_mask`, `position_ids` and the sizes of tensors,
each in its own operators. Here such parts are cut out and run for lengths of our choice, so that what they
mean is read off their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph import Model, Node, Session, Value, cut_nodes, ops, subgraphs

FIX = "export the model with onnxruntime-genai's builder, or load the Hugging Face folder itself"
_SIZES = ("Shape", "Size")
Dims = tuple[int | str | None, ...]


@dataclass(frozen=True)
class Lengths:
    """Lengths of one sequence for which a part of a graph runs.

    Attributes:
        past: Tokens before the new ones.
        tokens: New tokens.
    """

    past: int
    tokens: int

    @property
    def total(self) -> int:
        """Tokens in all."""
        return self.past + self.tokens


class PositionValues:
    """Finds the values that follow from positions, masks and sizes, and computes them.

    Args:
        model: A decoder.
        where: The file, for errors.
        tokens: The input with the tokens [batch, tokens].
        mask: The input with the mask [batch, past + tokens]; None for none.
        positions: The input with positions [batch, tokens], or [tokens]; None for none.
        pasts: Inputs with keys and values [batch, heads, past, size].
    """

    def __init__(
        self, model: Model, where: str, *, tokens: Value, mask: Value | None, positions: Value | None,
        pasts: Sequence[Value],
    ) -> None:  # fmt: skip
        self._model, self._where, self._tokens = model, where, tokens
        self._mask, self._positions, self._has_past = mask, positions, bool(pasts)
        self._names: dict[str, str] = {}
        self._shapes: dict[Value, Dims] = {}
        self._name_sizes(tokens, ("batch", "tokens"))
        for past in pasts:
            self._name_sizes(past, ("batch", None, "past", None))
        if positions is not None:
            self._name_sizes(positions, ("batch", "tokens")[-_rank(positions) :])
        if mask is not None:
            self._name_sizes(mask, ("batch", "total"))
        self._values = self._find()
        self._places = {node: place for place, node in enumerate(model.graph)}

    def _name_sizes(self, value: Value, names: Dims) -> None:
        """Learn what the names of sizes of an input mean."""
        if value.shape is None or len(value.shape) != len(names):
            raise UnsupportedError(
                f"{self._where}: input '{value.name}'", f"shape {value.shape}", f"{len(names)} axes", FIX
            )
        sizes = [size if isinstance(size, int) else size.value for size in value.shape]
        for size, name in zip(sizes, names, strict=True):
            if isinstance(size, str) and name is not None:
                self._names.setdefault(size, str(name))
        self._shapes[value] = tuple(
            size if name is None else name for size, name in zip(sizes, names, strict=True)
        )

    def _find(self) -> set[Value]:
        values = set(self._model.graph.initializers.values())
        values |= {value for value in (self._mask, self._positions) if value is not None}
        for node in self._model.graph:
            is_plain = node.op_type not in ops.DRAWING and not subgraphs(node)
            inputs = [value for value in node.inputs if value is not None]
            if is_plain and (node.op_type in _SIZES or values.issuperset(inputs)):
                values.update(node.outputs)
        return values

    def __contains__(self, value: object) -> bool:
        """Return whether a value follows from positions, masks and sizes."""
        return value in self._values

    def lengths_until(self, end: int, tokens: int) -> Lengths:
        """Return lengths whose last new tokens are the last of `end`; without a past all of them are new."""
        return Lengths(end - tokens, tokens) if self._has_past else Lengths(0, end)

    def declare(self, value: Value, dims: Dims) -> None:
        """State the sizes of a value: numbers, or "batch", "tokens", "past" and "total"."""
        self._shapes[value] = dims

    def count(self, value: Value | None) -> int | None:
        """Return how many elements a value has, from its shape or its elements; None where nothing tells."""
        if value is None or value not in self:
            return None
        sizes = [] if value.shape is None else [size for size in value.shape if isinstance(size, int)]
        if value.shape is not None and len(sizes) == len(value.shape):
            return prod(sizes)
        try:
            return int(self.part([value]).run(Lengths(2, 3))[0].size)
        except UnsupportedError:
            return None

    def part(self, outputs: Sequence[Value], inputs: Iterable[Value] = ()) -> GraphPart:
        """Cut out what computes `outputs` from positions, masks, sizes and `inputs`.

        Raises:
            UnsupportedError: It reads something else, or sizes that are not known.
        """
        inner = set(inputs)
        own_inputs, sizes, nodes = self._boundary(outputs, inner)
        ordered = sorted(nodes, key=self._places.__getitem__)
        data = cut_nodes(self._model, ordered, [*inner, *own_inputs, *sizes], outputs)
        return GraphPart(self, Session(data, threads=1), outputs, own_inputs, sizes)

    def _boundary(
        self, outputs: Sequence[Value], inner: set[Value]
    ) -> tuple[list[Value], list[Value], set[Node]]:
        """Return the inputs that `outputs` read, sizes of values that are not computed, and nodes."""
        own_inputs, sizes, nodes = dict[Value, None](), dict[Value, None](), set[Node]()
        seen, waiting = set(inner), [value for value in outputs if value not in inner]
        while waiting:
            value = waiting.pop()
            if value in seen or (value.const_value is not None and value.producer() is None):
                continue
            seen.add(value)
            node = value.producer()
            if node is None:
                if value not in (self._mask, self._positions, self._tokens):
                    raise self._refuse(outputs[0], f"input '{value.name}'")
                own_inputs[value] = None
                continue
            if node.op_type in _SIZES and not self._is_computed(node, inner):
                if self._dims_of_source(value) is not None:
                    sizes[value] = None
                    continue
                if not self._is_computed(node, inner | {self._tokens}):
                    raise self._refuse(value, f"sizes of '{node.inputs[0]}' that the file does not tell")
            nodes.add(node)
            waiting += [x for x in node.inputs if x is not None]
        return list(own_inputs), list(sizes), nodes

    def _is_computed(self, node: Node, inner: set[Value]) -> bool:
        """Return whether the tensor whose sizes a node reads is a part of what runs."""
        waiting, seen = [node.inputs[0]], set[Value]()
        while waiting:
            value = waiting.pop()
            if value is None or value in inner or value in self._values or value in seen:
                continue
            seen.add(value)
            source = value.producer()
            if source is None or value in self._shapes or len(seen) > _NEAR:
                return False
            waiting += list(source.inputs)
        return True

    def _refuse(self, value: Value, got: str) -> UnsupportedError:
        node = value.producer()
        name = value.name if node is None else node.name
        return UnsupportedError(f"{self._where}: node '{name}'", got, "masks and positions", FIX)

    def _dims_of_source(self, value: Value) -> list[int | tuple[str, ...]] | None:
        """Return the sizes that a Shape or Size reads: numbers, or names that are added; None: unknown."""
        node = value.producer()
        source = None if node is None else node.inputs[0]
        assert source is not None
        dims: Dims | None = self._shapes.get(source)
        if dims is None and source.shape is not None:
            dims = tuple(size if isinstance(size, int) else size.value for size in source.shape)
        sizes = [size for dim in dims or () if (size := self._size(dim)) is not None]
        return None if dims is None or len(sizes) < len(dims) else sizes

    def _size(self, dim: int | str | None) -> int | tuple[str, ...] | None:
        if dim is None or isinstance(dim, int):
            return dim
        names = tuple(self._names.get(name.strip(), name.strip()) for name in dim.split("+"))
        whole = self._names.get(dim)
        names = names if whole is None else (whole,)
        return names if set(names) <= {"batch", "tokens", "past", "total"} else None

    def feeds(self, values: Iterable[Value], lengths: Lengths) -> dict[str, NDArray[Any]]:
        """Return masks, positions and sizes of one sequence, by name."""
        numbers = {"batch": 1, "tokens": lengths.tokens, "past": lengths.past, "total": lengths.total}
        feeds: dict[str, NDArray[Any]] = {}
        for value in values:
            name, node = str(value.name), value.producer()
            if value is self._mask:
                feeds[name] = np.ones((1, lengths.total), _dtype(value))
            elif value is self._tokens:
                feeds[name] = np.zeros((1, lengths.tokens), _dtype(value))
            elif value is self._positions:
                places = np.arange(lengths.past, lengths.total, dtype=_dtype(value))
                feeds[name] = places if _rank(value) == 1 else places[None]
            else:
                sizes = [
                    size if isinstance(size, int) else sum(numbers[name] for name in size)
                    for size in self._dims_of_source(value) or ()
                ]
                assert node is not None
                if node.op_type == "Shape":
                    form = ops.Shape.of(node)
                    sizes = sizes[form.start : form.end]
                feeds[name] = np.array(sizes if node.op_type == "Shape" else np.prod(sizes), np.int64)
        return feeds


_NEAR = 64
"""Values that are looked at to tell whether a tensor is computed within a part."""


class GraphPart:
    """A part of a graph that runs for lengths of our choice.

    Args:
        values: What it was cut out by.
        session: Runs it.
        outputs: What it computes.
        inputs, sizes: What it reads of masks, positions and sizes.
    """

    def __init__(
        self, values: PositionValues, session: Session, outputs: Sequence[Value], inputs: Sequence[Value],
        sizes: Sequence[Value],
    ) -> None:  # fmt: skip
        self._values, self._session = values, session
        self._outputs, self._ports = outputs, (*inputs, *sizes)

    def run(self, lengths: Lengths, inner: Mapping[Value, NDArray[Any]] | None = None) -> list[NDArray[Any]]:
        """Compute the outputs for one sequence.

        Args:
            lengths: Of it.
            inner: The other inputs.
        Raises:
            UnsupportedError: ONNX Runtime cannot run it on them.
        """
        feeds = self._values.feeds(self._ports, lengths)
        feeds |= {str(value.name): array for value, array in (inner or {}).items()}
        try:
            arrays = self._session.run(feeds)
        except ValueError as error:  # a tensor of more axes than NumPy has
            raise UnsupportedError("graph", f"'{error}'", "masks and positions of a decoder", FIX) from error
        return [arrays[str(value.name)] for value in self._outputs]


def _rank(value: Value) -> int:
    return 0 if value.shape is None else len(value.shape)


def _dtype(value: Value) -> Any:
    return np.int64 if value.dtype is None else value.dtype.numpy()

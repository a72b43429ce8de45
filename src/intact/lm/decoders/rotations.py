"""Rotary embedding that a file writes as products with sines and cosines: its angles, read off its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph import Graph, Value, is_op, ops
from intact.lm.decoders.position_values import FIX, GraphPart, Lengths, PositionValues

_ROTATING = (ops.MOVING | {"Add", "Cast", "Mul", "Neg", "Sub"}) - {"Transpose"}
_FEW, _RANK = 7, 4
_CLOSE = 1e-5
Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Rotation:
    """Tables of RotaryEmbedding.

    Attributes:
        cosines, sines: float32 [positions, pairs].
        interleaved: Pairs are neighbours.
    """

    cosines: Reals
    sines: Reals
    interleaved: bool

    def equals(self, other: Rotation) -> bool:
        """Return whether both rotate alike."""
        return self.interleaved == other.interleaved and all(
            np.array_equal(x, y) for x, y in ((self.cosines, other.cosines), (self.sines, other.sines))
        )

    def matrix(self, position: int, size: int) -> Reals:
        """Return what maps a head of `size` elements to the rotated one, at a position."""
        pairs = self.cosines.shape[1]
        first, second = pair_places(pairs, self.interleaved)
        matrix = np.eye(size, dtype=np.float32)
        cos, sin = self.cosines[position], self.sines[position]
        matrix[first, first] = matrix[second, second] = cos
        matrix[first, second], matrix[second, first] = -sin, sin
        return matrix


@dataclass(frozen=True)
class RotatedTensor:
    """Queries or keys before their rotation.

    Attributes:
        source: [batch, heads, tokens, size], or [batch, tokens, heads, size].
        rotation: What rotates them.
        heads_last: The layout is the second one.
    """

    source: Value
    rotation: Rotation
    heads_last: bool


def pair_places(pairs: int, interleaved: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of the first and of the second elements of all pairs."""
    places = np.arange(2 * pairs)
    return (places[::2], places[1::2]) if interleaved else (places[:pairs], places[pairs:])


class RotationFinder:
    """Finds what rotates queries and keys.

    Args:
        graph: Of a decoder.
        positions: Computes angles.
        most: The longest sequence: tables of angles are as long.
    """

    def __init__(self, graph: Graph, positions: PositionValues, most: int) -> None:
        self._positions, self._most = positions, most
        self._places = {node: index for index, node in enumerate(graph)}
        self._rotations: list[Rotation] = []

    def find(self, value: Value, heads: int, size: int) -> RotatedTensor | None:
        """Return what is rotated to `value`, and how; None where nothing is, or not by a known form.

        Args:
            value: [batch, heads, tokens, size].
            heads, size: Of it.
        Raises:
            UnsupportedError: The angles of a position depend on how long the sequence is.
        """
        node = value.producer()
        if is_op(node, "Transpose") and node is not None and node.inputs[0] is not None:
            value = node.inputs[0]
        for source in self._dominators(value):
            try:
                part = self._positions.part([value], [source])
            except UnsupportedError:  # it reads more than positions and this one tensor
                return None
            for layout in _layouts(source, heads, size):
                rotation = self._rotation_of(_Rotated(part, source, layout), value)
                if rotation is not None:
                    return RotatedTensor(source, rotation, heads_last=layout[0] == 1)
        return None

    def _dominators(self, value: Value) -> Iterator[Value]:
        """Yield tensors that all paths to `value` come through, from the nearest on."""
        frontier = {value}
        while True:
            last = max(frontier, key=self._place)
            node = last.producer()
            if node is None or not is_op(node, *_ROTATING):
                return
            frontier.discard(last)
            frontier.update(x for x in node.inputs if x is not None and x not in self._positions)
            if not frontier:
                return
            if len(frontier) == 1:
                (only,) = frontier
                if only.shape is None or len(only.shape) == _RANK:
                    yield only

    def _place(self, value: Value) -> int:
        node = value.producer()
        return -1 if node is None else self._places[node]

    def _rotation_of(self, rotated: _Rotated, value: Value) -> Rotation | None:
        """Return the rotation that a part of the graph computes."""
        few = min(_FEW, self._most)
        first, last = 0, self._most - few
        heads = np.random.default_rng(0).normal(size=rotated.size).astype(np.float32)
        rows = {
            start: row
            for start in (first, last)
            if (row := rotated.run(self._positions.lengths_until(start + few, few), heads)) is not None
        }
        if not {first, last} <= rows.keys():
            return None
        for rotation in self._rotations:
            if _maps(rotation, heads, rows, few):
                return rotation
        matrices = {
            start: actual
            for start in (first, last)
            if (actual := rotated.matrices(self._positions.lengths_until(start + few, few), few)) is not None
        }
        pairs = _count_pairs(matrices[last]) if first in matrices and last in matrices else 0
        if pairs == 0:
            return None
        for interleaved in (False, True):
            cosines, sines = rotated.tables(Lengths(0, self._most), pairs, interleaved)
            rotation = Rotation(cosines, sines, interleaved)
            if _matches_matrices(rotation, matrices):
                self._rotations.append(rotation)
                return rotation
            if _matches_matrices(rotation, {last: matrices[last]}):
                got = "angles of a position that depend on how long the sequence is"
                raise UnsupportedError(f"'{value.name}'", got, "angles of positions alone", FIX)
        return None


def _maps(rotation: Rotation, head: Reals, rows: Mapping[int, Reals], tokens: int) -> bool:
    """Return whether a rotation maps a head to the last rows [tokens, size], by the first one's position."""
    return 2 * rotation.cosines.shape[1] <= head.size and all(
        np.allclose(row, rotation.matrix(start + token, head.size) @ head, atol=_CLOSE * 10)
        for start, actual in rows.items()
        for token, row in enumerate(actual[-tokens:])
    )


def _matches_matrices(rotation: Rotation, matrices: Mapping[int, Reals]) -> bool:
    """Return whether a rotation has matrices [tokens, size, size], by the position of their first token."""
    return all(
        np.allclose(matrix, rotation.matrix(start + token, len(matrix)), atol=_CLOSE)
        for start, actual in matrices.items()
        for token, matrix in enumerate(actual)
    )


class _Rotated:
    """A part of a graph that rotates one tensor, with the tensor's layout."""

    def __init__(self, part: GraphPart, source: Value, layout: tuple[int, int, int]) -> None:
        self._part, self._source = part, source
        self._token_axis, self._heads, self.size = layout

    def run(self, lengths: Lengths, heads: Reals) -> Reals | None:
        """Rotate the same head at every position; return float32 [tokens, size] of it."""
        shape = [1, self._heads, self._heads, self.size]
        shape[self._token_axis] = lengths.tokens
        x = np.broadcast_to(heads, shape).astype(np.float32)
        try:
            (y,) = self._part.run(lengths, {self._source: x})
        except UnsupportedError:  # of another layout
            return None
        if y.shape != tuple(shape):
            return None
        rows = y[0, 0] if self._token_axis == 2 else y[0, :, 0]
        return np.asarray(rows, np.float32)

    def matrices(self, lengths: Lengths, tokens: int) -> Reals | None:
        """Return what maps heads to rotated ones at the last tokens, [tokens, size, size]."""
        columns = []
        for row in np.eye(self.size, dtype=np.float32):
            column = self.run(lengths, row)
            if column is None:
                return None
            columns.append(column[-tokens:])
        return np.stack(columns, axis=2)

    def tables(self, lengths: Lengths, pairs: int, interleaved: bool) -> tuple[Reals, Reals]:
        """Return cosines and sines [tokens, pairs]: what pairs (1, 0) become."""
        first, second = pair_places(pairs, interleaved)
        head = np.zeros(self.size, np.float32)
        head[first] = 1
        rows = self.run(lengths, head)
        assert rows is not None
        return np.ascontiguousarray(rows[:, first]), np.ascontiguousarray(rows[:, second])


def _count_pairs(matrices: Reals) -> int:
    """Return how many pairs rotate at the last position: pairs stand in front of what stays."""
    turned = np.flatnonzero((np.abs(matrices[-1] - np.eye(matrices.shape[1])) > 0).any(axis=1))
    return 0 if not turned.size else (int(turned[-1]) + 2) // 2


def _layouts(source: Value, heads: int, size: int) -> Sequence[tuple[int, int, int]]:
    """Return axes of tokens that a tensor may have, its heads and size: one head or all where it is open."""
    shape = source.shape
    for axis in (2, 1):
        other = None if shape is None else shape[3 - axis]
        if isinstance(other, int) and other == heads and not isinstance(shape[axis] if shape else None, int):
            return [(axis, heads, size)]
    return [(2, 1, size), (1, 1, size), (2, heads, size), (1, heads, size)]

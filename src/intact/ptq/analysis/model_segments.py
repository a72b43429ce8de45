"""Cuts a float model into a chain of segments, so that a change of one tensor runs only the segments behind
it.

Segments are cut where few tensors cross: between the blocks of a residual network one does. Each holds what
all tensors behind it need, and nothing is computed twice but constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from intact.graph import Model, Node, Value, part
from intact.ptq.scope.quantization_targets import Read

MOST_SEGMENTS = 16
"""On average half of a model runs again for a change, and half a segment; more segments hardly save more."""


@dataclass(frozen=True, eq=False)
class ModelSegment:
    """Holds consecutive nodes of a model as a model of their own.

    Attributes:
        model: Of the nodes alone.
        inputs: Names of the tensors that it reads: inputs of the whole model, or outputs of earlier segments.
        outputs: Names of those that it makes for later segments, or as outputs of the whole model.
        reads: The quantized reads of its nodes.
    """

    model: Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reads: frozenset[Read]


def segments_of(model: Model, reads: Iterable[Read], most: int = MOST_SEGMENTS) -> list[ModelSegment]:
    """Cut `model` into at most `most` segments with about as many of `reads` each.

    A model with subgraphs, or with tensors of unknown type everywhere, is one segment.

    Args:
        model: Float, nodes in the order in which they run; not changed, and shared.
        reads: Those that are quantized.
        most: How many at most.
    """
    flow = _Flow(model)
    read_set = set(reads)
    if flow.has_subgraphs:
        return [_whole(model, read_set)]
    read_counts = Counter(name for name, _ in read_set)
    counts = [read_counts[node.name or ""] for node in flow.nodes]
    bounds = [0, *flow.bounds(counts, most), len(flow.nodes)]
    if len(bounds) == 2:
        return [_whole(model, read_set)]
    segments = []
    for start, stop in pairwise(bounds):
        inputs, outputs = flow.ends(start, stop)
        names = {node.name for node in flow.nodes[start:stop]}
        segments.append(
            ModelSegment(
                part(model, inputs, outputs),
                tuple(value.name or "" for value in inputs),
                tuple(value.name or "" for value in outputs),
                frozenset(read for read in read_set if read[0] in names),
            )
        )
    return segments


def _whole(model: Model, reads: set[Read]) -> ModelSegment:
    inputs = (v.name or "" for v in model.graph.inputs if v.name not in model.graph.initializers)
    outputs = (v.name or "" for v in model.graph.outputs)
    return ModelSegment(model, tuple(inputs), tuple(outputs), frozenset(reads))


class _Flow:
    """Records where each tensor that depends on the inputs is computed and read, by node index."""

    def __init__(self, model: Model) -> None:
        self.has_subgraphs = any(node.graph is not model.graph for node in model.graph.all_nodes())
        fed = [v for v in model.graph.inputs if v.name not in model.graph.initializers]
        self._born: dict[Value, int] = dict.fromkeys(fed, -1)
        self.nodes: list[Node] = []
        for node in model.graph:
            # A node without inputs and constants are copied into the segments that need them.
            if any(value in self._born for value in node.inputs):
                self._born.update(dict.fromkeys(node.outputs, len(self.nodes)))
                self.nodes.append(node)
        place = {node: index for index, node in enumerate(self.nodes)}
        self._read = {
            value: [place[use.node] for use in value.uses() if use.node in place] for value in self._born
        }
        self._output_values = {value for value in model.graph.outputs if value in self._born}

    def bounds(self, counts: Sequence[int], most: int) -> list[int]:
        """Return the cuts that divide the sum of `counts` evenly, where the fewest tensors cross."""
        crossing = self._crossing()
        total, before = sum(counts), [0]
        for count in counts:
            before.append(before[-1] + count)
        pieces = min(most, max(total // 3, 1))
        cuts: list[int] = []
        for piece in range(1, pieces):
            lower, upper = (total * (2 * piece + side) / (2 * pieces) for side in (-1, 1))
            middle = total * piece / pieces
            free = [
                (crossing[at], abs(before[at] - middle), at)
                for at in range(1, len(self.nodes))
                if lower < before[at] <= upper and crossing[at] is not None and before[at] < total
            ]
            if free and min(free)[2] not in cuts:
                cuts.append(min(free)[2])
        return sorted(cuts)

    def _crossing(self) -> list[int | None]:
        """Count the tensors that cross in front of each node; None where one has no known type."""
        changes = [0] * (len(self.nodes) + 2)
        barred = [0] * (len(self.nodes) + 2)
        for value, born in self._born.items():
            last = max(self._read[value], default=-1)
            if last > born:
                for row in (changes, barred) if value.dtype is None else (changes,):
                    row[born + 1] += 1
                    row[last + 1] -= 1
        crossing_counts: list[int | None] = []
        alive = dead = 0
        for index in range(len(self.nodes)):
            alive, dead = alive + changes[index], dead + barred[index]
            crossing_counts.append(None if dead else alive)
        return crossing_counts

    def ends(self, start: int, stop: int) -> tuple[list[Value], list[Value]]:
        """Return what nodes `start` to `stop` read from outside, and which of their outputs are read
        there.
        """
        inputs = [
            v for v, born in self._born.items()
            if born < start and any(start <= at < stop for at in self._read[v])
        ]  # fmt: skip
        outputs = [
            v for v, born in self._born.items()
            if start <= born < stop and (v in self._output_values or any(at >= stop for at in self._read[v]))
        ]  # fmt: skip
        return inputs, outputs

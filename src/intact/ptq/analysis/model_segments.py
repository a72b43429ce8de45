"""A float model as a chain of segments, so that a change of one tensor runs only what lies behind it.

Segments are cut where few tensors cross: between the blocks of a residual network one does. Each holds what
all tensors behind it need, and nothing is computed twice but constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from intact.graph import Model, Node, Value, part

Read = tuple[str, int]
"""(node name, input index)."""

MOST_SEGMENTS = 16
"""On average half of a model runs again for a change, and half a segment; more segments hardly save more."""


@dataclass(frozen=True, eq=False)
class ModelSegment:
    """Consecutive nodes of a model.

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
    """`model` in at most `most` segments with about as many of `reads` each.

    A model with subgraphs, or with tensors of unknown type everywhere, is one segment.

    Args:
        model: Float, nodes in the order in which they run; not changed, and shared.
        reads: Those that are quantized.
        most: How many at most.
    """
    flow = _Flow(model)
    wanted = set(reads)
    if flow.has_subgraphs:
        return [_whole(model, wanted)]
    reading = Counter(name for name, _ in wanted)
    counts = [reading[node.name or ""] for node in flow.nodes]
    bounds = [0, *flow.bounds(counts, most), len(flow.nodes)]
    if len(bounds) == 2:
        return [_whole(model, wanted)]
    found = []
    for start, stop in pairwise(bounds):
        inputs, outputs = flow.ends(start, stop)
        names = {node.name for node in flow.nodes[start:stop]}
        found.append(
            ModelSegment(
                part(model, inputs, outputs),
                tuple(value.name or "" for value in inputs),
                tuple(value.name or "" for value in outputs),
                frozenset(read for read in wanted if read[0] in names),
            )
        )
    return found


def _whole(model: Model, reads: set[Read]) -> ModelSegment:
    inputs = (v.name or "" for v in model.graph.inputs if v.name not in model.graph.initializers)
    outputs = (v.name or "" for v in model.graph.outputs)
    return ModelSegment(model, tuple(inputs), tuple(outputs), frozenset(reads))


class _Flow:
    """What depends on a model's inputs: nodes in order, and from where to where each tensor lives."""

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
        self._kept = {value for value in model.graph.outputs if value in self._born}

    def bounds(self, counts: Sequence[int], most: int) -> list[int]:
        """Where to cut: near equal parts of the sum of `counts`, where the fewest tensors cross."""
        crossing = self._crossing()
        total, before = sum(counts), [0]
        for count in counts:
            before.append(before[-1] + count)
        pieces = min(most, max(total // 3, 1))
        found: list[int] = []
        for piece in range(1, pieces):
            lower, upper = (total * (2 * piece + side) / (2 * pieces) for side in (-1, 1))
            middle = total * piece / pieces
            free = [
                (crossing[at], abs(before[at] - middle), at)
                for at in range(1, len(self.nodes))
                if lower < before[at] <= upper and crossing[at] is not None and before[at] < total
            ]
            if free and min(free)[2] not in found:
                found.append(min(free)[2])
        return sorted(found)

    def _crossing(self) -> list[int | None]:
        """How many tensors cross in front of each node; None where one has no type that a file could say."""
        changes = [0] * (len(self.nodes) + 2)
        barred = [0] * (len(self.nodes) + 2)
        for value, born in self._born.items():
            last = max(self._read[value], default=-1)
            if last > born:
                for row in (changes, barred) if value.dtype is None else (changes,):
                    row[born + 1] += 1
                    row[last + 1] -= 1
        found: list[int | None] = []
        alive = dead = 0
        for index in range(len(self.nodes)):
            alive, dead = alive + changes[index], dead + barred[index]
            found.append(None if dead else alive)
        return found

    def ends(self, start: int, stop: int) -> tuple[list[Value], list[Value]]:
        """What the nodes from `start` to `stop` read from outside, and what is wanted of them there."""
        inputs = [
            v for v, born in self._born.items()
            if born < start and any(start <= at < stop for at in self._read[v])
        ]  # fmt: skip
        outputs = [
            v for v, born in self._born.items()
            if start <= born < stop and (v in self._kept or any(at >= stop for at in self._read[v]))
        ]  # fmt: skip
        return inputs, outputs

"""Order the steps of a plan so that as few subgraphs as possible run in ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count, pairwise

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.steps import (
    Binary,
    Clip,
    Concat,
    Elementwise,
    Function,
    Pad,
    Reshape,
    Resize,
    Slice,
    Step,
    Transpose,
)  # fmt: skip
from intact.engine.steps.base.wiring import reads, writes
from intact.errors import UnsupportedError
from intact.graph import Node, Value, ops
from intact.limits import FALLBACK_PARTS

_CHEAP = (Binary, Clip, Concat, Elementwise, Function, Pad, Reshape, Resize, Slice, Transpose)
"""Steps that cost less than to enter ONNX Runtime a second time: one pass over memory."""


_FEWEST_TRIES, _TRIED_NODES = 16, 2_000_000
"""Orders that are tried to join parts: each costs the time of one look at every node."""


@dataclass(frozen=True)
class Part:
    """Nodes that run in ONNX Runtime together, and their outputs that others read."""

    nodes: list[Node]
    ys: tuple[str, ...]


Ordered = Step | Part
"""Entry of a plan's order: a step, or nodes that become one."""


def in_order(builder: PlanBuilder) -> tuple[PlanBuilder, list[Ordered]]:
    """Order the steps that the outputs need, with the parts that no step covers between them.

    Where nothing but cheap steps stands between two parts, their nodes join them, so that there is one part.

    Returns:
        A copy of `builder` in which that is so, and the order.
    Raises:
        UnsupportedError: A node reads what no plan holds.
    """
    # Every part costs a call of ONNX Runtime, row-major copies of what goes in and out, and a stop of the
    # native steps. A cheap step between two parts costs less when it runs in one part with them.
    ordered = _copy(builder)
    order = _order(ordered)
    FALLBACK_PARTS.check(sum(isinstance(item, Part) for item in order), "model", UnsupportedError)
    tries = count(max(_FEWEST_TRIES, _TRIED_NODES // max(len(builder.model.graph), 1)), -1)
    while (fewer := _join_parts(ordered, order, tries)) is not None:
        ordered, order = fewer
    return ordered, order


def _join_parts(
    builder: PlanBuilder, order: Sequence[Ordered], tries: Iterator[int]
) -> tuple[PlanBuilder, list[Ordered]] | None:
    """Return a builder and an order with fewer parts; None where no join helps or no tries are left."""
    places = [i for i, item in enumerate(order) if isinstance(item, Part)]
    # Only neighbours are tried: two parts with a third between them join when it has joined one of them.
    for first, second in pairwise(places):
        connecting = _between(order[first:second], order[second])
        fewer = _without(builder, connecting) if connecting else None
        if fewer is None:
            continue
        if next(tries) <= 0:
            return None
        new_order = _order(fewer)
        # The part may depend on more than these steps: count, don't guess.
        if sum(isinstance(item, Part) for item in new_order) < len(places):
            return fewer, new_order
    return None


def _between(order: Sequence[Ordered], last: Ordered) -> list[Step]:
    """Return the steps through which the last part depends on the first one of `order`."""
    first, *rest = order
    steps = [item for item in rest if isinstance(item, Step)]
    assert isinstance(first, Part) and isinstance(last, Part)
    behind, through = set(first.ys), list[Step]()
    for step in steps:
        if behind.intersection(reads(step)):
            behind.update(writes(step))
            through.append(step)
    wanted, connecting = {v.name or "" for node in last.nodes for v in values_read(node)}, list[Step]()
    for step in reversed(through):
        if wanted.intersection(writes(step)):
            wanted.update(reads(step))
            connecting.append(step)
    return connecting


def _without(builder: PlanBuilder, connecting: Sequence[Step]) -> PlanBuilder | None:
    """Copy `builder` without the steps of these nodes; None where other steps cover some of them too."""
    names = {name for step in connecting for name in step.nodes}
    gone = [step for step in builder.steps if names.intersection(step.nodes)]
    if not all(isinstance(step, _CHEAP) and names.issuperset(step.nodes) for step in gone):
        return None
    # A part computes in float. Codes would be dequantized and quantized around it: slower, and no longer the
    # integers that were promised.
    if any(_holds_codes(builder, name) for step in gone for name in (*reads(step), *writes(step))):
        return None
    nodes = {node for node in builder.model.graph if node.name in names}
    reasons = dict.fromkeys(nodes, "it stands between nodes without a kernel")
    copy = _copy(builder)
    left_out = {id(step) for step in gone}
    copy.steps = [step for step in builder.steps if id(step) not in left_out]
    copy.done = {node: None for node in builder.done if node not in nodes}
    copy.reasons |= reasons
    return copy


def _holds_codes(builder: PlanBuilder, name: str) -> bool:
    tensor = builder.tensors.get(name)
    return tensor is not None and tensor.codes is not None


def _copy(builder: PlanBuilder) -> PlanBuilder:
    """Copy `builder` so that the copy can be written to alone."""
    return replace(
        builder, steps=list(builder.steps), tensors=dict(builder.tensors), arrays=dict(builder.arrays),
        done=dict(builder.done), reasons=dict(builder.reasons),
    )  # fmt: skip


def _order(builder: PlanBuilder) -> list[Ordered]:
    order = _Order(builder)
    # A part is taken as late as can be: when no native step can run any more, all nodes that are ready by
    # then go into it together. Taken earlier, some of them would need a part of their own.
    while order.native() or order.part():
        pass
    return order.ordered


class _Order:
    """Runs native steps while some are ready, then all other ready nodes as one subgraph."""

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder, self.ordered = builder, list[Ordered]()
        graph = builder.model.graph
        self._left = _nodes_of_outputs(builder)
        self._demand_floats()
        self._waiting = _steps_of_outputs(builder, self._left)
        ready = {v.name or "" for v in graph.inputs} | set(builder.arrays)
        position = {node.name: i for i, node in enumerate(graph)}
        self._waiting.sort(key=lambda step: max(position.get(name, -1) for name in step.nodes))
        self._wanted = Counter(v.name or "" for v in graph.outputs)  # by how many that have not run
        self._steps = _Queue(map(reads, self._waiting), ready, self._wanted)
        self._nodes = _Queue(map(self._read_by, self._left), ready, self._wanted)

    def _read_by(self, node: Node) -> list[str]:
        return [v.name or "" for v in values_read(node) if v not in self.builder.constants]

    def _demand_floats(self) -> None:
        """Keep as floats every tensor that a subgraph reads or the graph puts out."""
        builder = self.builder
        outputs = {value for node in self._left for value in node.outputs}
        for node in self._left:
            for value in values_read(node):
                if value not in outputs and value not in builder.constants:
                    _demand(builder, value, f"{node.op_type} '{node.name}'")
        for value in builder.model.graph.outputs:
            if value not in outputs:
                _demand(builder, value, "the graph's output")

    def native(self) -> bool:
        """Move every native step that can run; return whether there was one."""
        before = len(self.ordered)
        while (turn := self._steps.pop()) is not None:
            step = self._waiting[turn[1]]
            self.ordered.append(step)
            self._wanted.subtract(set(reads(step)))
            self._steps.mark_ready(writes(step), turn)
            self._nodes.mark_ready(writes(step))
        return len(self.ordered) > before

    def part(self) -> bool:
        """Take all nodes that can run now; return whether there were some."""
        indices = list[int]()
        while (turn := self._nodes.pop()) is not None:
            node = self._left[turn[1]]
            indices.append(turn[1])
            self._wanted.subtract(set(self._read_by(node)))
            self._nodes.mark_ready([v.name or "" for v in node.outputs])
        if not indices:
            assert not self._steps.left and not self._nodes.left, "the graph is in order"
            return False
        nodes = [self._left[index] for index in sorted(indices)]
        # What only this part reads is no output of it: ONNX Runtime may fuse it away, and copies it nowhere.
        ys = tuple(v.name or "" for node in nodes for v in node.outputs if self._wanted[v.name or ""] > 0)
        self.ordered.append(Part(nodes, ys))
        self._steps.mark_ready(ys)
        return True


_Turn = tuple[int, int]  # sweep over the graph, place in it


class _Queue:
    """Queue of steps that wait for the names they read and run in the order of sweeps over the graph.

    Any topological order is right. This one is the file's wherever it can be: exporters write what belongs
    together side by side, so that tensors die soon and the arena stays small. A heap of (sweep, place) gives
    the order of going through the graph again and again, without going: a graph may have many thousand nodes.

    Args:
        items: The names that each reads.
        ready: Names that are there.
        wanted: Receives how many read each name.

    Attributes:
        left: How many have not run.
    """

    def __init__(self, items: Iterable[Sequence[str]], ready: set[str], wanted: Counter[str]) -> None:
        self._missing: list[int] = []
        self._readers: dict[str, list[int]] = {}
        self._heap: list[_Turn] = []
        for index, names in enumerate(items):
            needed = {name for name in names if name not in ready}
            wanted.update(set(names))
            self._missing.append(len(needed))
            for name in needed:
                self._readers.setdefault(name, []).append(index)
            if not needed:
                self._heap.append((0, index))
        self.left = len(self._missing)

    def pop(self) -> _Turn | None:
        """Take the next entry that can run; None where all wait."""
        if not self._heap:
            return None
        self.left -= 1
        return heappop(self._heap)

    def mark_ready(self, names: Iterable[str], at: _Turn = (0, -1)) -> None:
        """Mark names as ready.

        Entries that wait for them run in the same sweep where they come later in it.
        """
        for name in names:
            for index in self._readers.pop(name, ()):
                self._missing[index] -= 1
                if not self._missing[index]:
                    heappush(self._heap, (at[0] if index > at[1] else at[0] + 1, index))


def values_read(node: Node) -> list[Value]:
    """Return the values that a node reads, in its subgraphs too."""
    return [value for value in (*node.inputs, *_captures(node)) if value is not None]


def _captures(node: Node) -> list[Value]:
    """Return the values of the main graph that the subgraphs of `node` read."""
    graphs = ops.subgraphs(node)
    if not graphs:
        return []
    inner = dict.fromkeys(n for g in graphs for n in g.all_nodes())  # in order, unlike a set
    own = {v for g in graphs for v in (*g.inputs, *g.initializers.values())}
    own |= {v for g in graphs for s in g.subgraphs() for v in (*s.inputs, *s.initializers.values())}
    values = [v for n in inner for v in n.inputs if v is not None]
    values += [v for g in graphs for v in g.outputs]
    return [v for v in dict.fromkeys(values) if v not in own and v.producer() not in inner]


def _demand(builder: PlanBuilder, value: Value, reader: str) -> None:
    tensor = builder.tensors.get(value.name or "")
    if tensor is not None:
        return
    try:
        builder.real(value)
    except NoMatch as why:
        raise UnsupportedError(
            f"tensor '{value.name}'", str(why), f"a tensor that {reader} can read", "export the model again"
        ) from why


def _nodes_of_outputs(builder: PlanBuilder) -> list[Node]:
    """Return the nodes without a step that some output needs, in the graph's order."""
    graph, makers = builder.model.graph, _makers(builder)
    wanted: list[Value | str] = list(graph.outputs)
    seen: set[Value | str] = set()
    nodes: set[Node] = set()
    by_name = {v.name: v for n in graph for v in n.outputs}
    while wanted:
        item = wanted.pop()
        if item in seen or (item in builder.constants and item not in graph.outputs):
            continue
        seen.add(item)
        name = item if isinstance(item, str) else item.name or ""
        if (step := makers.get(name)) is not None:
            wanted += [by_name.get(n, n) for n in reads(step)]
            continue
        value = by_name.get(name)
        node = value.producer() if value is not None else None
        if node is None or node in nodes:
            continue
        if node in builder.done:  # a pair, or the inside of a step
            wanted += [v for v in node.inputs[:1] if v is not None]
        else:
            nodes.add(node)
            wanted += values_read(node)
    return [node for node in graph if node in nodes]


def _makers(builder: PlanBuilder) -> dict[str, Step]:
    return {name: step for step in builder.steps for name in writes(step)}


def _steps_of_outputs(builder: PlanBuilder, left: Iterable[Node]) -> list[Step]:
    makers = _makers(builder)
    wanted = [v.name or "" for v in builder.model.graph.outputs]
    wanted += [v.name or "" for node in left for v in values_read(node)]
    steps: dict[int, Step] = {}
    while wanted:
        step = makers.get(wanted.pop())
        if step is not None and id(step) not in steps:
            steps[id(step)] = step
            wanted += reads(step)
    return list(steps.values())

"""Order layers for writing, and write loops as ONNX Loops.

A layer lies in a loop when it reads what the loop carries or iterates over, directly or through others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from intact.graph import TypedComposer
from intact.trt.base.itensor import ITensor
from intact.trt.base.operation_enums import LoopOutput, TripLimit
from intact.trt.layers import ILayer, ILoop
from intact.trt.layers.base import Nodes
from intact.trt.layers.control_flow import ILoopBoundaryLayer, ILoopOutputLayer, IRecurrenceLayer


@dataclass(eq=False)
class _Unit:
    """A layer by itself, or a loop with all that lies in it."""

    layers: list[ILayer]
    loop: ILoop | None = None


def topological_order(layers: Sequence[ILayer]) -> list[ILayer]:
    """Return `layers` so that each comes behind those it reads, and otherwise in their own order."""
    return [unit.layers[0] for unit in _sort_units([_Unit([layer]) for layer in layers])]


def write(c: TypedComposer, layers: Sequence[ILayer]) -> None:
    """Write `layers` into `c`, each loop as one node."""
    loops = list(dict.fromkeys(la.loop for la in layers if isinstance(la, ILoopBoundaryLayer)))
    members = {loop: _members(loop, layers) for loop in loops}
    seeds = {loop: {*loop._recurrences, *loop._iterators} for loop in loops}
    within = {a: [b for b in loops if a is not b and seeds[a] & members[b]] for a in loops}
    for inner, around in within.items():
        for loop in around:
            members[loop] |= members[inner]
    outermost = [loop for loop in loops if not within[loop]]
    inside = {layer for loop in outermost for layer in members[loop]}
    units = [_Unit([layer]) for layer in layers if layer not in inside]
    units += [_Unit([la for la in layers if la in members[loop]], loop) for loop in outermost]
    place = {layer: i for i, layer in enumerate(layers)}
    for unit in _sort_units(sorted(units, key=lambda u: place[u.layers[0]])):
        if unit.loop is None:
            unit.layers[0].emit(c)
        else:
            _LoopWriter(c, unit.loop, unit.layers).write()


def _members(loop: ILoop, layers: Sequence[ILayer]) -> set[ILayer]:
    members: set[ILayer] = {*loop._recurrences, *loop._iterators}
    own = set(loop.boundary)
    changed = True
    while changed:
        changed = False
        for layer in layers:
            reads = {t._producer for t in layer._inputs if t is not None} & members
            if layer not in members and layer not in own and reads - set(loop._results):
                members.add(layer)
                changed = True
    return members | own


def _sort_units(units: list[_Unit]) -> list[_Unit]:
    """Sort units depth first, so that each follows the units that it reads."""
    maker = {layer: unit for unit in units for layer in unit.layers}
    done: dict[int, bool] = {}
    order: list[_Unit] = []
    for start in units:
        stack: list[tuple[_Unit, Callable[[], _Unit | None]]] = []
        _visit_unit(start, maker, done, stack)
        while stack:
            unit, following = stack[-1]
            child = following()
            if child is not None:
                _visit_unit(child, maker, done, stack)
                continue
            stack.pop()
            done[id(unit)] = True
            order.append(unit)
    return order


def _visit_unit(
    unit: _Unit,
    maker: dict[ILayer, _Unit],
    done: dict[int, bool],
    stack: list[tuple[_Unit, Callable[[], _Unit | None]]],
) -> None:
    if id(unit) in done:
        return
    done[id(unit)] = False
    tensors = (t for layer in unit.layers for t in tensors_before(layer, alone=unit.loop is None))
    units = iter([u for t in tensors if (u := maker.get(t._producer)) is not None and u is not unit])  # type: ignore[call-overload]
    stack.append((unit, lambda: next((u for u in units if id(u) not in done), None)))


def tensors_before(layer: ILayer, alone: bool) -> list[ITensor]:
    """Return the tensors that must exist before `layer`. With `alone`, it is not written with its loop."""
    conditional = getattr(layer, "_conditional", None)
    extra = [conditional.condition] if conditional is not None else []
    inputs = layer._inputs[:1] if alone and isinstance(layer, IRecurrenceLayer) else layer._inputs
    return [t for t in (*inputs, *extra) if t is not None]


class _LoopWriter:
    def __init__(self, c: TypedComposer, loop: ILoop, layers: Sequence[ILayer]) -> None:
        self.c, self.loop = c, loop
        self.n = Nodes(c, loop.name or f"{loop.boundary[0].name}.loop")
        self.body = [layer for layer in layers if layer not in set(loop.boundary)]
        self.scanned: dict[ILoopOutputLayer, str] = {}
        self.states: dict[ITensor, str] = {}
        self.rows = ""

    def write(self) -> None:
        """Write the node, and behind it the outputs derived from its own."""
        loop, n = self.loop, self.n
        limits = {limit.kind: limit._inputs[0] for limit in loop._limits}
        if not limits:
            raise ValueError("a loop has no trip limit: call add_trip_limit")
        count, truth = limits.get(TripLimit.COUNT), limits.get(TripLimit.WHILE)
        trips = n.scalar(n.cast(count.name, "int64")) if count is not None else ""
        initial = [layer._inputs[0].name for layer in loop._recurrences if layer._inputs[0] is not None]
        with self.c.subgraph(n.prefix) as graph:
            body_outputs = self._write_body(truth)
        outputs = [self.c.fresh(f"{n.prefix}.{name}") for name in body_outputs]
        rows = [n.ints(0, shape=())] if truth is not None else []
        self.c.node("Loop", [trips, "", *initial, *rows], outputs, name=self.c.fresh(n.prefix), body=graph)
        for layer, name in zip(loop._recurrences, outputs, strict=False):
            self.states[layer._outputs[0]] = name
        if truth is not None:
            self.rows = outputs[len(initial)]
        for result, name in zip(self.scanned, outputs[len(initial) + len(rows) :], strict=True):
            self.scanned[result] = name
        for result in loop._results:
            self._write_output(result)

    def _write_body(self, truth: ITensor | None) -> list[str]:
        """Write the body; return the names of the node's outputs."""
        c, loop, n = self.c, self.loop, self.n
        turn, going, rows = (c.fresh(f"{n.prefix}.{part}") for part in ("turn", "going", "rows"))
        c.input(turn, "int64", ())
        c.input(going, "bool", ())
        for layer in loop._recurrences:
            tensor = layer._outputs[0]
            shape = [size if size >= 0 else f"{tensor.name}.{i}" for i, size in enumerate(tensor.shape)]
            c.input(tensor.name, tensor.dtype.numpy.name, shape)
        if truth is not None:
            c.input(rows, "int64", ())
        for iterator in loop._iterators:
            source, place = iterator._inputs[0], turn
            assert source is not None
            if iterator.reverse:
                last = n("Sub", n.scalar(n.size(source.name, int(iterator.axis))), n.ints(1, shape=()))
                place = n("Sub", last, turn)
            c.node("Gather", [source.name, place], [iterator._outputs[0].name],
                   name=iterator.name, axis=int(iterator.axis))  # fmt: skip
        write(c, self.body)
        truth_name = n.scalar(truth.name) if truth is not None else ""
        outputs = [n("Identity", truth_name or going)]
        for layer in loop._recurrences:
            following = layer.get_input(1)
            if following is None:
                raise ValueError(f"{layer.name}: input 1, which the next run begins with, is not set")
            name, state = following.name, layer._outputs[0].name
            outputs.append(n("Where", truth_name, name, state) if truth_name else n("Identity", name))
        if truth_name:
            outputs.append(n("Add", rows, n.cast(truth_name, "int64")))
        for result in loop._results:
            result_tensor = result._inputs[0]
            assert result_tensor is not None
            if result.kind is not LoopOutput.LAST_VALUE or result_tensor._producer not in loop._recurrences:
                self.scanned[result] = ""
                outputs.append(n("Identity", result_tensor.name))
        for name in outputs:
            c.output(name)
        return outputs[1:]

    def _write_output(self, layer: ILoopOutputLayer) -> None:
        n, tensor, to = Nodes(self.c, layer.name), layer._inputs[0], layer._outputs[0]
        assert tensor is not None
        if layer not in self.scanned:
            n("Identity", self.states[tensor], to=to.name)
            return
        values, zero = self.scanned[layer], n.ints(0)
        if self.rows:  # the run that found the truth false made a row too
            values = n("Slice", values, zero, n("Reshape", self.rows, n.ints(1)), zero)
        if layer.kind is LoopOutput.LAST_VALUE:
            n("Gather", values, n.ints(-1, shape=()), to=to.name, axis=0)
            return
        if layer.kind is LoopOutput.REVERSE:
            values = n("Slice", values, n.ints(-1), n.ints(-(2**63)), zero, n.ints(-1))
        count = layer._vector(n, 1)
        rest = n("Slice", n.sizes(values), n.ints(1), n.ints(len(tensor.shape) + 1))
        blank = n.array(tensor.dtype.numpy.type(0))
        blank = n("Expand", blank, n("Concat", count, rest, axis=0))
        rows = n("Slice", n("Concat", values, blank, axis=0), zero, count, zero)
        axis, rank = int(layer.axis) % (len(tensor.shape) + 1), len(tensor.shape) + 1
        if axis:
            rows = n("Transpose", rows, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank)])
        if to.shape.count(-1) <= 1:
            rows = n("Reshape", rows, n.ints(*to.shape))
        n("Identity", rows, to=to.name)

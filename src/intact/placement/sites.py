"""Group the chosen edges into sites: one per tensor, one scale per group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intact.graph import Value
from intact.graph.ops import CONVOLUTIONS, PRODUCTS, RECURRENT
from intact.placement.placement_graph import Op, Reader, View
from intact.placement.profiles import Profile
from intact.placement.records import Kept, Site
from intact.placement.rules import Int8, rules_of
from intact.placement.rules.weighted import weight_axis

Decisions = dict[Op, Int8 | Kept]


def make_sites(view: View, profile: Profile, decisions: Decisions) -> list[Site]:
    """Return the tensors whose readers were decided to run in int8, in the graph's order.

    Q moves up: a tensor that an operator in int8 only moved needs no pair of its own, unless `profile` wants
    one. All readers of one tensor share its scale, and so do the tensors on both sides of a moving operator.
    """
    moving = {op: got for op, got in decisions.items() if isinstance(got, Int8) and _moves(op)}
    groups = _Groups()
    for op, got in moving.items():
        if op.op_type != "Concat":
            groups.join([*_values(op, got), *op.outputs])
    moved = {value for op in moving for value in op.outputs}
    moved -= _join_parts(groups, decisions, moving, profile)
    numbers: dict[object, int] = {}
    sites = list[Site]()
    for value, axis, readers in _tensors(view, decisions):
        if value in moved and not profile.moved_pairs:
            continue
        key = (value, axis) if view.is_constant(value) else groups.find(value)
        sites.append(
            Site(
                value=value.name or "",
                readers=tuple((op.name, index) for op, index in readers),
                role="weight" if view.is_constant(value) else "activation",
                axis=axis,
                group=numbers.setdefault(key, len(numbers)),
                reason="; ".join(dict.fromkeys(decisions[op].reason for op, _ in readers)),
            )
        )
    return sites


def _join_parts(
    groups: _Groups, decisions: Decisions, moving: dict[Op, Int8], profile: Profile
) -> set[Value]:
    """Put the parts of each Concat on its grid; the outputs of those that have parts on other grids.

    A part that nobody else reads is made on the grid of the whole. The others' readers would see the codes of
    a range that can be many times theirs: such a part keeps its grid, and `profile` rescales it.
    """
    concats = {op: got for op, got in moving.items() if op.op_type == "Concat"}
    readers: dict[Value, set[Op]] = {}
    for op, got in decisions.items():
        if isinstance(got, Int8) and (op not in moving or op in concats):
            for value in _values(op, got):
                readers.setdefault(groups.find(value), set()).add(op)
    shared = {
        op: [v for v in _values(op, got) if not profile.rescales or readers[groups.find(v)] == {op}]
        for op, got in concats.items()
    }
    for op, parts in shared.items():
        groups.join([*op.outputs, *parts])
    return {op.outputs[0] for op, got in concats.items() if len(shared[op]) < len(got.inputs)}


def _values(op: Op, got: Int8) -> list[Value]:
    return [value for i in got.inputs if (value := op.inputs[i]) is not None]


def _moves(op: Op) -> bool:
    return any(rule.kind == "moves" for rule in rules_of(op.op_type, op.domain))


def _tensors(view: View, decisions: Decisions) -> Iterator[tuple[Value, int | None, list[Reader]]]:
    """Yield each tensor with the readers that want it quantized, in the graph's order.

    A weight at its reader.
    """
    wanted: dict[tuple[Value, int | None], list[Reader]] = {}
    for op in view.ops:
        got = decisions.get(op)
        for index in got.inputs if isinstance(got, Int8) else ():
            value = op.inputs[index]
            if value is not None:
                constant = view.is_constant(value) and op.op_type in CONVOLUTIONS | PRODUCTS | RECURRENT
                axis = weight_axis(op, index, value) if constant else None
                wanted.setdefault((value, axis), []).append((op, index))
    order = dict.fromkeys(view.model.graph.inputs, -1)
    for position, op in enumerate(view.ops):
        order.update(dict.fromkeys(op.outputs, position))
    first = {key: view.position(readers[0][0]) for key, readers in wanted.items()}
    for key in sorted(wanted, key=lambda key: (order.get(key[0], first[key] - 0.5), first[key])):
        yield *key, wanted[key]


class _Groups:
    """Values that share a scale."""

    def __init__(self) -> None:
        self._parent: dict[Value, Value] = {}

    def find(self, value: Value) -> Value:
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def join(self, values: Sequence[Value]) -> None:
        first = self.find(values[0])
        for value in values[1:]:
            other = self.find(value)
            if other is not first:
                self._parent[other] = first

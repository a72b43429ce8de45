"""From the rewritten graph to steps: which nodes go together, and which rule makes a step of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from intact.engine.lower.grids import Grids
from intact.engine.lower.moves import MOVES
from intact.engine.lower.planes import PLANES, lower_add
from intact.engine.lower.reals import REALS
from intact.engine.lower.sheet import Cannot, Sheet, dims_of
from intact.engine.lower.sums import ROOTS, lower_sum
from intact.engine.steps import Codes
from intact.graph import Constants, Model, Node, Value, is_op
from intact.placement import Layer


@dataclass(frozen=True)
class Group:
    """Nodes that become one step, if `rule` finds that they can.

    Attributes:
        nodes: In the graph's order.
        rule: Writes the step; returns the nodes that it left over.
    """

    nodes: list[Node]
    rule: Callable[[Sheet], list[Node]]


def select(model: Model, layers: Sequence[Layer]) -> Sheet:
    """The steps of every node that has some; `Sheet.reasons` says why others have none."""
    constants = Constants(model.graph)
    sheet = Sheet(model, constants, Grids(constants))
    for value in model.graph.inputs:
        _define_input(sheet, value)
    position = {node: i for i, node in enumerate(model.graph)}
    for group in sorted(_groups(sheet, layers), key=lambda g: position[g.nodes[-1]]):
        if not sheet.done.intersection(group.nodes):
            _lower(sheet, group)
    return sheet


def _define_input(sheet: Sheet, value: Value) -> None:
    """An input of the graph: codes where all that reads it is one grid's DequantizeLinear."""
    try:
        readers = [use.node for use in value.uses()]
        grids = {sheet.grids.of(n) if is_op(n, "DequantizeLinear") else None for n in readers}
        grid = next(iter(grids)) if len(grids) == 1 else None
        if grid is not None:
            sheet.write_codes(value, grid.codes())
        elif value.dtype is not None:
            sheet.write_plain(value, value.dtype.numpy().name)
    except Cannot:
        pass  # of no known rank: stretches alone can read it


def _lower(sheet: Sheet, group: Group) -> None:
    """Let the rule of a group write its step; node by node where it cannot, or leaves some over."""
    try:
        with sheet.attempt():
            left = group.rule(sheet)
    except Cannot as why:
        sheet.reasons[group.nodes[0]] = str(why)
        left = group.nodes[1:]
    for node in left:
        _lower(sheet, _single(node))


def _groups(sheet: Sheet, layers: Sequence[Layer]) -> list[Group]:
    """Every node that is no constant in exactly one group."""
    nodes = {node.name: node for node in sheet.model.graph}
    groups, taken = list[Group](), set[Node]()
    for layer in layers:
        members = [nodes[name] for name in layer.nodes if name in nodes]
        group = _of_layer(layer, members)
        if group is not None:
            groups.append(group)
            taken.update(members)
    for node in sheet.model.graph:
        if node not in taken and not all(value in sheet.constants for value in node.outputs):
            groups.append(_single(node))
    return groups


def _of_layer(layer: Layer, nodes: list[Node]) -> Group | None:
    if not nodes or nodes[0].domain:
        return None
    if layer.op_type in ROOTS:
        return Group(nodes, lambda sheet: lower_sum(sheet, nodes, layer.fused))
    if layer.op_type == "Add" and len(nodes) > 1:
        return Group(nodes, lambda sheet: lower_add(sheet, nodes))
    return None


def _single(node: Node) -> Group:
    def rule(sheet: Sheet) -> list[Node]:
        found = SINGLES.get(node.op_type) if not node.domain else None
        if found is None:
            raise Cannot(f"no kernel for {node.domain and node.domain + '::'}{node.op_type}")
        why = ""
        for one in found:
            try:
                with sheet.attempt():
                    one(sheet, node)
                return []
            except Cannot as error:
                why = why or str(error)
        raise Cannot(why)

    return Group([node], rule)


Rule = Callable[[Sheet, Node], None]


def _by_type(*tables: dict[str, Rule]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for table in tables:
        for op_type, rule in table.items():
            found.setdefault(op_type, []).append(rule)
    return found


SINGLES = _by_type(MOVES, PLANES, REALS)
"""Operator -> the rules that are tried for it, in this order."""

__all__ = ["Codes", "Group", "SINGLES", "dims_of", "select"]

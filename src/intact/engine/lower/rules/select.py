"""Chooses the rule for every group of nodes, and records a reason for every node without one."""

from __future__ import annotations

from collections.abc import Sequence

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dtype_of
from intact.engine.lower.base.grids import Grids
from intact.engine.lower.base.rule import Rule
from intact.engine.lower.passes.fold_sizes import find_numbers
from intact.engine.lower.rules.calls.call import lower_call
from intact.engine.lower.rules.claims import Group, claim
from intact.engine.lower.rules.elements.size_vector import lower_sizes
from intact.engine.lower.rules.table import FOREIGN_RULES, RULES, lower_alone_in_floats
from intact.graph import Constants, Model, Node, Value, is_op, naming_errors
from intact.placement import Fusion


def select(model: Model, fusions: Sequence[Fusion]) -> PlanBuilder:
    """Choose the steps of every node that a rule lowers; `PlanBuilder.reasons` has the reasons for others."""
    constants = Constants(model.graph)
    builder = PlanBuilder(model, constants, Grids(constants))
    for value in model.graph.inputs:
        _define_input(builder, value)
    builder.numbers = {
        value: sizes
        for value, numbers in find_numbers(model, constants).items()
        if len(sizes := tuple(n for n in numbers if n is not None and builder.is_told(n))) == len(numbers)
    }
    groups = claim(builder, fusions)
    claimed = {node for group in groups for node in group.nodes}
    for node in model.graph:
        if node not in claimed and not constants.issuperset(node.outputs):
            groups.append(_single(node))
    position = {node: i for i, node in enumerate(model.graph)}
    for group in sorted(groups, key=lambda g: position[g.nodes[-1]]):
        if builder.done.keys().isdisjoint(group.nodes):
            _lower(builder, group)
    return builder


def _define_input(builder: PlanBuilder, value: Value) -> None:
    """Define an input of the graph: codes where only DequantizeLinears of one grid read it."""
    readers = [use.node for use in value.uses()]
    grids = {builder.grids.of(n) if is_op(n, "DequantizeLinear") else None for n in readers}
    grid = next(iter(grids)) if len(grids) == 1 else None
    if grid is None:
        _define_plain(builder, value)
    elif value.shape is not None:
        builder.write_codes(value, grid.codes())


def _define_plain(builder: PlanBuilder, value: Value) -> None:
    """Define a tensor that no native step makes, where its rank and type are known."""
    if value.shape is not None and value.dtype is not None and value.dtype.name != "UNDEFINED":
        builder.write_plain(value, dtype_of(value))


def _lower(builder: PlanBuilder, group: Group) -> None:
    """Let the rule of a group write its step; node by node where it cannot, or leaves some over."""
    try:
        with builder.attempt(), naming_errors(_label(group.nodes[-1])):
            left = group.rule(builder)
    except NoMatch as why:
        if len(group.nodes) == 1:
            _give_up(builder, group.nodes[0], str(why))
            return
        left = group.nodes
        builder.reasons[left[0]] = str(why)
    for node in left:
        _lower(builder, _single(node))


def _label(node: Node) -> str:
    return f"node '{node.name}' ({node.op_type})"


def _give_up(builder: PlanBuilder, node: Node, why: str) -> None:
    """Leave a node to ONNX Runtime; its outputs can be read."""
    builder.reasons.setdefault(node, why)
    _define_outputs(builder, node)


def _define_outputs(builder: PlanBuilder, node: Node) -> None:
    for value in node.outputs:
        if value.name:
            _define_plain(builder, value)


def _foreign_rules(node: Node) -> tuple[Rule, ...]:
    return (*FOREIGN_RULES.get((node.domain, node.op_type), ()), lower_call)


def _single(node: Node) -> Group:
    def run(builder: PlanBuilder) -> list[Node]:
        if lower_sizes(builder, node):
            return []
        rules = RULES.get(node.op_type, ()) if not node.domain else _foreign_rules(node)
        why = f"no kernel for {node.op_type}" if not rules else ""
        for rule in rules:
            try:
                with builder.attempt():
                    rule(builder, node)
                    if (
                        node in builder.data_dependent_nodes
                    ):  # what the rule took from the graph is but declared
                        raise NoMatch("values of the inputs decide the sizes of its output")
                if rule is lower_alone_in_floats:
                    builder.reasons.setdefault(node, why)
                return []
            except NoMatch as error:
                if rule is not lower_call or not why:  # that nobody registered it is no news then
                    why = str(error)
        raise NoMatch(why)

    return Group([node], run)

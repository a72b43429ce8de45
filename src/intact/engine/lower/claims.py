"""Which nodes go together: placement's layers, and norms, masks and activations made up of several nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from intact.engine.lower.parts import lower_batchnorm
from intact.engine.lower.planes import lower_add
from intact.engine.lower.reals import lower_function, lower_layer_norm, lower_softmax
from intact.engine.lower.sheet import Sheet
from intact.engine.lower.sums import ROOTS, lower_sum
from intact.graph import Node, Value, is_op
from intact.placement import PROFILES, Layer
from intact.placement.activations import Activation, activation_behind
from intact.placement.view import View


@dataclass(frozen=True)
class Group:
    """Nodes that become one step, if `rule` finds that they can.

    Attributes:
        nodes: In the graph's order.
        rule: Writes the step; returns the nodes that it left over.
    """

    nodes: list[Node]
    rule: Callable[[Sheet], list[Node]]


def claim(sheet: Sheet, layers: Sequence[Layer]) -> list[Group]:
    """The groups of more than one node, and every root; each node is in one group at most."""
    taken: set[Node] = set()
    groups: list[Group] = []
    found = (*_layers(sheet, layers), *_behind_adds(sheet), *_behind_norms(sheet), *_activations(sheet))
    for group in found:
        if not taken.intersection(group.nodes):
            groups.append(group)
            taken.update(group.nodes)
    return groups


def _layers(sheet: Sheet, layers: Sequence[Layer]) -> Iterator[Group]:
    nodes = {node.name: node for node in sheet.model.graph}
    for layer in layers:
        members = [nodes[name] for name in layer.nodes if name in nodes]
        if not members or members[0].domain:
            continue
        if layer.op_type in ROOTS:
            members = _multiplied(sheet, members)
            yield Group(members, _sum(members, layer.fused))
        elif layer.op_type == "Add" and len(members) > 1:
            yield Group(members, _complete(members, lower_add))


def _multiplied(sheet: Sheet, nodes: list[Node]) -> list[Node]:
    """The layer; of a product of two activations no more than its factors: an Add may be a Softmax's mask."""
    if any(value in sheet.constants for value in nodes[0].inputs[:2]):
        return nodes
    kept = nodes[:1]
    for node in nodes[1:]:
        value = kept[-1].outputs[0]  # a GELU begins with a Div too, and reads what it divides once more
        if not is_op(node, "Mul", "Div") or len(list(value.uses())) != 1 or value.is_graph_output():
            break
        kept.append(node)
    return kept


def _sum(nodes: list[Node], label: str) -> Callable[[Sheet], list[Node]]:
    return lambda sheet: lower_sum(sheet, nodes, label)


def _complete(
    nodes: list[Node], rule: Callable[[Sheet, Sequence[Node]], None]
) -> Callable[[Sheet], list[Node]]:
    """A rule that takes in all of its nodes."""

    def run(sheet: Sheet) -> list[Node]:
        rule(sheet, nodes)
        return []

    return run


def _behind_adds(sheet: Sheet) -> Iterator[Group]:
    """Norms and softmaxes that alone read an Add: of a residual, of a mask."""
    rules = {"LayerNormalization": lower_layer_norm, "Softmax": lower_softmax}
    for node in sheet.model.graph:
        rule = rules.get(node.op_type) if not node.domain else None
        value = node.inputs[0] if rule is not None else None
        add = value.producer() if value is not None else None
        if rule is None or value is None or add is None or not is_op(add, "Add"):
            continue
        if len(list(value.uses())) == 1 and not value.is_graph_output():
            yield Group([add, node], _complete([add, node], rule))


def _behind_norms(sheet: Sheet) -> Iterator[Group]:
    """A Relu, a Clip or a slope that alone reads a BatchNormalization."""
    ends = ("Relu", "Clip", "LeakyRelu", "PRelu")
    for node in sheet.model.graph:
        uses = list(node.outputs[0].uses()) if is_op(node, "BatchNormalization") else []
        if len(uses) == 1 and not node.outputs[0].is_graph_output() and is_op(uses[0].node, *ends):
            nodes = [node, uses[0].node]
            yield Group(nodes, _complete(nodes, lower_batchnorm))


def _activations(sheet: Sheet) -> Iterator[Group]:
    """Functions that exporters write as several nodes."""
    view, profile = View(sheet.model), PROFILES["intact"]
    for op in view.ops:
        for source in dict.fromkeys(op.inputs):
            if source is None or view.is_constant(source):
                continue
            found = activation_behind(view, profile, source)
            if found is None or len(found.ops) < 2 or found.ops[0] is not op:
                continue
            if (entry := _entry(found, source)) is not None:
                nodes = [one.node for one in found.ops]
                yield Group(nodes, _function(nodes, found.label, entry, found.output))


def _entry(found: Activation, source: Value) -> Value | None:
    """What the activation reads, where it is one value and no pair stands within."""
    entries = set[Value | None]()
    for op in found.ops:
        for seen, real in zip(op.inputs, op.node.inputs, strict=True):
            if seen is source:
                entries.add(real)
            elif any(seen is other.outputs[0] for other in found.ops) and seen is not real:
                return None
    return entries.pop() if len(entries) == 1 else None


def _function(nodes: list[Node], label: str, entry: Value, output: Value) -> Callable[[Sheet], list[Node]]:
    def run(sheet: Sheet) -> list[Node]:
        lower_function(sheet, nodes, label, entry, output)
        return []

    return run

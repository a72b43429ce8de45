"""Groups of nodes that are lowered together: placement's layers, norms, masks and compound activations.

Placement decides what is rounded as one, this file what runs as one although nothing in it is rounded
(docs/decisions/0027-where-fusion-is-decided.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.fused import Fused, fused_nodes
from intact.engine.lower.rules.elements.add import lower_add
from intact.engine.lower.rules.elements.function import lower_function
from intact.engine.lower.rules.products.dynamic_conv import (
    ScaledConv,
    find_scaled_conv,
    lower_scaled_conv,
)
from intact.engine.lower.rules.reductions.batch_normalization import lower_batch_norm
from intact.engine.lower.rules.reductions.layer_norm import lower_layer_norm
from intact.engine.lower.rules.reductions.softmax import lower_softmax
from intact.engine.lower.rules.table import LAYERS, lower_layer_in_codes, lower_layer_in_floats
from intact.graph import Node, Value, is_op
from intact.placement import PROFILES, Activation, Fusion, View, activation_behind


@dataclass(frozen=True)
class Group:
    """Nodes that become one step, if `rule` finds that they can.

    Attributes:
        nodes: In the graph's order.
        rule: Writes the step; returns the nodes that it left over.
    """

    nodes: list[Node]
    rule: Callable[[PlanBuilder], list[Node]]


def claim(builder: PlanBuilder, fusions: Sequence[Fusion]) -> list[Group]:
    """Collect the groups of more than one node, and every root; each node is in one group at most."""
    claimed: set[Node] = set()
    groups: list[Group] = []
    candidates = (
        *_layers(builder, fusions),
        *_dynamic_convs(builder),
        *_behind_adds(builder),
        *_behind_norms(builder),
        *_activations(builder),
    )
    for group in candidates:
        if not builder.constants.isdisjoint(group.nodes[-1].outputs):
            continue  # what it makes is known: readers take the array
        if not claimed.intersection(group.nodes):
            groups.append(group)
            claimed.update(group.nodes)
    return groups


def _layers(builder: PlanBuilder, fusions: Sequence[Fusion]) -> Iterator[Group]:
    nodes = {node.name or "": node for node in builder.model.graph}
    for fusion in fusions:
        fused = fused_nodes(fusion, nodes)
        if fused is None or fused.root.domain:
            continue
        if fused.root.op_type in LAYERS:
            if not any(value in builder.constants for value in fused.root.inputs[:2]):
                fused = fused.factors()  # no more of a product of two: an Add may be a Softmax's mask
            yield Group(fused.nodes, _sum(fused))
        elif is_op(fused.root, "Add") and len(fused.nodes) > 1:
            yield Group(fused.nodes, _complete(fused.nodes, lower_add))


def _dynamic_convs(builder: PlanBuilder) -> Iterator[Group]:
    """Yield each ConvInteger with what makes floats of its sums."""
    for node in builder.model.graph:
        conv = find_scaled_conv(builder, node) if is_op(node, "ConvInteger") else None
        if conv is not None:
            yield Group(conv.nodes, partial(_lower_conv, conv=conv))


def _lower_conv(builder: PlanBuilder, conv: ScaledConv) -> list[Node]:
    lower_scaled_conv(builder, conv)
    return []


def _sum(fused: Fused) -> Callable[[PlanBuilder], list[Node]]:
    """Return the rule of a sum: in codes, or in float where its operands are, or no integer form exists."""

    def run(builder: PlanBuilder) -> list[Node]:
        try:
            with builder.attempt():
                return lower_layer_in_codes(builder, fused)
        except NoMatch as why:
            left = lower_layer_in_floats(builder, fused)
            builder.reasons.setdefault(fused.root, str(why))
            return left

    return run


def _complete(
    nodes: list[Node], rule: Callable[[PlanBuilder, Sequence[Node]], None]
) -> Callable[[PlanBuilder], list[Node]]:
    """Return a rule that covers all of its nodes."""

    def run(builder: PlanBuilder) -> list[Node]:
        rule(builder, nodes)
        return []

    return run


def _behind_adds(builder: PlanBuilder) -> Iterator[Group]:
    """Yield norms and softmaxes that alone read an Add: of a residual, of a mask."""
    rules = {"LayerNormalization": lower_layer_norm, "Softmax": lower_softmax}
    for node in builder.model.graph:
        rule = rules.get(node.op_type) if not node.domain else None
        value = node.inputs[0] if rule is not None else None
        add = value.producer() if value is not None else None
        if rule is None or value is None or add is None or not is_op(add, "Add"):
            continue
        if len(list(value.uses())) == 1 and not value.is_graph_output():
            yield Group([add, node], _complete([add, node], rule))


def _behind_norms(builder: PlanBuilder) -> Iterator[Group]:
    """Yield each BatchNormalization with the Relu, Clip or slope that alone reads it."""
    ends = ("Relu", "Clip", "LeakyRelu", "PRelu")
    for node in builder.model.graph:
        uses = list(node.outputs[0].uses()) if is_op(node, "BatchNormalization") else []
        if len(uses) == 1 and not node.outputs[0].is_graph_output() and is_op(uses[0].node, *ends):
            nodes = [node, uses[0].node]
            yield Group(nodes, _complete(nodes, lower_batch_norm))


def _activations(builder: PlanBuilder) -> Iterator[Group]:
    """Yield functions that exporters write as several nodes."""
    view, profile = View(builder.model, builder.constants), PROFILES["intact"]
    for op in view.ops:
        for source in dict.fromkeys(op.inputs):
            if source is None or view.is_constant(source):
                continue
            activation = activation_behind(view, profile, source)
            if activation is None or len(activation.ops) < 2 or activation.ops[0] is not op:
                continue
            if (entry := _entry(activation, source)) is not None:
                nodes = [member.node for member in activation.ops]
                yield Group(nodes, _function(nodes, activation.label, entry, activation.output))


def _entry(activation: Activation, source: Value) -> Value | None:
    """Return the single value that an activation reads; None where it has several or a pair stands within."""
    entries = set[Value | None]()
    for op in activation.ops:
        for seen, real in zip(op.inputs, op.node.inputs, strict=True):
            if seen is source:
                entries.add(real)
            elif any(seen is other.outputs[0] for other in activation.ops) and seen is not real:
                return None
    return entries.pop() if len(entries) == 1 else None


def _function(
    nodes: list[Node], label: str, entry: Value, output: Value
) -> Callable[[PlanBuilder], list[Node]]:
    def run(builder: PlanBuilder) -> list[Node]:
        lower_function(builder, nodes, label, entry, output)
        return []

    return run

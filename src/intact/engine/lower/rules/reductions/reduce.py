"""Lowers reductions of floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.chain import Shape, StepChain
from intact.engine.lower.base.rule import Rule
from intact.engine.lower.passes.output_sizes import axes_from_front
from intact.engine.steps import Reduce
from intact.graph import Node, ops

_REDUCTIONS = {
    "GlobalAveragePool": "mean", "GlobalMaxPool": "max", "ReduceMax": "max", "ReduceMean": "mean",
    "ReduceMin": "min", "ReduceSum": "sum",
}  # fmt: skip


def lower_reduce(builder: PlanBuilder, node: Node) -> None:
    """Lower a reduction of floats along any axes."""
    value, source = node.outputs[0], builder.either(node.inputs[0])
    rank = len(builder.tensors[source].shape)
    axes: tuple[int, ...] = tuple(range(2, rank))
    keepdims = True
    if node.op_type.startswith("Reduce"):
        keepdims = bool(ops.Reduction.of(node).keepdims)
        axes = axes_of_reduction(builder, node, rank)
    y = builder.write(builder.output(value), value)
    step_names = node.name or "", (node.name or "",)
    builder.add(Reduce(*step_names, source, y, _REDUCTIONS[node.op_type], axes, keepdims), node)


def axes_of_reduction(builder: PlanBuilder, node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes of a Reduce operator, ascending, from 0 on.

    Raises:
        NoMatch: They are not constant.
    """
    op = ops.Reduction.of(node)
    axes = op.axes_of(node, builder.constants)
    if axes is None:
        raise NoMatch("its axes is not a constant")
    everything = () if op.noop_with_empty_axes else range(rank)
    return tuple(sorted(set(axes_from_front(node, axes, rank)) or everything))


def reduction_of(builder: PlanBuilder, node: Node) -> tuple[str, Shape, tuple[int, ...], bool, Shape]:
    """Return a reduction's input, its shape, the axes, `keepdims`, and the shape with the axes as 1."""
    x, op = builder.real(node.inputs[0]), ops.Reduction.of(node)
    shape = builder.tensors[x].shape
    axes = axes_of_reduction(builder, node, len(shape))
    reduced: Shape = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return x, shape, axes, bool(op.keepdims), reduced


def sum_of(before: str, behind: str) -> Rule:
    """Return the rule for a sum of squares or magnitudes, and a function of it; "" for none."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        x, shape, axes, keepdims, _ = reduction_of(builder, node)
        chain = StepChain(builder, node)
        if before == "square":
            x = chain.binary("mul", x, x, shape)
        elif before == "magnitude":
            x = chain.binary("max", x, chain.binary("mul", x, chain.number("minus", -1.0), shape), shape)
        output_dims = dims_of(chain.value)
        reduced_sum = chain.reduce("sum", x, axes, keepdims, output_dims, "" if behind else chain.y)
        if behind:
            chain.function(behind, reduced_sum, output_dims, chain.y)

    return rule

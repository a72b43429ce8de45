"""Lowers comparisons, logic, choices and arithmetic of integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import Rule, plain, who
from intact.engine.steps import Dim, Elementwise, Tensor
from intact.graph import Node, ops
from intact.numerics import ELEMENTWISE, takes


def operation(name: str) -> Rule:
    """Return the rule for one step of all inputs."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        write_operation(builder, node, name, [plain(builder, value) for value in node.inputs])

    return rule


def _operation_of(name_of: Callable[[Node], str]) -> Rule:
    """Return the rule of an operation that the node's attributes name."""

    def rule(builder: PlanBuilder, node: Node) -> None:
        operation(name_of(node))(builder, node)

    return rule


def _infinite(node: Node) -> str:
    op = ops.IsInf.of(node)
    names = {(1, 1): "is_inf", (1, 0): "is_neg_inf", (0, 1): "is_pos_inf"}
    both = int(op.detect_negative != 0), int(op.detect_positive != 0)
    if both not in names:
        raise NoMatch("it looks for nothing")
    return names[both]


def write_operation(builder: PlanBuilder, node: Node, name: str, operands: Sequence[Tensor]) -> None:
    """Write the last step of a node."""
    dtype = operation_dtype(name, operands)
    y = builder.write_plain(node.outputs[0], dtype)
    builder.add(Elementwise(*who(node), name, tuple(x.name for x in operands), y), node)


def operation_dtype(name: str, operands: Sequence[Tensor], to: str = "") -> str:
    """Return the dtype of an operation's result.

    Raises:
        NoMatch: It does not work on these.
    """
    dtype = to or ELEMENTWISE[name].makes or operands[-1].dtype
    if not takes(name, [x.dtype for x in operands], dtype):
        raise NoMatch(f"no kernel has {name} of {', '.join(x.dtype for x in operands)}")
    return dtype


def operation_step(
    builder: PlanBuilder, node: Node, name: str, *operands: Tensor, shape: tuple[Dim, ...]
) -> Tensor:
    """Write a step whose output the graph does not have."""
    y = builder.scratch(f"{node.outputs[0].name}.{name}", operation_dtype(name, operands), shape)
    builder.add(Elementwise(*who(node), name, tuple(x.name for x in operands), y))
    return builder.tensors[y]


lower_is_inf = _operation_of(_infinite)
"""IsInf: of either sign, or of one."""
lower_mod = _operation_of(lambda node: "fmod" if ops.Mod.of(node).fmod else "mod")
"""Mod, with the sign of the divisor or of the dividend."""

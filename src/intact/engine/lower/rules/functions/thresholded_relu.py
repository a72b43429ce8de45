"""Lowers ThresholdedRelu."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain
from intact.engine.lower.rules.functions.sign import write_choice
from intact.graph import Node, ops


def lower_thresholded_relu(builder: PlanBuilder, node: Node) -> None:
    """Lower ThresholdedRelu: x where it is above alpha, else 0."""
    x = plain(builder, node.inputs[0])
    alpha = builder.hold(f"{node.name}.alpha", np.array(ops.ThresholdedRelu.of(node).alpha, np.float32))
    zero = builder.hold(f"{node.name}.zero", np.zeros((), np.float32))
    if x.dtype != "float32":
        raise NoMatch(f"no kernel has it of {x.dtype}")
    write_choice(builder, node, "greater", x, alpha, x.name, zero, last=True)

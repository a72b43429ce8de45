"""Writes the step of rotary position embedding, which is a part of fused attentions."""

from __future__ import annotations

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import who
from intact.engine.steps import Rotary
from intact.graph import Node


def write_rotary(
    builder: PlanBuilder,
    node: Node,
    x: str,
    last: str,
    tables: tuple[str, str],
    heads: int,
    interleaved: bool,
) -> str:
    """Rotate x by the positions that end with `last`; return the tensor.

    Args:
        builder: The plan.
        node: That the step is a part of.
        x: [batch, tokens, heads * size].
        last: Positions of the last tokens.
        tables: Constants, cosines and sines.
        heads, interleaved: As in `Rotary`.
    """
    y = builder.scratch(f"{x}.rotated", "float32", builder.tensors[x].shape)
    cosines, sines = tables
    builder.add(Rotary(*who(node), x, last, y, cosines, sines, heads, interleaved))
    return y

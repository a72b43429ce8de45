"""Lowers Sign."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import plain, who
from intact.engine.steps import Elementwise, Tensor
from intact.graph import Node
from intact.numerics import INTEGERS


def lower_sign(builder: PlanBuilder, node: Node) -> None:
    """Lower Sign: 1, -1 or 0, which a NaN is too."""
    x = plain(builder, node.inputs[0])
    if x.dtype not in {"float32", *INTEGERS}:
        raise NoMatch(f"no kernel knows the sign of {x.dtype}")
    numbers = {"zero": 0, "one": 1, "minus": -1}
    constants = {key: builder.hold(f"{node.name}.{key}", np.array(n, x.dtype)) for key, n in numbers.items()}
    below = write_choice(builder, node, "less", x, constants["zero"], constants["minus"], constants["zero"])
    write_choice(builder, node, "greater", x, constants["zero"], constants["one"], below, last=True)


def write_choice(
    builder: PlanBuilder,
    node: Node,
    test: str,
    x: Tensor,
    than: str,
    yes: str,
    no: str,
    *,
    last: bool = False,
) -> str:
    """Write steps that select `yes` where x is less or greater `than` a number, else `no`.

    `last`: their result is the output of the node.
    """
    name = node.outputs[0].name
    chosen = builder.scratch(f"{name}.{test}", "bool", x.shape)
    builder.add(Elementwise(*who(node), test, (x.name, than), chosen), *[node] * last)
    y = (
        builder.write_plain(node.outputs[0], x.dtype)
        if last
        else builder.scratch(f"{name}.part", x.dtype, x.shape)
    )
    builder.add(Elementwise(*who(node), "where", (chosen, yes, no), y))
    return y

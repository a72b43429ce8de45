"""Lowers Trilu to a choice by a constant mask."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import has, plain, who
from intact.engine.steps import Elementwise
from intact.graph import Node, ops


def lower_trilu(builder: PlanBuilder, node: Node) -> None:
    """Lower Trilu of planes of a known size: 0 where a constant mask says so."""
    x, upper = plain(builder, node.inputs[0]), ops.Trilu.of(node).upper
    rows, columns = x.shape[-2:] if len(x.shape) > 1 else ("", "")
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NoMatch("the size of its planes is not known")
    if rows * columns > _MOST_MASK:
        raise NoMatch(f"its mask would have {rows * columns} elements")
    diagonal = int(builder.constant(node.inputs[1], "its diagonal").reshape(-1)[0]) if has(node, 1) else 0
    away = np.arange(columns)[None] - np.arange(rows)[:, None]
    mask = builder.hold(f"{node.name}.mask", away >= diagonal if upper else away <= diagonal)
    zero = builder.hold(f"{node.name}.zero", np.zeros(1, x.dtype))
    y = builder.write_plain(node.outputs[0], x.dtype)
    builder.add(Elementwise(*who(node), "where", (mask, x.name, zero), y), node)


_MOST_MASK = 2**26  # elements, a byte each

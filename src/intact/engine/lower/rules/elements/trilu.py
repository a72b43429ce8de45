"""Lowers Trilu to a choice by a constant mask."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.operand import positions
from intact.engine.lower.base.rule import has, plain, who
from intact.engine.steps import Elementwise, Reshape, Tensor
from intact.graph import Node, ops


def lower_trilu(builder: PlanBuilder, node: Node) -> None:
    """Lower Trilu of planes of a known size: 0 where a constant mask says so."""
    x, upper = plain(builder, node.inputs[0]), ops.Trilu.of(node).upper
    rows, columns = x.shape[-2:] if len(x.shape) > 1 else ("", "")
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NoMatch("the size of its planes is not known")
    if rows * columns > _MOST_MASK:
        raise NoMatch(f"its mask would have {rows * columns} elements")
    diagonal = _diagonal(builder, node)
    away = np.arange(columns)[None] - np.arange(rows)[:, None]
    mask = builder.hold(f"{node.name}.mask", away >= diagonal if upper else away <= diagonal)
    _choose(builder, node, mask, x)


def lower_free_trilu(builder: PlanBuilder, node: Node) -> None:
    """Lower Trilu of planes of a free size: the mask is computed."""
    x, upper, name = plain(builder, node.inputs[0]), ops.Trilu.of(node).upper, node.outputs[0].name
    if len(x.shape) < 2 or not all(map(builder.is_told, x.shape[-2:])):
        raise NoMatch("the size of its planes is computed")
    rows, columns = x.shape[-2:]
    diagonal = builder.hold(f"{node.name}.diagonal", np.array(_diagonal(builder, node)))
    down = builder.scratch(f"{name}.rows", "int64", (rows, 1))
    builder.add(Reshape(*who(node), positions(builder, node, rows), down), node)
    along = positions(builder, node, columns)
    away = builder.scratch(f"{name}.away", "int64", (rows, columns))
    builder.add(Elementwise(*who(node), "sub", (along, down), away))
    mask = builder.scratch(f"{name}.mask", "bool", (rows, columns))
    comparison = "greater_or_equal" if upper else "less_or_equal"
    builder.add(Elementwise(*who(node), comparison, (away, diagonal), mask))
    _choose(builder, node, mask, x)


def _diagonal(builder: PlanBuilder, node: Node) -> int:
    return int(builder.constant(node.inputs[1], "its diagonal").reshape(-1)[0]) if has(node, 1) else 0


def _choose(builder: PlanBuilder, node: Node, mask: str, x: Tensor) -> None:
    """Write x where the mask is set, else 0."""
    zero = builder.hold(f"{node.name}.zero", np.zeros(1, x.dtype))
    y = builder.write_plain(node.outputs[0], x.dtype)
    builder.add(Elementwise(*who(node), "where", (mask, x.name, zero), y), node)


_MOST_MASK = 2**26  # elements, a byte each

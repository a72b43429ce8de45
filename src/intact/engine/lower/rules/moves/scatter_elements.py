"""Lowers ScatterElements."""

from __future__ import annotations

from dataclasses import replace

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.base.rule import data_or_constant, define_like, plain, who
from intact.engine.lower.rules.moves.gather import check_range
from intact.engine.steps import ScatterElements, Tensor
from intact.graph import Node, Value, ops
from intact.numerics import SCATTER_DTYPES, SCATTER_REDUCTIONS


def lower_scatter_elements(builder: PlanBuilder, node: Node) -> None:
    """Lower ScatterElements to one step, whose updates have the type, or the grid, of its data."""
    x, updates = tensors_alike(builder, node.inputs[0], node.inputs[2])
    index, op = plain(builder, node.inputs[1]), ops.ScatterElements.of(node)
    if not x.shape:
        raise NoMatch("it has no axis")
    axis, output_codes = op.axis % len(x.shape), with_codes_of_both(x, updates)
    check_range(builder, index, x.shape[axis])
    reduction = require_reduction(op.reduction, x)
    y = define_like(builder, node.outputs[0], output_codes)
    scatter = ScatterElements(*who(node), x.name, index.name, updates.name, y, axis, reduction)
    builder.add(scatter, node)


def tensors_alike(builder: PlanBuilder, *values: Value | None) -> list[Tensor]:
    """Return tensors or constants of one type: codes of one grid, stored alike, or numbers."""
    tensors = [data_or_constant(builder, v) for v in values]
    grids = {None if t.codes is None else (Grid.of(t.codes), t.codes.offset) for t in tensors}
    if len(grids) > 1:
        raise NoMatch("what it scatters has another grid than what it scatters onto")
    if len({t.dtype for t in tensors}) > 1:
        raise NoMatch("what it scatters has another type than what it scatters onto")
    return tensors


def with_codes_of_both(x: Tensor, updates: Tensor) -> Tensor:
    """Return x with the codes that occur in it or in its updates."""
    if x.codes is None or updates.codes is None:
        return x
    low, high = min(x.codes.low, updates.codes.low), max(x.codes.high, updates.codes.high)
    return replace(x, codes=replace(x.codes, low=low, high=high))


def require_reduction(name: str, x: Tensor) -> str:
    """Return the reduction of a scatter, once it is known to have a kernel.

    Raises:
        NoMatch: No kernel has it of this dtype.
    """
    if name != "none" and x.dtype not in SCATTER_DTYPES:
        raise NoMatch(f"no kernel has '{name}' of {x.dtype}")
    if name not in SCATTER_REDUCTIONS:
        raise NoMatch(f"its reduction is '{name}'")
    return name

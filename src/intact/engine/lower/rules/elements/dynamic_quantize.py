"""Lowers DynamicQuantizeLinear, and what other operators quantize by the ranges of what comes."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import who
from intact.engine.steps import Dim, DynamicQuantize
from intact.engine.steps.base.dims import expression
from intact.graph import Node, Value


def lower_dynamic_quantize_linear(builder: PlanBuilder, node: Node) -> None:
    """Lower a DynamicQuantizeLinear: uint8, one range for all of x."""
    x = builder.real(node.inputs[0])
    y, scale, zero = node.outputs
    codes = builder.write_plain(y, "uint8")
    ranges = _write_range(builder, scale, "float32"), _write_range(builder, zero, "uint8")
    builder.add(DynamicQuantize(*who(node), x, codes, *ranges, 0), node)


def _write_range(builder: PlanBuilder, value: Value, dtype: str) -> str:
    """Define the tensor of a scale or zero point; one that is left out is there all the same."""
    if not value.name:
        return builder.scratch("range", dtype, ())
    dims_of(value)  # or it is not known
    return builder.write_plain(value, dtype)


def quantize_whole(builder: PlanBuilder, node: Node, x: str) -> tuple[str, str, str]:
    """Write a DynamicQuantizeLinear of x; returns its codes, scale and zero point."""
    return _write(builder, node, x, 0, "uint8", "uint8")


def quantize_blocks(builder: PlanBuilder, node: Node, x: str, block: int) -> tuple[str, str]:
    """Return the int8 codes of x in blocks along its last axis, and their scales."""
    codes, scales, _ = _write(builder, node, x, block, "int8", "")
    return codes, scales


def _write(
    builder: PlanBuilder, node: Node, x: str, block: int, dtype: str, zero_dtype: str
) -> tuple[str, str, str]:
    """Write the step, unless another layer that reads the same x has done so.

    Raises:
        NoMatch: It has no axis.
    """
    for step in builder.steps:
        if not isinstance(step, DynamicQuantize) or (step.x, step.block) != (x, block):
            continue
        if bool(step.zero_points) == bool(zero_dtype):
            return step.y, step.scales, step.zero_points
    shape = builder.tensors[x].shape
    if not shape:
        raise NoMatch("it has no axis")
    ranges = (*shape[:-1], _blocks(shape[-1], block, f"{x}.blocks")) if block else ()
    codes = builder.scratch(f"{x}.codes", dtype, shape)
    scales = builder.scratch(f"{x}.scales", "float32", ranges)
    zeros = builder.scratch(f"{x}.zeros", zero_dtype, ranges) if zero_dtype else ""
    builder.add(DynamicQuantize(*who(node), x, codes, scales, zeros, block))
    return codes, scales, zeros


def _blocks(size: Dim, block: int, name: str) -> Dim:
    """Return how many blocks an axis has: a size of its own where nobody can say it."""
    more = expression("+", size, block - 1)
    count = None if more is None else expression("/", more, block)
    return name if count is None else count

"""Lowers Gemm, in codes and in floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.float_weights import (
    bias_row,
    float_weight,
    operand_or_constant,
    scale_array,
    write_floats,
)
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.rules.products.float_linear import write_float_linear
from intact.engine.lower.rules.products.float_matmul import write_float_matmul
from intact.engine.lower.rules.products.linear import lower_linear
from intact.engine.steps import Binary, Transpose
from intact.graph import Node, ops


def lower_gemm(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a Gemm of codes with a constant weight."""
    node = fused.root
    op = ops.Gemm.of(node)
    if op.transA:
        raise NoMatch("its first operand is transposed")
    return lower_linear(builder, fused, op.weight_axis, op.alpha, op.beta)


def lower_gemm_in_floats(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower Gemm of floats: a constant B takes alpha in, a C that is a constant row beta."""
    node, op, value = fused.root, ops.Gemm.of(fused.root), fused.root.outputs[0]
    a, b = node.inputs[:2]
    c = node.inputs[2] if len(node.inputs) > 2 and op.beta else None  # a C times 0 is not read: N51
    x = _transpose(builder, node, builder.real(a), "a") if op.transA else builder.real(a)
    weight, bias = None, None
    if b in builder.constants:
        weight = float_weight(builder, b)
        weight = scale_array(weight.T if op.transB else weight, op.alpha)
        bias = bias_row(builder, c, weight.shape[1])
    elif op.alpha != 1:
        raise NoMatch("it scales a product of two tensors")
    if c is None or bias is not None:
        output = write_floats(builder, value)
    elif op.beta != 1:
        raise NoMatch("it scales what it adds, which is no constant row")
    else:
        name, added = node.name or "", operand_or_constant(builder, c)
        output = builder.scratch(f"{value.name}.product", "float32", dims_of(value))
        builder.add(Binary(name, (name,), "add", output, added, write_floats(builder, value)), node)
    if weight is not None:
        write_float_linear(
            builder, [node], x, output, weight, None if bias is None else scale_array(bias, op.beta)
        )
    else:
        right = _transpose(builder, node, builder.real(b), "b") if op.transB else builder.real(b)
        write_float_matmul(builder, node, x, right, output)
    return [node]


def _transpose(builder: PlanBuilder, node: Node, x: str, key: str) -> str:
    """Write the transpose of a matrix."""
    rows, columns = builder.tensors[x].shape
    y = builder.scratch(f"{node.name}.{key}.T", "float32", (columns, rows))
    builder.add(Transpose(node.name or "", (node.name or "",), x, y, (1, 0)))
    return y

"""Lowers MatMul, in codes and in floats."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.epilogue import Tail, finish
from intact.engine.lower.base.float_weights import (
    Floats,
    bias_row,
    float_weight,
    operand_or_constant,
    write_floats,
)
from intact.engine.lower.base.fused import Fused
from intact.engine.lower.base.weighted_layer import take_tail
from intact.engine.lower.rules.products.float_linear import write_float_linear
from intact.engine.lower.rules.products.float_matmul import write_float_matmul
from intact.engine.lower.rules.products.linear import lower_linear
from intact.engine.steps import Codes, Dim, MatMul
from intact.graph import Node, is_op


def lower_matmul(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a MatMul of codes: with a constant weight as Gemm, else as a product of two tensors."""
    node = fused.root
    if node.inputs[1] in builder.constants:
        return lower_linear(builder, fused, 1)
    if node.inputs[0] in builder.constants:
        raise NoMatch("its first operand is a constant")
    (a, first), (b, second) = (builder.require_codes(v) for v in node.inputs[:2])
    if min(len(builder.tensors[a].shape), len(builder.tensors[b].shape)) < 2:
        raise NoMatch("one of its operands is a vector")
    most = _prove_product(first, second, builder.tensors[a].shape[-1], builder.tensors[b].shape[-2])
    tail = Tail([node], node.outputs[0])
    left = take_tail(builder, fused, tail)
    epilogue, output = finish(builder, tail, (first.scale, second.scale), node.name or "", most=most)
    done = tuple(n.name or "" for n in tail.nodes)
    builder.add(MatMul(node.name or "", done, a, b, output.name, epilogue), *tail.nodes)
    return left


def _prove_product(a: Codes, b: Codes, *inner: Dim) -> int:
    """Return the largest magnitude of a sum."""
    size = next((n for n in inner if isinstance(n, int)), LONGEST)
    if _reach(a) * _reach(b) * size >= 2**31:
        raise NoMatch(f"sums of {size} products could leave int32")
    return _reach(a) * _reach(b) * size


def _reach(codes: Codes) -> int:
    return max(codes.high - codes.zero_point, codes.zero_point - codes.low)


LONGEST = 32768
"""A sequence of unknown length is taken to be no longer: 255 * 255 * 32768 < 2**31."""


def lower_matmul_in_floats(builder: PlanBuilder, fused: Fused) -> list[Node]:
    """Lower a MatMul of floats: with a constant matrix and the bias behind it, or of two tensors."""
    node = fused.root
    a, b = node.inputs[:2]
    if b is not None and b in builder.constants and b.shape is not None and len(b.shape) == 2:
        weight = float_weight(builder, b)
        bias, last = _bias_behind(builder, fused, weight.shape[1])
        x, y = builder.real(a), write_floats(builder, [node, *last][-1].outputs[0])
        return write_float_linear(builder, [node, *last], x, y, weight, bias)
    operands = operand_or_constant(builder, a), operand_or_constant(builder, b)
    write_float_matmul(builder, node, *operands, write_floats(builder, node.outputs[0]))
    return [node]


def _bias_behind(builder: PlanBuilder, fused: Fused, outputs: int) -> tuple[Floats | None, list[Node]]:
    """Return the constant row that the first node behind a product adds, and that node."""
    add, product = fused.affine[0] if fused.affine else None, fused.root.outputs[0]
    if add is None or not is_op(add, "Add") or product.is_graph_output() or len(list(product.uses())) != 1:
        return None, []
    other_inputs = [value for value in add.inputs if value is not product]
    # A row of as many numbers as the product has changes no size but that of a lower rank.
    if len(other_inputs) != 1 or len(dims_of(add.outputs[0])) != len(dims_of(product)):
        return None, []
    bias = bias_row(builder, other_inputs[0], outputs)
    return bias, [] if bias is None else [add]

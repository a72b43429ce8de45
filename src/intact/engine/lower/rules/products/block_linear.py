"""Lowers products whose activations get their ranges while they run, and products with weights in blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.block_constants import has_block_codes, hold_blocks
from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of, is_float32
from intact.engine.lower.base.float_weights import bias_vector, write_floats
from intact.engine.lower.base.operand import plain_operand
from intact.engine.lower.base.rule import who
from intact.engine.lower.rules.elements.dynamic_quantize import quantize_blocks, quantize_whole
from intact.engine.lower.rules.products.block_float_linear import write_block_floats
from intact.engine.lower.rules.products.float_linear import write_float_linear
from intact.engine.steps import BlockLinear
from intact.engine.steps.base.block_constants import misfit
from intact.errors import FileFormatError
from intact.graph import Node, Value, input_of, ops, read_block_weight
from intact.numerics import BlockWeights, dequantize_blocks, has_block_product, has_exact_sums


def lower_matmul_nbits(builder: PlanBuilder, node: Node) -> None:
    """Lower a MatMulNBits by N70: at accuracy level 4 a product of codes, else of floats."""
    zero = input_of(node, 3)
    if input_of(node, 4) is not None and zero is not None and _is_codes(zero):
        raise NoMatch("its zero points are codes and its blocks have an order: ONNX Runtime ignores them")
    weights = _read_weights(builder, node)
    in_codes = has_block_product(weights, ops.MatMulNBits.of(node).accuracy_level)
    _lower_reals(builder, node, weights, weights.block_size if in_codes else 0)


def lower_matmul_bnb4(builder: PlanBuilder, node: Node) -> None:
    """Lower a MatMulBnb4: floats times the floats of nf4 or bitsandbytes' fp4 (N67, N51)."""
    _lower_reals(builder, node, _read_weights(builder, node), 0)


def lower_block_linear(builder: PlanBuilder, node: Node) -> None:
    """Lower a BlockLinear: a product of floats, or of codes in blocks of `x_block` elements."""
    _lower_reals(builder, node, _read_weights(builder, node), ops.BlockLinear.of(node).x_block)


def _read_weights(builder: PlanBuilder, node: Node) -> BlockWeights:
    for index in range(1, 9):
        if (value := input_of(node, index)) is not None and value not in builder.constants:
            raise NoMatch(f"its input {index} is computed")
    try:
        return read_block_weight(node, builder.constants)
    except FileFormatError as error:
        raise NoMatch(f"{error.where} is {error.got}") from error


def _lower_reals(builder: PlanBuilder, node: Node, weights: BlockWeights, x_block: int) -> None:
    """Write the product of real inputs: of floats, or of codes in blocks where `x_block` is not 0."""
    bias = bias_vector(builder, input_of(node, 5), weights.shape[0])
    x = builder.real(node.inputs[0])
    if x_block:
        codes, scales = quantize_blocks(builder, node, x, x_block)
        _write_product(builder, node, (codes, scales, ""), weights, bias, x_block)
        return
    y = write_floats(builder, node.outputs[0])
    if has_block_codes(weights):
        write_block_floats(builder, [node], x, y, weights, bias)
    else:
        write_float_linear(builder, [node], x, y, np.ascontiguousarray(dequantize_blocks(weights).T), bias)


def _is_codes(value: Value) -> bool:
    """Return whether zero points are packed codes, not floats."""
    return value.dtype is not None and value.dtype.name == "UINT8"


def lower_dynamic_matmul(builder: PlanBuilder, node: Node) -> None:
    """Lower a DynamicQuantizeMatMul: a DynamicQuantizeLinear, and a product with constant codes."""
    codes, scale, zero = quantize_whole(builder, node, builder.real(node.inputs[0]))
    _lower_integers(builder, node, (codes, scale, zero), (2, 3, 4))


def lower_matmul_integer_to_float(builder: PlanBuilder, node: Node) -> None:
    """Lower a MatMulIntegerToFloat with a constant matrix."""
    operands = [plain_operand(builder, input_of(node, index)) for index in (0, 2, 4)]
    _lower_integers(builder, node, (operands[0], operands[1], operands[2]), (3, 5, 6))


def _lower_integers(
    builder: PlanBuilder, node: Node, x: tuple[str, str, str], at: tuple[int, int, int]
) -> None:
    """Write the product of codes with the constant matrix of codes at input 1.

    Args:
        x: Codes, scale and zero point.
        at: Inputs of the matrix's scale, its zero point and the bias.
    """
    matrix = builder.constant(node.inputs[1], "its matrix")
    scale = builder.constant(input_of(node, at[0]), "its matrix' scale")
    zero_value = input_of(node, at[1])
    zero = None if zero_value is None else builder.constant(zero_value, "its matrix' zero point")
    if matrix.ndim != 2 or matrix.dtype not in (np.int8, np.uint8) or scale.dtype != np.float32:
        raise NoMatch("its matrix is no matrix of int8 or uint8 codes")
    outputs = matrix.shape[1]
    for parameter in (scale, zero):
        if parameter is not None and parameter.size not in (1, outputs):
            raise NoMatch("its matrix' scales do not belong to its columns")
    bias = bias_vector(builder, input_of(node, at[2]), outputs)
    weights = BlockWeights(
        np.ascontiguousarray(matrix.T), matrix.dtype.name, _column(scale, outputs), max(matrix.shape[0], 1),
        None if zero is None else _column(zero, outputs),
    )  # fmt: skip
    _write_product(builder, node, x, weights, bias, weights.block_size)


def _column(parameter: NDArray[np.generic], outputs: int) -> NDArray[np.generic]:
    return np.ascontiguousarray(np.broadcast_to(parameter.reshape(-1), (outputs,)))[:, None]


def _write_product(
    builder: PlanBuilder, node: Node, x: tuple[str, str, str], weights: BlockWeights,
    bias: NDArray[np.float32] | None, x_block: int,
) -> None:  # fmt: skip
    """Write the step of a product; codes with a sign are stored without it."""
    codes, scales, points = x
    outputs, inputs = weights.shape
    if not weights.codes.size:
        raise NoMatch("its weights are empty")
    if why := misfit(inputs, weights.block_size, x_block):
        raise NoMatch(f"it has {why}")
    if not has_exact_sums(weights):
        raise NoMatch("the values of its codes are no whole numbers, of which sums are exact")
    tensor = builder.tensors.get(codes)
    if tensor is None or not tensor.shape or not is_float32(node.outputs[0]):
        raise NoMatch("it reads a constant or a single number, or makes something else than float32")
    dtype = tensor.dtype
    if dtype not in ("int8", "uint8") or (points and dtype == "int8"):
        raise NoMatch(f"its codes are {dtype}{' with zero points' if points else ''}")
    ranges = [builder.rank(name) for name in (scales, points) if name]
    if any(rank not in (0, len(tensor.shape)) for rank in ranges):
        raise NoMatch("its scale is a vector")
    source = node.inputs[1]
    base = (source.name if source is not None else node.name) or ""
    y = builder.write_plain(node.outputs[0], "float32")
    if dims_of(node.outputs[0])[-1:] != (outputs,):
        raise NoMatch("its output has other columns than its weights")
    step = BlockLinear(
        *who(node), codes, scales, y, **hold_blocks(builder, base, weights), x_block=x_block,
        x_zero_points=points, bias="" if bias is None else builder.hold(f"{node.name}.bias", bias),
    )  # fmt: skip
    builder.add(step, node)

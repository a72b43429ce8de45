"""Decompose MoE and QMoE of com.microsoft: the products of all experts, of which rows keep those they chose.

What they mean is said in ONNX Runtime's docs/ContribOperators.md, and for its CPU kernels in decision 0048.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, pi, sqrt

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import Writer
from intact.graph.core.edit import last_size, rank_of
from intact.graph.rewrites.contrib_attention import Inputs
from intact.numerics import BlockWeights, dequantize_blocks, join_stream, split_fields


def write_tanh_gelu(write: Writer, x: ir.Value) -> ir.Value:
    """Write ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``."""
    cube = write("Mul", write("Mul", x, write("Mul", x, x)), write.constant(0.044715))
    inner = write("Mul", write("Add", x, cube), write.constant(sqrt(2 / pi)))
    curve = write("Add", write("Tanh", inner), write.constant(1))
    return write("Mul", write("Mul", x, write.constant(0.5)), curve)


def write_swish(write: Writer, x: ir.Value, alpha: float = 1.0) -> ir.Value:
    """Write ``x * sigmoid(alpha * x)``."""
    scaled = x if alpha == 1 else write("Mul", x, write.constant(alpha))
    return write("Mul", x, write("Sigmoid", scaled))


_T = ir.DataType
_INT_BITS = (2, 4, 8)
_ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


@dataclass(frozen=True)
class _Product:
    """The matrices of all experts for one product.

    Attributes:
        write: Multiplies rows [n, inputs] by all of them and adds the biases: [n, experts * outputs].
        experts, outputs, inputs: Sizes of [experts, outputs, inputs].
    """

    write: Callable[[Writer, ir.Value], ir.Value]
    experts: int
    outputs: int
    inputs: int


def experts(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose MoE, whose routing weights are the softmax of all logits.

    Args:
        write: Puts the nodes into a graph.
        node: A MoE.
        inputs: What it reads, padded with None.
    Returns:
        What it makes; None, and no node, where weights are computed or it has another form.
    """
    form = ops.MoE.of(node)
    products = [_float_product(*inputs[at : at + 2]) for at in (2, 4, 6)]
    if not _is_known(form, inputs, products, weights=(inputs[2], inputs[4], inputs[6])):
        return None
    logits = inputs[1]
    assert logits is not None
    weights, index = _top_k(write, write("Softmax", logits, axis=-1), form.k)
    if form.normalize_routing_weights:
        weights = _normalize(write, weights)
    return [_mix(write, form, inputs, products, weights, index)]


def quantized_experts(
    write: Writer, node: ir.Node, inputs: Inputs, *, floats: bool = False
) -> list[ir.Value] | None:
    """Decompose QMoE, whose routing weights are the softmax of the logits that were chosen.

    Blocks of 8 bits, and those of 4 bits at `accuracy_level` 4, multiply codes of the rows in blocks of
    their size (N69); others multiply floats (N51), as in ONNX Runtime on a CPU.

    Args:
        floats: Multiply by the floats of the codes.
    Others, and results, as for `experts`.
    """
    form = ops.QMoE.of(node)
    if form.quant_type != "int" or form.weights_prepacked == 1 or any(inputs[15:]):
        return None
    products = []
    for at, own in enumerate(_bits_of(form)):
        codes, scales, bias = inputs[2 + 3 * at : 5 + 3 * at]
        blocks = _block_weights(codes, scales, inputs[11 + at], own, form.block_size)
        products.append(_code_product(form, blocks, bias, floats))
    if not _is_known(form, inputs, products, weights=(inputs[2], inputs[5], inputs[8])):
        return None
    logits, router = inputs[1], inputs[14]
    assert logits is not None
    weights, index = _top_k(write, logits, form.k)
    if router is None:
        weights = write("Softmax", weights, axis=-1)
    else:
        weights = write("GatherElements", router, index, axis=1)
        weights = _normalize(write, weights) if form.normalize_routing_weights else weights
    return [_mix(write, form, inputs, products, weights, index)]


def _bits_of(form: ops.QMoE) -> list[int]:
    own = (form.fc1_expert_weight_bits, form.fc2_expert_weight_bits, form.fc3_expert_weight_bits)
    return [bits or form.expert_weight_bits for bits in own]


def _is_known(
    form: ops.MoE, inputs: Inputs, products: list[_Product | None], weights: tuple[ir.Value | None, ...]
) -> bool:
    """Return whether all sizes and attributes are those of a form that is written here."""
    first, second, third = products
    x, logits = inputs[0], inputs[1]
    if x is None or logits is None or rank_of(x) not in (2, 3) or form.activation_type not in _ACTIVATIONS:
        return False
    if any((value is None) != (product is None) for value, product in zip(weights, products, strict=True)):
        return False
    is_gated = form.activation_type == "swiglu"
    fused = is_gated and form.swiglu_fusion in (1, 2)
    if first is None or second is None or (third is None) != (not is_gated or fused):
        return False
    if form.use_sparse_mixer or form.swiglu_limit_after_activation or not 1 <= form.k <= first.experts:
        return False
    parts = 2 if fused else 1
    count, hidden, inner = first.experts, first.inputs, first.outputs // parts
    fits = (second.experts, second.outputs, second.inputs) == (count, hidden, inner)
    fits &= third is None or (third.experts, third.outputs, third.inputs) == (count, inner, hidden)
    fits &= last_size(x) in (None, hidden) and last_size(logits) in (None, count)
    return fits and first.outputs == inner * parts


def _top_k(write: Writer, scores: ir.Value, k: int) -> tuple[ir.Value, ir.Value]:
    values = write("TopK", scores, write.sizes(k), axis=-1)
    return values, write.second_output(values, _T.INT64)


def _normalize(write: Writer, weights: ir.Value) -> ir.Value:
    return write("Div", weights, write("ReduceSum", weights, write.sizes(-1)))


def _mix(
    write: Writer, form: ops.MoE, inputs: Inputs, products: list[_Product | None], weights: ir.Value,
    index: ir.Value,
) -> ir.Value:  # fmt: skip
    """Write the experts' sum; `weights` and `index` are [rows, k]."""
    x, (first, second, third) = inputs[0], products
    assert x is not None and first is not None and second is not None
    is_flat = rank_of(x) == 2
    rows = x if is_flat else write("Reshape", x, write.sizes(-1, first.inputs))
    each = write("Unsqueeze", index, write.sizes(-1), dtype=_T.INT64)
    inner = _multiply_own(write, first, rows, each)
    values = None if third is None else _multiply_own(write, third, rows, each)
    inner = _activate(write, form, inner, values, second.inputs)
    inner = write("Reshape", inner, write.sizes(-1, second.inputs))
    own = write("Reshape", index, write.sizes(-1, 1), dtype=_T.INT64)
    outer = _multiply_own(write, second, inner, own)
    outer = write("Reshape", outer, write.sizes(-1, form.k, second.outputs))
    weighted = write("Mul", outer, write("Unsqueeze", weights, write.sizes(-1)))
    total = write("ReduceSum", weighted, write.sizes(1), keepdims=0)
    return total if is_flat else write("Reshape", total, write("Shape", x, dtype=_T.INT64))


def _multiply_own(write: Writer, product: _Product, rows: ir.Value, index: ir.Value) -> ir.Value:
    """Multiply rows by all experts and keep the outputs of those that `index` [rows, ..., 1] chooses."""
    sizes = write.sizes(-1, product.experts, product.outputs)
    return write("GatherND", write("Reshape", product.write(write, rows), sizes), index, batch_dims=1)


def _activate(write: Writer, form: ops.MoE, x: ir.Value, values: ir.Value | None, inner: int) -> ir.Value:
    """Write the activation of [rows, k, outputs]."""
    match form.activation_type:
        case "relu":
            return write("Relu", x)
        case "gelu":
            return write_tanh_gelu(write, x)
        case "silu":
            return write_swish(write, x)
        case "identity":
            return x
    gate = x
    if values is None:
        starts = (0, 1) if form.swiglu_fusion == 1 else (0, inner)
        step = 2 if form.swiglu_fusion == 1 else 1
        gate, values = (
            write("Slice", x, write.sizes(start), write.sizes(start + inner * step), write.sizes(-1),
                  write.sizes(step))
            for start in starts
        )  # fmt: skip
    if isfinite(form.swiglu_limit):
        limit = write.constant(form.swiglu_limit)
        gate = write("Clip", gate, None, limit)
        values = write("Clip", values, write.constant(-form.swiglu_limit), limit)
    if form.activation_beta:
        values = write("Add", values, write.constant(form.activation_beta))
    return write("Mul", write_swish(write, gate, form.activation_alpha), values)


def _float_product(weight: ir.Value | None, bias: ir.Value | None) -> _Product | None:
    """Return the product with constant matrices; None where they are computed or of other axes."""
    array, offsets = _array(weight), _array(bias)
    if array is None or array.ndim != 3 or not array.size or not _is_bias(bias, offsets, array.shape[:2]):
        return None
    count, outputs, inputs = array.shape
    matrix = np.ascontiguousarray(array.reshape(count * outputs, inputs).T)

    def multiply(write: Writer, rows: ir.Value) -> ir.Value:
        y = write("MatMul", rows, write.constant(matrix, matrix.dtype))
        return y if offsets is None else write("Add", y, write.constant(offsets.reshape(-1), offsets.dtype))

    return _Product(multiply, count, outputs, inputs)


def _code_product(
    form: ops.QMoE, weights: tuple[BlockWeights, int] | None, bias: ir.Value | None, floats: bool
) -> _Product | None:
    """Return the product with codes of all experts, or with their floats."""
    if weights is None:
        return None
    blocks, count = weights
    rows, inputs = blocks.shape
    offsets = _array(bias)
    if not _is_bias(bias, offsets, (count, rows // count)):
        return None
    added = np.zeros(0, np.float32) if offsets is None else offsets.reshape(-1)
    if floats:
        whole = dequantize_blocks(blocks).reshape(count, rows // count, inputs)
        value = ir.Value(name="", const_value=ir.Tensor(whole))
        return _float_product(value, bias)
    in_codes = form.block_size > 0 and (blocks.bits == 8 or (blocks.bits == 4 and form.accuracy_level == 4))

    def multiply(write: Writer, x: ir.Value) -> ir.Value:
        arrays = (join_stream(blocks.codes, blocks.bits, 1), blocks.scales, blocks.zero_points, None, added)
        constants = [
            write.constant(array, array.dtype) if array is not None and array.size else None
            for array in arrays
        ]
        return write(
            "BlockLinear", x, *constants, domain=ops.BlockLinear.domain, K=inputs,
            bits=blocks.bits, block=blocks.block_size, x_block=blocks.block_size if in_codes else 0,
        )  # fmt: skip

    return _Product(multiply, count, rows // count, inputs)


def _is_bias(bias: ir.Value | None, array: NDArray | None, shape: tuple[int, ...]) -> bool:
    return bias is None or (array is not None and array.shape == shape)


def _array(value: ir.Value | None) -> NDArray | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _block_weights(
    codes: ir.Value | None, scales: ir.Value | None, zeros: ir.Value | None, bits: int, block: int
) -> tuple[BlockWeights, int] | None:
    """Return the weights of all experts, one row of outputs behind the other, and how many experts there are.

    Args:
        codes: uint8 [experts, outputs, inputs * bits / 8], the first code in the lowest bits.
        scales: [experts, outputs], or [experts, outputs, inputs / block].
        zeros: Packed codes: of an expert's outputs, or of each output's blocks; None: half of the range.
        block: Elements of a block; 0 or less: a row.
    """
    packed, factors, points = _array(codes), _array(scales), _array(zeros)
    if packed is None or factors is None or (points is None) != (zeros is None) or bits not in _INT_BITS:
        return None
    if packed.dtype != np.uint8 or packed.ndim != 3 or not packed.size or factors.dtype != np.float32:
        return None
    count, outputs, width = packed.shape
    inputs = width * 8 // bits
    size = block if block > 0 else inputs
    ranges = (count, outputs, inputs // size) if block > 0 else (count, outputs)
    if inputs % size or factors.shape != ranges or (block > 0 and block % 8):
        return None
    blocks = inputs // size
    middle = np.full((count * outputs, blocks), 2 ** (bits - 1), np.uint8)
    if points is not None:
        line = blocks if block > 0 else outputs
        if points.dtype != np.uint8 or points.size * line != count * outputs * blocks * -(-line * bits // 8):
            return None
        fields = split_fields(points.reshape(count * outputs * blocks // line, -1), bits)[:, :line]
        middle = np.ascontiguousarray(fields).reshape(count * outputs, blocks)
    fields = split_fields(packed.reshape(count * outputs, width), bits)
    scales_of_rows = factors.reshape(count * outputs, blocks)
    return BlockWeights(fields, f"uint{bits}", scales_of_rows, size, middle), count

"""Decompose operators that ONNX Runtime's optimizers write, in its own domain, into ONNX's own.

What they mean is said in ONNX Runtime's docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph import ops
from intact.graph.core.build import Writer, is_read, sum_of, take_place
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import copy_attributes
from intact.graph.rewrites.contrib_attention import (
    Inputs,
    multi_head,
    quantized_self_attention,
    self_attention,
)
from intact.graph.rewrites.experts import experts, quantized_experts, write_swish, write_tanh_gelu
from intact.graph.rewrites.group_query_attention import cache_limitation, group_query
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene
from intact.graph.rewrites.rotary_embedding import rotate

_T = ir.DataType
_OPSET = 18
"""The first with LayerNormalization, which ONNX Runtime writes into older files too, and axes as inputs."""

_LAID_OUT = "com.microsoft.nchwc"
_FLOATS = (_T.FLOAT, _T.DOUBLE, _T.FLOAT16, _T.BFLOAT16)
_MOST = 24
"""Inputs of an operator, at most."""


@dataclass(frozen=True)
class _Rule:
    """Rule that decomposes one operator.

    Attributes:
        write: Makes its outputs in order; None, and no node, where it cannot.
        makes: The outputs that it can make.
    """

    write: Callable[[Writer, ir.Node, Inputs], Sequence[ir.Value] | None]
    makes: tuple[int, ...] = (0,)


def _decompose_fused(node: ir.Node, scene: Scene) -> Outcome:
    """Decompose an operator that ONNX Runtime fused.

    Gelu, BiasGelu, FastGelu, QuickGelu; FusedConv, FusedGemm, FusedMatMul; layer normalizations, with the sum
    in front of them and with the embeddings of BERT; attentions, and how they turn queries and keys, where
    sizes are known. Others stay.
    """
    rule = _RULES[node.op_type]
    if not node.inputs or node.inputs[0] is None:
        return None
    wanted = {at for at, old in enumerate(node.outputs) if is_read(old)}
    if not wanted <= set(rule.makes):
        return None
    inputs = (*node.inputs, *[None] * (_MOST - len(node.inputs)))
    types = [x.dtype for x in inputs if x is not None and x.dtype in (_T.FLOAT, _T.DOUBLE)]
    outputs = rule.write(Writer(node, scene.names, types[0] if types else _T.FLOAT), node, inputs)
    if outputs is None:
        return None
    by_output = dict(zip(rule.makes, outputs, strict=True))
    take_place(node, [by_output.get(at) for at in range(len(node.outputs))], scene.names)
    return f"{node.op_type} is written in ONNX's own operators"


def require_portable(model: ir.Model) -> None:
    """Refuse a model whose weights ONNX Runtime laid out for one machine.

    Raises:
        UnsupportedError: Names the first such node.
    """
    for node in model.graph:
        if node.domain == _LAID_OUT:
            raise UnsupportedError(
                f"node '{node.name}' ({node.op_type})", f"a layout that ONNX Runtime chose ({_LAID_OUT})",
                "operators of ONNX",
                "take the file that this one was made from, or save it with ORT_ENABLE_EXTENDED at most",
            )  # fmt: skip


def _gelu(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value]:
    """Write Gelu of the inputs' sum: ``x / 2 * (1 + erf(x / sqrt(2)))``."""
    x = sum_of(write, *inputs[:2])
    curve = write("Add", write("Erf", write("Div", x, write.constant(sqrt(2)))), write.constant(1))
    return [write("Mul", write("Mul", x, curve), write.constant(0.5))]


def _fast_gelu(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value]:
    """Write FastGelu of the inputs' sum: ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))``."""
    return [write_tanh_gelu(write, sum_of(write, *inputs[:2]))]


def _quick_gelu(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value]:
    """Write QuickGelu: ``x * sigmoid(alpha * x)``."""
    x = inputs[0]
    assert x is not None
    return [write_swish(write, x, ops.QuickGelu.of(node).alpha)]


def _conv(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose a convolution with an activation, to which Z is added in front of it."""
    x, weight, bias, addend = inputs[:4]
    form = ops.FusedConv.of(node)
    kind, numbers = form.activation, form.activation_params
    if not _knows(kind, numbers):
        return None
    read = [x, weight] if bias is None else [x, weight, bias]
    conv_output = write.names(
        write("Conv", *read, **copy_attributes(node, "activation", "activation_params"))
    )
    return [_activate(write, kind, sum_of(write, conv_output, addend), numbers)]


def _gemm(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Decompose a Gemm with an activation."""
    form = ops.FusedGemm.of(node)
    parameters = (form.activation_alpha, form.activation_beta, form.activation_gamma)
    kind, numbers = form.activation, [number for number in parameters if number is not None]
    if not _knows(kind, numbers):
        return None
    read = inputs[:2] if inputs[2] is None else inputs[:3]
    rest = copy_attributes(node, "activation", *(f"activation_{name}" for name in ("alpha", "beta", "gamma")))
    return [_activate(write, kind, write.names(write("Gemm", *read, **rest)), numbers)]


_NUMBERS = {"": 0, "Relu": 0, "Tanh": 0, "Sigmoid": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}
"""Least number of parameters of each activation."""


def _knows(kind: str, numbers: Sequence[float]) -> bool:
    return kind in _NUMBERS and len(numbers) >= _NUMBERS[kind]


def _activate(write: Writer, kind: str, x: ir.Value, numbers: Sequence[float]) -> ir.Value:
    if kind == "Clip":
        return write("Clip", x, write.constant(numbers[0]), write.constant(numbers[1]))
    if kind == "LeakyRelu":
        return write(kind, x, alpha=numbers[0])
    if kind == "HardSigmoid":
        return write(kind, x, alpha=numbers[0], beta=numbers[1])
    return write(kind, x) if kind else x


def _matmul(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Write FusedMatMul: ``alpha * A @ B``, of which each may be transposed first."""
    form = ops.FusedMatMul.of(node)
    sides = [(inputs[0], form.transA), (inputs[1], form.transB)]
    if form.transBatchA or form.transBatchB:
        return None
    if any(turned and (x is None or x.shape is None) for x, turned in sides):
        return None
    read = [_transpose_last_axes(write, x) if turned and x is not None else x for x, turned in sides]
    product_output, alpha = write.names(write("MatMul", *read)), form.alpha
    return [product_output if alpha == 1 else write("Mul", product_output, write.constant(alpha))]


def _transpose_last_axes(write: Writer, x: ir.Value) -> ir.Value:
    """Exchange the last two axes; a vector stays."""
    rank = 0 if x.shape is None else len(x.shape)
    return x if rank < 2 else write("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


def _norm(
    write: Writer, x: ir.Value, gamma: ir.Value | None, beta: ir.Value | None, epsilon: float
) -> ir.Value:
    read = [x, gamma] if beta is None else [x, gamma, beta]
    return write.names(write("LayerNormalization", *read, axis=-1, epsilon=epsilon))


def _rms(write: Writer, x: ir.Value, gamma: ir.Value | None, epsilon: float) -> ir.Value:
    """Write a root mean square normalization: ``x / sqrt(mean(x^2) + epsilon) * gamma``."""
    mean = write("ReduceMean", write("Mul", x, x), write.sizes(-1))
    root = write("Sqrt", write("Add", mean, write.constant(epsilon)))
    return write.names(write("Mul", write("Div", x, root), gamma))


def _skip_norm(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value]:
    """Write LayerNormalization of a sum, and the sum."""
    x, skip, gamma, beta, bias = inputs[:5]
    total = _add_skip(write, x, skip, bias)
    return [_norm(write, total, gamma, beta, ops.SkipLayerNormalization.of(node).epsilon), total]


def _skip_rms(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value]:
    """Write root mean square normalization of a sum, and the sum."""
    x, skip, gamma, bias = inputs[:4]
    total = _add_skip(write, x, skip, bias)
    return [_rms(write, total, gamma, ops.SkipSimplifiedLayerNormalization.of(node).epsilon), total]


def _add_skip(write: Writer, x: ir.Value | None, skip: ir.Value | None, bias: ir.Value | None) -> ir.Value:
    """Return the sum of all; a bias goes to the product that it was made for, which takes it in."""
    if bias is not None and skip is not None and x is not None and is_op(skip.producer(), "MatMul", "Gemm"):
        x, skip = skip, x
    return sum_of(write, x, bias, skip)


def _plain_rms(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Write root mean square normalization along the last axis."""
    x, gamma = inputs[:2]
    form = ops.SimplifiedLayerNormalization.of(node)
    axis = form.axis
    if x is None or (axis != -1 and (x.shape is None or axis != len(x.shape) - 1)):
        return None
    return [_rms(write, x, gamma, form.epsilon)]


def _embeddings(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Look up, add and normalize embeddings of words, places and segments.

    Return lengths and the sum, too.
    """
    words, segments, word_table, place_table, segment_table, gamma, beta, mask, places = inputs[:9]
    if words is None or place_table is None:
        return None
    if places is None:
        length = write(
            "Slice", write("Shape", words, dtype=_T.INT64), *map(write.sizes, (1, 2)), dtype=_T.INT64
        )
        at = write("Slice", place_table, write.sizes(0), length)
    else:
        at = write("Gather", place_table, places, axis=0)
    total = write("Add", write("Gather", word_table, words, axis=0), at)
    if segments is not None and segment_table is not None:
        total = write("Add", total, write("Gather", segment_table, segments, axis=0))
    unmasked = mask if mask is not None else write("Sub", words, words, dtype=words.dtype)
    lengths = write("ReduceSum", unmasked, write.sizes(1), keepdims=0, dtype=unmasked.dtype)
    lengths = write("Cast", lengths, to=int(_T.INT32), dtype=_T.INT32)
    epsilon = ops.EmbedLayerNormalization.of(node).epsilon
    return [_norm(write, total, gamma, beta, epsilon), lengths, total]


def _rotary(write: Writer, node: ir.Node, inputs: Inputs) -> list[ir.Value] | None:
    """Rotate pairs of elements by the position of their row: given for each, or counted from one number
    on."""
    x, places, cos, sin = inputs[:4]
    form = ops.RuntimeRotaryEmbedding.of(node)
    if form.is_packed_batching or form.scale != 1 or places is None:
        return None
    y = rotate(write, node, x, cos, sin, places)
    return None if y is None else [y]


_LAYERS = {
    "BiasGelu": _Rule(_gelu),
    "EmbedLayerNormalization": _Rule(_embeddings, (0, 1, 2)),
    "FastGelu": _Rule(_fast_gelu),
    "FusedConv": _Rule(_conv),
    "FusedGemm": _Rule(_gemm),
    "FusedMatMul": _Rule(_matmul),
    "Gelu": _Rule(_gelu),
    "QAttention": _Rule(quantized_self_attention, (0, 1)),
    "QMoE": _Rule(quantized_experts),
    "QuickGelu": _Rule(_quick_gelu),
    "SimplifiedLayerNormalization": _Rule(_plain_rms),
    "SkipLayerNormalization": _Rule(_skip_norm, (0, 3)),
    "SkipSimplifiedLayerNormalization": _Rule(_skip_rms, (0, 3)),
}
_ROTARY = {"RotaryEmbedding": _Rule(_rotary)}
_EXPERTS = {"MoE": _Rule(experts)}
_ATTENTIONS = {
    "Attention": _Rule(self_attention, (0, 1)),
    "GroupQueryAttention": _Rule(group_query, (0, 1, 2)),
    "MultiHeadAttention": _Rule(multi_head, (0, 1, 2)),
    "QAttention": _Rule(quantized_self_attention, (0, 1)),
}
_RULES = {**_LAYERS, **_EXPERTS, **_ROTARY, **_ATTENTIONS}


def _rewrite(name: str, operators: Iterable[str], *domains: str) -> Rewrite:
    return Rewrite(
        name,
        _decompose_fused,
        tuple(operators),
        (*domains, MICROSOFT),
        requires=Requires(opset=_OPSET),
        ensures=Ensures(shapes=True),
    )


FUSED = (
    _rewrite("write out SimplifiedLayerNormalization", ["SimplifiedLayerNormalization"], ""),
    _rewrite("write out fused layers", _LAYERS),
    _rewrite("write out float experts", _EXPERTS),
    _rewrite("write out fused RotaryEmbedding", _ROTARY),
    _rewrite("write out fused attention", _ATTENTIONS),
)
"""One after the other: each needs what those before it tell."""

FLOAT_EXPERTS = FUSED[2]
"""Its form multiplies by all experts, which is of use only where the products get codes (decision 0048)."""

FUSED_ATTENTION_BESIDE_CACHES = replace(
    FUSED[-1],
    matches=lambda node: node.op_type != "GroupQueryAttention" or bool(cache_limitation(node)),
)
"""The last of them, but attention to a cache stays where the engine has a step for it."""

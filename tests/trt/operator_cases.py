"""One small network for each layer of TensorRT, the types that its page allows, and what NumPy answers.

The types are at least those of the data types on the pages of TensorRT's operators (10.3 to 10.12); where a
page names none, those of the comments in NvInfer.h of 11.1. Layers that only move data move codes of 4 bits
and FP8, too. Codes of INT8 go into layers that compute as a Dequantize layer gives them, and leave through a
Quantize layer: so a strongly typed network says it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.trt.networks import (
    above_zero,
    at_least_one,
    constant,
    constant_like,
    fractions,
    with_attributes,
)

import intact.trt as trt

A, E, U = trt.ActivationType, trt.ElementWiseOperation, trt.UnaryOperation
NONE = trt.MatrixOperation.NONE
SHAPE = (2, 4, 4)
IMAGE = (1, 2, 4, 4)
Network = trt.INetworkDefinition
Make = Callable[..., Any]
FLOATS = "float32 float16 bfloat16"
INTEGERS = "int32 int64"
NUMBERS = f"{FLOATS} {INTEGERS}"
MOVED = f"{NUMBERS} bool int8"
STORED = f"{MOVED} fp8 int4 fp4"
TYPES = {name: getattr(trt, name) for name in f"{STORED} uint8".split()}


@dataclass(frozen=True)
class Case:
    """A layer as a network has it.

    Attributes:
        method: The call of the network that adds it.
        types: Those of its data; "codes" is INT8 that a Dequantize layer turns into floats.
        make: Adds the layer to a network, given its data; returns the layer, or a tensor.
        result: What it gives, from arrays of float64 or the integers themselves.
        gives: Type of the output; "" is that of the data.
        shape: Of the data.
        data: Makes the data; None: small whole numbers.
    """

    method: str
    types: str
    make: Make
    result: Callable[[np.ndarray], np.ndarray]
    gives: str = ""
    shape: Sequence[int] = SHAPE
    data: Callable[[Sequence[int]], np.ndarray] | None = None


def _activation(
    kind: A, result: Callable[[np.ndarray], np.ndarray], types: str = FLOATS, **more: Any
) -> Case:
    return Case(
        "add_activation", types, lambda n, x: with_attributes(n.add_activation(x, kind), **more), result
    )


def _gelu(a: np.ndarray) -> np.ndarray:
    return a * (1 + np.vectorize(math.erf)(a / math.sqrt(2))) / 2


def _tanh_gelu(a: np.ndarray) -> np.ndarray:
    return a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2


ACTIVATIONS = {
    "relu": _activation(A.RELU, lambda a: np.maximum(a, 0), f"{NUMBERS} codes"),
    "sigmoid": _activation(A.SIGMOID, lambda a: 1 / (1 + np.exp(-a)), f"{FLOATS} codes"),
    "tanh": _activation(A.TANH, np.tanh, f"{FLOATS} codes"),
    "leaky_relu": _activation(A.LEAKY_RELU, lambda a: np.where(a < 0, a / 4, a), alpha=0.25),
    "elu": _activation(A.ELU, lambda a: np.where(a < 0, 0.5 * np.expm1(a), a), alpha=0.5),
    "selu": _activation(A.SELU, lambda a: 2.0 * np.where(a < 0, 0.5 * np.expm1(a), a), alpha=0.5, beta=2.0),
    "softsign": _activation(A.SOFTSIGN, lambda a: a / (1 + np.abs(a))),
    "softplus": _activation(A.SOFTPLUS, lambda a: 0.5 * np.log1p(np.exp(2.0 * a)), alpha=0.5, beta=2.0),
    "clip": _activation(A.CLIP, lambda a: np.clip(a, -1, 1), alpha=-1.0, beta=1.0),
    "hard_sigmoid": _activation(A.HARD_SIGMOID, lambda a: np.clip(a / 4 + 0.5, 0, 1), alpha=0.25, beta=0.5),
    "scaled_tanh": _activation(A.SCALED_TANH, lambda a: 2 * np.tanh(a / 2), alpha=2.0, beta=0.5),
    "thresholded_relu": _activation(A.THRESHOLDED_RELU, lambda a: np.where(a > 0.5, a, 0), alpha=0.5),
    "gelu_erf": _activation(A.GELU_ERF, _gelu),
    "gelu_tanh": _activation(A.GELU_TANH, _tanh_gelu),
}


def _unary(
    kind: U,
    result: Callable[[np.ndarray], np.ndarray],
    types: str = FLOATS,
    data: Any = None,
    gives: str = "",
) -> Case:
    return Case("add_unary", types, lambda n, x: n.add_unary(x, kind), result, gives, data=data)


UNARIES = {
    "exp": _unary(U.EXP, np.exp), "log": _unary(U.LOG, np.log, data=above_zero),
    "sqrt": _unary(U.SQRT, np.sqrt, data=above_zero),
    "recip": _unary(U.RECIP, np.reciprocal, data=above_zero),
    "abs": _unary(U.ABS, np.abs, f"{NUMBERS} codes"), "neg": _unary(U.NEG, np.negative, f"{NUMBERS} codes"),
    "sign": _unary(U.SIGN, np.sign, f"{NUMBERS} codes"),
    "sin": _unary(U.SIN, np.sin), "cos": _unary(U.COS, np.cos), "tan": _unary(U.TAN, np.tan),
    "sinh": _unary(U.SINH, np.sinh), "cosh": _unary(U.COSH, np.cosh),
    "asin": _unary(U.ASIN, np.arcsin, data=fractions), "acos": _unary(U.ACOS, np.arccos, data=fractions),
    "atan": _unary(U.ATAN, np.arctan), "asinh": _unary(U.ASINH, np.arcsinh),
    "acosh": _unary(U.ACOSH, np.arccosh, data=at_least_one),
    "atanh": _unary(U.ATANH, np.arctanh, data=lambda s: fractions(s) / 2),
    "ceil": _unary(U.CEIL, np.ceil, data=fractions), "floor": _unary(U.FLOOR, np.floor, data=fractions),
    "round": _unary(U.ROUND, np.rint, data=fractions),
    "erf": _unary(U.ERF, lambda a: np.vectorize(math.erf)(a)),
    "not": _unary(U.NOT, np.logical_not, "bool"),
    "isinf": _unary(U.ISINF, np.isinf, gives="bool"), "isnan": _unary(U.ISNAN, np.isnan, gives="bool"),
}  # fmt: skip


def _binary(
    kind: E, result: Callable[[Any, Any], Any], types: str = NUMBERS, gives: str = "", data: Any = None
) -> Case:
    def make(n: Network, x: trt.ITensor) -> Any:
        other = constant_like(n, x, np.ones(SHAPE) if types == "bool" else np.full(SHAPE, 2))
        return n.add_elementwise(x, other, kind)

    second = np.True_ if types == "bool" else 2
    return Case("add_elementwise", types, make, lambda a: result(a, second), gives, data=data)


def _division(a: np.ndarray, b: int) -> np.ndarray:
    return np.trunc(a / b).astype(a.dtype) if a.dtype.kind == "i" else a / b


ARITHMETIC = f"{NUMBERS} codes"
BINARIES = {
    "sum": _binary(E.SUM, np.add, ARITHMETIC), "prod": _binary(E.PROD, np.multiply, ARITHMETIC),
    "max": _binary(E.MAX, np.maximum, ARITHMETIC), "min": _binary(E.MIN, np.minimum, ARITHMETIC),
    "sub": _binary(E.SUB, np.subtract, ARITHMETIC), "div": _binary(E.DIV, _division, ARITHMETIC),
    "pow": _binary(E.POW, np.power, f"{FLOATS} codes", data=above_zero),
    "floor_div": _binary(E.FLOOR_DIV, np.floor_divide, ARITHMETIC),
    "and": _binary(E.AND, np.logical_and, "bool"), "or": _binary(E.OR, np.logical_or, "bool"),
    "xor": _binary(E.XOR, np.logical_xor, "bool"),
    "equal": _binary(E.EQUAL, np.equal, gives="bool"),
    "greater": _binary(E.GREATER, np.greater, gives="bool"), "less": _binary(E.LESS, np.less, gives="bool"),
}  # fmt: skip


def _reduction(kind: trt.ReduceOperation, result: Callable[..., np.ndarray]) -> Case:
    return Case(
        "add_reduce", f"{NUMBERS} codes", lambda n, x: n.add_reduce(x, kind, 2, True),
        lambda a: _integral(result(a, axis=1, keepdims=True), a),
    )  # fmt: skip


def _integral(result: np.ndarray, a: np.ndarray) -> np.ndarray:
    """An average of integers is rounded towards zero."""
    return np.trunc(result).astype(a.dtype) if a.dtype.kind == "i" else result


R = trt.ReduceOperation
REDUCTIONS = {
    "reduce_sum": _reduction(R.SUM, np.sum), "reduce_prod": _reduction(R.PROD, np.prod),
    "reduce_max": _reduction(R.MAX, np.max), "reduce_min": _reduction(R.MIN, np.min),
    "reduce_avg": _reduction(R.AVG, np.mean),
}  # fmt: skip


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(2, keepdims=True))
    return e / e.sum(2, keepdims=True)


def _top(output: int) -> Make:
    return lambda n, x: n.add_topk(x, trt.TopKOperation.MAX, 1, 4).get_output(output)


def _one_hot(n: Network, x: trt.ITensor) -> Any:
    return n.add_one_hot(constant(n, np.int32([2, 0])), x, constant(n, np.int32(3)), -1)


def _softmax_of_rows(n: Network, x: trt.ITensor) -> Any:
    return n.add_ragged_softmax(x, constant(n, np.full((2, 4, 1), 3, np.int32)))


def _softmax_of_three(a: np.ndarray) -> np.ndarray:
    return np.concatenate([_softmax(a[:, :, :3]), np.zeros_like(a[:, :, 3:])], 2)


def _loop(n: Network, x: trt.ITensor) -> Any:
    """Three turns that carry a state."""
    loop = n.add_loop()
    loop.add_trip_limit(constant(n, np.int32(3)), trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    state.set_input(1, n.add_shuffle(state.get_output(0)).get_output(0))
    return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)


def _conditional(n: Network, x: trt.ITensor) -> Any:
    conditional = n.add_if_conditional()
    conditional.set_condition(constant(n, np.True_))
    inside = conditional.add_input(x).get_output(0)
    first, second = (n.add_identity(inside).get_output(0) for _ in range(2))
    return conditional.add_output(first, second)


def _scatter(n: Network, x: trt.ITensor) -> Any:
    return n.add_scatter(
        x,
        constant(n, np.zeros((1, 4, 4), np.int32)),
        constant_like(n, x, np.ones((1, 4, 4))),
        trt.ScatterMode.ELEMENT,
    )


def _first_rows_of_ones(a: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones_like(a[:1]), a[1:]])


def _slice_with_filling(n: Network, x: trt.ITensor) -> Any:
    layer = n.add_slice(x, (0, 1, 0), (2, 4, 4), (1, 1, 1))
    layer.mode = trt.SampleMode.FILL
    layer.set_input(4, constant_like(n, x, 1))
    return layer


def _reverse(a: np.ndarray) -> np.ndarray:
    """The first two, and then three, of the columns the other way round."""
    turned = a.copy()
    for batch, length in enumerate((2, 3)):
        turned[:length, batch] = a[:length, batch][::-1]
    return turned


MOVES = {
    "shuffle": Case(
        "add_shuffle",
        f"{STORED} uint8",
        lambda n, x: with_attributes(n.add_shuffle(x), first_transpose=(0, 2, 1)),
        lambda a: a.transpose(0, 2, 1),
    ),
    "squeeze": Case(
        "add_squeeze",
        STORED,
        lambda n, x: n.add_squeeze(x, constant(n, np.int32([1]))),
        lambda a: a[:, 0],
        shape=(4, 1, 4),
    ),
    "unsqueeze": Case(
        "add_unsqueeze",
        STORED,
        lambda n, x: n.add_unsqueeze(x, constant(n, np.int32([1]))),
        lambda a: a[:, None],
    ),
    "concatenate": Case(
        "add_concatenation",
        STORED,
        lambda n, x: n.add_concatenation([x, x]),
        lambda a: np.concatenate([a, a]),
    ),
    "slice": Case(
        "add_slice",
        STORED,
        lambda n, x: n.add_slice(x, (0, 1, 0), (1, 2, 2), (1, 1, 1)),
        lambda a: a[:1, 1:3, :2],
    ),
    "slice_wrap": Case(
        "add_slice",
        STORED,
        lambda n, x: with_attributes(
            n.add_slice(x, (1, 0, 0), (2, 4, 4), (1, 1, 1)), mode=trt.SampleMode.WRAP
        ),
        lambda a: np.roll(a, -1, 0),
    ),
    "slice_fill": Case(
        "add_slice",
        "float32 float16 int32 bool int8 fp8",
        _slice_with_filling,
        lambda a: np.concatenate([a[:, 1:], np.ones_like(a[:, :1])], 1),
    ),
    "slice_clamp": Case(
        "add_slice",
        "float32 float16 int32 bool int8",
        lambda n, x: with_attributes(
            n.add_slice(x, (0, 1, 0), (2, 4, 4), (1, 1, 1)), mode=trt.SampleMode.CLAMP
        ),
        lambda a: np.concatenate([a[:, 1:], a[:, -1:]], 1),
    ),
    "gather": Case(
        "add_gather", STORED, lambda n, x: n.add_gather(x, constant(n, np.int32([1])), 0), lambda a: a[1:]
    ),
    "gather_int64": Case(
        "add_gather", STORED, lambda n, x: n.add_gather(x, constant(n, np.int64([1])), 0), lambda a: a[1:]
    ),
    "gather_elements": Case(
        "add_gather_v2",
        STORED,
        lambda n, x: n.add_gather_v2(x, constant(n, np.ones((1, 4, 4), np.int32)), trt.GatherMode.ELEMENT),
        lambda a: a[1:],
    ),
    "gather_nd": Case(
        "add_gather_v2",
        STORED,
        lambda n, x: n.add_gather_v2(x, constant(n, np.int32([[1]])), trt.GatherMode.ND),
        lambda a: a[1:],
    ),
    "scatter": Case("add_scatter", MOVED, _scatter, _first_rows_of_ones),
    "select": Case(
        "add_select",
        f"{NUMBERS} bool",
        lambda n, x: n.add_select(
            constant(n, np.arange(32).reshape(SHAPE) % 2 == 0), x, constant_like(n, x, np.ones(SHAPE))
        ),
        lambda a: np.where(np.arange(32).reshape(SHAPE) % 2 == 0, a, np.ones_like(a)),
    ),
    "reverse_sequence": Case(
        "add_reverse_sequence",
        f"{NUMBERS} bool",
        lambda n, x: n.add_reverse_sequence(x, constant(n, np.int32([2, 3]))),
        _reverse,
        shape=(4, 2, 4),
    ),
    "one_hot": Case(
        "add_one_hot",
        f"{NUMBERS} bool",
        _one_hot,
        lambda a: np.stack([[a[0], a[0], a[1]], [a[1], a[0], a[0]]]),
        shape=(2,),
    ),
    "pad": Case(
        "add_padding_nd",
        FLOATS,
        lambda n, x: n.add_padding_nd(x, (1, 0), (0, 1)),
        lambda a: np.pad(a, ((0, 0), (0, 0), (1, 0), (0, 1))),
        shape=(1, 2, 4, 4),
    ),
    "identity": Case("add_identity", f"{STORED} uint8", lambda n, x: n.add_identity(x), lambda a: a),
    "shape": Case(
        "add_shape", f"{STORED} uint8", lambda n, x: n.add_shape(x), lambda a: np.int64(a.shape), "int64"
    ),
    "loop": Case("add_loop", NUMBERS, _loop, lambda a: a),
    "conditional": Case("add_if_conditional", f"{NUMBERS} bool", _conditional, lambda a: a),
}


def _windows(a: np.ndarray) -> np.ndarray:
    """Two axes more, of windows of two by two."""
    return a.reshape(1, 2, 2, 2, 2, 2).swapaxes(3, 4)


def _pool(kind: trt.PoolingType, result: Callable[..., np.ndarray]) -> Case:
    def make(n: Network, x: trt.ITensor) -> Any:
        return with_attributes(n.add_pooling_nd(x, kind, (2, 2)), stride_nd=(2, 2))

    return Case(
        "add_pooling_nd", f"{FLOATS} codes", make, lambda a: result(_windows(a), axis=(4, 5)), shape=IMAGE
    )


def _rows(a: np.ndarray) -> np.ndarray:
    """Normalize the last axis, with a variance of the whole row."""
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)


def _normalize(n: Network, x: trt.ITensor) -> Any:
    scale, bias = (constant_like(n, x, np.full((1, 1, 4), v)) for v in (1, 0))
    return n.add_normalization(x, scale, bias, 4)


def _convolve(method: str) -> Case:
    def make(n: Network, x: trt.ITensor) -> Any:
        kernel = np.eye(2).reshape(2, 2, 1, 1).astype(x.dtype.numpy)
        bias = trt.Weights(np.ones(2, x.dtype.numpy))
        return getattr(n, method)(x, 2, (1, 1), trt.Weights(kernel), bias)

    return Case(method, f"{FLOATS} codes", make, lambda a: a + 1, shape=IMAGE)


def _scale(method: str, mode: trt.ScaleMode, count: int) -> Case:
    def make(n: Network, x: trt.ITensor) -> Any:
        return getattr(n, method)(x, mode, *(np.full(count, v, x.dtype.numpy) for v in (1, 2, 1)))

    return Case(method, f"{FLOATS} codes", make, lambda a: 2 * a + 1, shape=IMAGE)


def _identity_grid(n: Network, x: trt.ITensor) -> Any:
    places = np.linspace(-1, 1, 4)
    grid = np.stack(np.meshgrid(places, places), -1)[None]
    return with_attributes(
        n.add_grid_sample(x, constant_like(n, x, grid)),
        align_corners=True,
        interpolation_mode=trt.InterpolationMode.NEAREST,
    )


def _rotary(n: Network, x: trt.ITensor) -> Any:
    """A quarter turn: the halves change places, one with another sign."""
    cos, sin = (constant_like(n, x, np.full((1, 4, 2), v)) for v in (0, 1))
    return n.add_rotary_embedding(x, cos, sin, False, 0)


def _attention(n: Network, x: trt.ITensor) -> Any:
    layer = n.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)
    layer.decomposable = True
    return layer.get_output(0)


def _attend(a: np.ndarray) -> np.ndarray:
    scores = a @ a.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ a


FLOATING = {
    "softmax": Case(
        "add_softmax", f"{FLOATS} codes", lambda n, x: with_attributes(n.add_softmax(x), axes=4), _softmax
    ),
    "ragged_softmax": Case("add_ragged_softmax", FLOATS, _softmax_of_rows, _softmax_of_three),
    "prelu": Case(
        "add_parametric_relu",
        f"{FLOATS} codes",
        lambda n, x: n.add_parametric_relu(x, constant_like(n, x, np.full((1, 1, 1), 0.5))),
        lambda a: np.where(a < 0, a / 2, a),
    ),
    "scale": _scale("add_scale", trt.ScaleMode.UNIFORM, 1),
    "scale_nd": _scale("add_scale_nd", trt.ScaleMode.CHANNEL, 2),
    "matmul": Case(
        "add_matrix_multiply",
        f"{FLOATS} codes",
        lambda n, x: n.add_matrix_multiply(x, NONE, x, NONE),
        lambda a: a @ a,
    ),
    "einsum": Case("add_einsum", FLOATS, lambda n, x: n.add_einsum([x, x], "abc,acd->abd"), lambda a: a @ a),
    "convolution": _convolve("add_convolution_nd"),
    "deconvolution": _convolve("add_deconvolution_nd"),
    "max_pool": _pool(trt.PoolingType.MAX, np.max),
    "average_pool": _pool(trt.PoolingType.AVERAGE, np.mean),
    "lrn": Case(
        "add_lrn",
        FLOATS,
        lambda n, x: n.add_lrn(x, 1, 1.0, 0.5, 1.0),
        lambda a: a / np.sqrt(1 + a * a),
        shape=IMAGE,
    ),
    "resize": Case(
        "add_resize",
        f"{FLOATS} codes",
        lambda n, x: with_attributes(n.add_resize(x), shape=(1, 2, 8, 4)),
        lambda a: a.repeat(2, 2),
        shape=IMAGE,
    ),
    "grid_sample": Case("add_grid_sample", FLOATS, _identity_grid, lambda a: a, shape=IMAGE),
    "normalization": Case("add_normalization", FLOATS, _normalize, _rows),
    "rotary": Case(
        "add_rotary_embedding",
        FLOATS,
        _rotary,
        lambda a: np.concatenate([-a[..., 2:], a[..., :2]], -1),
        shape=IMAGE,
    ),
    "attention": Case("add_attention", FLOATS, _attention, _attend, shape=IMAGE),
    "top_values": Case("add_topk", NUMBERS, _top(0), lambda a: a.max(2, keepdims=True)),
    "top_indices": Case("add_topk", NUMBERS, _top(1), lambda a: a.argmax(2)[..., None], "int32"),
    "cumulative": Case(
        "add_cumulative",
        NUMBERS,
        lambda n, x: n.add_cumulative(x, constant(n, np.int32(1)), trt.CumulativeOperation.SUM, False, False),
        lambda a: a.cumsum(1),
    ),
    "non_zero": Case(
        "add_non_zero",
        f"{NUMBERS} bool",
        lambda n, x: n.add_non_zero(x),
        lambda a: np.stack(np.nonzero(a)),
        "int32",
    ),
    "non_zero_int64": Case(
        "add_non_zero",
        f"{NUMBERS} bool",
        lambda n, x: n.add_non_zero(x, trt.int64),
        lambda a: np.stack(np.nonzero(a)),
        "int64",
    ),
}
CASES = {**ACTIVATIONS, **UNARIES, **BINARIES, **REDUCTIONS, **MOVES, **FLOATING}
PAIRS = [(name, kind) for name, case in CASES.items() for kind in case.types.split()]

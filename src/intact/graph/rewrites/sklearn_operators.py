"""Decompose ai.onnx.ml operators of scikit-learn pipelines into ONNX's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Writer, take_place
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene

_FLOAT = ir.DataType.FLOAT


def _decompose_ml(node: ir.Node, scene: Scene) -> Outcome:
    """Write an operator of ai.onnx.ml that computes on tensors of numbers as ONNX's own.

    Scaler, Normalizer, Imputer, Binarizer, ArrayFeatureExtractor and LinearRegressor; the types and shapes of
    what is behind them are known then, and rules and kernels see through. Others stay: trees, encoders, maps.
    """
    x = node.inputs[0] if node.inputs else None
    if x is None or len(node.outputs) != 1:
        return None
    result = _RULES[node.op_type](Writer(node, scene.names), node, x)
    if result is None:
        return None
    result.shape = node.outputs[0].shape if result.shape is None else result.shape
    take_place(node, [result], scene.names)
    return f"{node.op_type} is written in ONNX's own operators"


def _fits(x: ir.Value, *parameters: Sequence[float]) -> bool:
    """Return whether each of `parameters` is one number, or has one for each entry of the last axis."""
    size = x.shape[-1] if x.shape is not None and len(x.shape) else None
    return all(
        len(parameter) == 1 or (len(parameter) > 1 and size in (len(parameter), None))
        for parameter in parameters
    )


def _real(write: Writer, x: ir.Value) -> ir.Value:
    """Cast x to float32: these operators take whole numbers, too."""
    return x if x.dtype == _FLOAT else write("Cast", x, to=int(_FLOAT))


def _scaler(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write Scaler: ``(x - offset) * scale``."""
    form = ops.Scaler.of(node)
    offset, scale = form.offset, form.scale
    if not _fits(x, offset, scale):
        return None
    less = write("Sub", _real(write, x), write.constant(offset))
    return write("Mul", less, write.constant(scale))


def _normalizer(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write Normalizer: each row over its norm; a row whose norm is 0 stays."""
    if x.shape is None or len(x.shape) not in (1, 2):
        return None
    real, axes = _real(write, x), write.constant([-1], np.int64)
    kind = ops.Normalizer.of(node).norm
    if kind == "MAX":
        norm = write("ReduceMax", real, axes=[-1])
    elif kind == "L1":
        norm = write("ReduceSum", write("Abs", real), axes)
    elif kind == "L2":
        norm = write("Sqrt", write("ReduceSum", write("Mul", real, real), axes))
    else:
        return None
    none = write("Equal", norm, write.constant(0), dtype=ir.DataType.BOOL)
    return write("Div", real, write("Where", none, write.constant(1), norm))


def _imputer(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write Imputer: another number replaces the one that stands for a missing value."""
    if x.dtype != _FLOAT:
        return None
    form = ops.Imputer.of(node)
    instead, missing = form.imputed_value_floats, form.replaced_value_float
    if not _fits(x, instead):
        return None
    if math.isnan(missing):
        is_missing = write("IsNaN", x, dtype=ir.DataType.BOOL)
    else:
        is_missing = write("Equal", x, write.constant(missing), dtype=ir.DataType.BOOL)
    return write("Where", is_missing, write.constant(instead), x)


def _binarizer(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write Binarizer: 1 above the threshold, else 0."""
    if x.dtype != _FLOAT:
        return None
    threshold = write.constant(ops.Binarizer.of(node).threshold)
    above = write("Greater", x, threshold, dtype=ir.DataType.BOOL)
    return write("Cast", above, to=int(_FLOAT))


def _features(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write ArrayFeatureExtractor: some entries of the last axis; of a vector as one row."""
    indices = node.inputs[1]
    if x.shape is None or indices is None:
        return None
    flat = write("Reshape", indices, write.constant([-1], np.int64), dtype=indices.dtype)
    picked = write("Gather", x, flat, dtype=x.dtype, axis=len(x.shape) - 1)
    if len(x.shape) > 1:
        return picked
    return write("Reshape", picked, write.constant([1, -1], np.int64), dtype=x.dtype)


def _linear(write: Writer, node: ir.Node, x: ir.Value) -> ir.Value | None:
    """Write a Gemm for a linear classifier or regressor."""
    form = ops.LinearRegressor.of(node)
    weights, bias, targets = form.coefficients, form.intercepts, form.targets
    plain = form.post_transform == "NONE"
    if not plain or targets < 1 or not weights or len(weights) % targets or len(bias) not in (0, targets):
        return None
    if x.shape is None or len(x.shape) != 2:
        return None
    matrix = write.constant(np.array(weights, np.float32).reshape(targets, -1).T)
    more = [write.constant(bias)] if bias else []
    return write("Gemm", _real(write, x), matrix, *more)


_RULES: dict[str, Callable[[Writer, ir.Node, ir.Value], ir.Value | None]] = {
    "Scaler": _scaler,
    "Normalizer": _normalizer,
    "Imputer": _imputer,
    "Binarizer": _binarizer,
    "ArrayFeatureExtractor": _features,
    "LinearRegressor": _linear,
}
"""Operator -> what writes it out; None where it has to stay."""


ML = Rewrite(
    "write out operators of scikit-learn",
    _decompose_ml,
    tuple(_RULES),
    domains=(ops.ML,),
    requires=Requires(opset=13),
    ensures=Ensures(shapes=True),
)

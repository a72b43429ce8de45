"""Evaluation of operators on constant floats, with the same bits as the engine's steps (N66).

Constants are folded with it, by torch's exporter too, and tables of codes are made with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact import numerics
from intact.graph.ops import FUNCTIONS, Function
from intact.graph.ops.attributes import has_references, values

Reals = NDArray[np.float32]
Attributes = Mapping[str, Any]
MOST_TERMS = 2**12
_MOST_POWER = 64


def float_value(op_type: str, attributes: Attributes, operands: Sequence[Any]) -> Reals | None:
    """Compute an operator on float32 arrays.

    Args:
        op_type: Of ONNX's own operators.
        attributes: Its attributes by name; what is left out has ONNX's default.
        operands: Arrays; None where an operand is left out.
    Returns:
        float32; None for operators whose result IEEE 754 decides, for those that are not known here, and for
        operands whose shapes do not fit each other.

    Rule N66.
    """
    first = operands[0] if operands else None
    if not isinstance(first, np.ndarray) or first.dtype != np.float32:
        return None
    rule, record = _RULES.get(op_type), FUNCTIONS.get(op_type)
    try:
        with np.errstate(all="ignore"):
            if record is not None:
                result = _function_value(record, attributes, operands)
            else:
                result = None if rule is None else rule(attributes, *operands)
    except ValueError:  # of NumPy, about shapes
        return None
    return None if result is None else np.asarray(result, np.float32)


def float_value_of(node: ir.Node, operands: Sequence[Any]) -> Reals | None:
    """Compute `float_value` of a node."""
    if node.domain or has_references(node):
        return None
    return float_value(node.op_type, values(node), operands)


def _function_value(record: type[Function], attributes: Attributes, operands: Sequence[Any]) -> Reals | None:
    """Compute a function of one tensor by its record; None where further operands are its parameters."""
    if len(operands) > 1:
        return None
    settings = {
        name: attributes[name]
        for name in (f.name for f in fields(record))
        if attributes.get(name) is not None
    }
    return record(**settings).compute(operands[0])


def _power(attributes: Attributes, x: Reals, exponent: Any) -> Reals | None:
    """Compute a power by one number: products, a root or ``exp(log(x) * exponent)``; by many: in float64."""
    if exponent.size != 1:
        wide = np.power(x.astype(np.float64), exponent.astype(np.float64))
        return np.asarray(wide.astype(np.float32))
    power = float(exponent.reshape(-1)[0])
    if power == 0.5:
        return np.asarray(np.sqrt(x))
    if power == 0 or not abs(power) <= _MOST_POWER:
        return None
    if not power.is_integer():
        return numerics.exp(numerics.FUNCTIONS["log"](x) * np.float32(power))
    product = x
    for bit in bin(abs(int(power)))[3:]:
        product = product * product
        product = product * x if bit == "1" else product
    return np.float32(1) / product if power < 0 else product


def _sum_of(before: str, behind: str) -> Callable[..., Reals | None]:
    """Return a reduction: of elements, squares or magnitudes, and a function of their sum."""

    def rule(attributes: Attributes, x: Reals, axes: Any = None) -> Reals | None:
        axes_list = attributes.get("axes") if axes is None else axes.reshape(-1).tolist()
        if not axes_list and attributes.get("noop_with_empty_axes", 0):
            return None
        every = [axis % x.ndim for axis in (axes_list or range(x.ndim))] if x.ndim else []
        if not every or prod(x.shape[axis] for axis in every) > MOST_TERMS**2:
            return None
        terms = {"square": x * x, "magnitude": np.abs(x)}.get(before, x)
        over = numerics.mean_over if behind == "mean" else numerics.sum_over
        reduced = over(terms, every, bool(attributes.get("keepdims", 1)))
        return np.asarray(np.sqrt(reduced)) if behind == "sqrt" else reduced

    return rule


def _softmax(attributes: Attributes, x: Reals) -> Reals | None:
    return numerics.softmax(x, attributes.get("axis", -1)) if x.ndim else None


def _layer_norm(attributes: Attributes, x: Reals, weight: Any = None, bias: Any = None) -> Reals | None:
    axis = attributes.get("axis", -1) % x.ndim if x.ndim else 0
    count = prod(x.shape[axis:])
    if not count or count > MOST_TERMS:
        return None
    weight, bias = (
        None if v is None else np.broadcast_to(v, x.shape[axis:]).reshape(-1) for v in (weight, bias)
    )
    rows = x.reshape(*x.shape[:axis], count)
    normalized = numerics.layer_norm(rows, weight, bias, attributes.get("epsilon", 1e-5))
    return normalized.reshape(x.shape)


def _product(attributes: Attributes, a: Reals, b: Any) -> Reals | None:
    if b.dtype != np.float32 or min(a.ndim, b.ndim) < 2 or a.shape[-1] > MOST_TERMS:
        return None
    return numerics.float_product(a, b)


def _conv(attributes: Attributes, x: Reals, w: Any, bias: Any = None) -> Reals | None:
    """Compute a convolution over a sequence, an image or a volume (N51)."""
    layout = _window_layout(attributes, x, w)
    return None if layout is None else numerics.float_conv(x, w, bias, **layout)


def _conv_transpose(attributes: Attributes, x: Reals, w: Any, bias: Any = None) -> Reals | None:
    layout = _window_layout(attributes, x, w)
    if layout is None or attributes.get("output_shape"):
        return None
    added = tuple(attributes.get("output_padding") or (0,) * (x.ndim - 2))
    groups, shape = layout["groups"], w.shape
    by_group = w.reshape(groups, shape[0] // groups, *shape[1:])
    filters = np.moveaxis(by_group, 2, 1).reshape(groups * shape[1], shape[0] // groups, *shape[2:])
    return numerics.float_conv_transpose(x, filters, bias, output_padding=added, **layout)


def _window_layout(attributes: Attributes, x: Reals, w: Any) -> dict[str, Any] | None:
    """Return the windows of a convolution; None where they follow from the sizes of its input."""
    rank = x.ndim - 2
    if attributes.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET") or w.dtype != np.float32:
        return None
    pads = tuple(attributes.get("pads") or (0,) * 2 * rank)
    return {
        "stride": tuple(attributes.get("strides") or (1,) * rank),
        "dilation": tuple(attributes.get("dilations") or (1,) * rank),
        "padding": tuple(zip(pads[:rank], pads[rank:], strict=True)),
        "groups": attributes.get("group", 1),
    }


_RULES: dict[str, Callable[..., Any]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "LayerNormalization": _layer_norm,
    "MatMul": _product,
    "Pow": _power,
    "ReduceL1": _sum_of("magnitude", ""),
    "ReduceL2": _sum_of("square", "sqrt"),
    "ReduceMean": _sum_of("", "mean"),
    "ReduceSum": _sum_of("", ""),
    "ReduceSumSquare": _sum_of("square", ""),
    "Softmax": _softmax,
}

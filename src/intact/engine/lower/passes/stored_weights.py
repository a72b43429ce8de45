"""Find float32 constants of a plan that are dequantized codes of the model, so that a file holds codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.compact_constants import LEAST, Stored, compact_codes
from intact.engine.plan import Plan
from intact.errors import FileFormatError
from intact.graph import Constants, Model, Node, is_op, read_block_weight
from intact.graph.ops import MICROSOFT, DequantizeLinear, MatMulNBits

_MOST_AXES = 4
_FIRST = 64  # elements that are compared before all are


def store_codes(plan: Plan, model: Model) -> Plan:
    """Store float32 constants that a DequantizeLinear or a MatMulNBits makes of codes as these.

    Constants may have its axes in another order, or joined. Each is compared with its widened codes, bit by
    bit, so that other weights stay floats.

    Args:
        plan: Lowered from `model`.
        model: As placement left it.
    """
    by_size = defaultdict[int, dict[str, NDArray[Any]]](dict)
    for name, array in plan.constants.items():
        if array.dtype == np.float32 and array.size >= LEAST:
            by_size[array.size][name] = array
    stored_weights = dict[str, Stored]()
    constants = Constants(model.graph)
    for node in model.graph if by_size else ():
        size = _constant_size(node)
        if size in by_size and (stored := _read_stored_weight(node, constants)) is not None:
            for name, form in _matches(stored, by_size[size]):
                stored_weights[name] = replace(stored, form=form)
                del by_size[size][name]
    return replace(plan, stored=stored_weights)


def _constant_size(node: Node) -> int:
    """Count the elements of the weight that a node has codes for, as far as its shape is known; else 0."""
    if is_op(node, "MatMulNBits", domain=MICROSOFT):
        form = MatMulNBits.of(node)
        return form.K * form.N
    is_dequantize = is_op(node, "DequantizeLinear") or is_op(node, "DequantizeLinear", domain=MICROSOFT)
    shape = node.outputs[0].shape if is_dequantize else None
    sizes = [] if shape is None else [n for n in shape if isinstance(n, int)]
    return int(np.prod(sizes)) if shape is not None and len(sizes) == len(shape) else 0


def _read_stored_weight(node: Node, constants: Constants) -> Stored | None:
    if is_op(node, "MatMulNBits", domain=MICROSOFT):
        return _read_few_bits(node, constants)
    codes, scale, zero = (constants(value) for value in (*node.inputs, None)[:3])
    dtype = None if codes is None else _BYTES.get(codes.dtype.name)
    if codes is None or dtype is None or scale is None or not codes.ndim:
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None and zero is None:
        return None
    form = DequantizeLinear.of(node)
    axis = 0 if scale.size == 1 else 1 if form.axis is None else form.axis
    return compact_codes(codes.astype(dtype), scale, zero, axis % codes.ndim, form.block_size)


def _read_few_bits(node: Node, constants: Constants) -> Stored | None:
    if any(value is not None and value not in constants for value in node.inputs[1:5]):
        return None
    try:
        weights = read_block_weight(node, constants)
    except FileFormatError:  # no rule has read it either
        return None
    zero = weights.zero_points
    if weights.groups is not None or (zero is not None and zero.dtype.kind not in "iu"):
        return None
    return compact_codes(weights.codes, weights.scales, zero, 1, weights.block_size)


_BYTES = {"int8": np.int8, "uint8": np.uint8, "int4": np.int8, "uint4": np.uint8}


def _matches(stored: Stored, candidates: dict[str, NDArray[Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the constants that `stored` is, and the form that it has for each."""
    codes_shape = stored.form.shape
    values = stored.widen(codes_shape)
    is_few = len(codes_shape) <= _MOST_AXES
    orders = list(permutations(range(len(codes_shape)))) if is_few else [stored.form.order]
    for name, array in list(candidates.items()):
        for order in orders:
            turned = values.transpose(order)
            is_alike = _same(turned.flat[:_FIRST], array.flat[:_FIRST])
            if is_alike and _same(turned.reshape(-1), array.reshape(-1)):
                yield name, replace(stored.form, order=order)
                break


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Return whether two arrays of float32 have the same bits."""
    return np.array_equal(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))

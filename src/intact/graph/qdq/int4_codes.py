"""Widen codes of 4 bits to bytes within the same bounds, which kernels can compute with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact import numerics
from intact.graph import ops
from intact.graph.core.build import Inserter
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Outcome, Rewrite, Scene
from intact.spec import Format, QuantSpec

_T = ir.DataType
_WIDER = {_T.INT4: np.int8, _T.UINT4: np.uint8}


def _widen(node: ir.Node, scene: Scene) -> Outcome:
    """Widen int4 pairs to int8.

    Before: ``DQ(Q(x, s, z), s, z)`` of int4.  After: the same of int8, of x within the ends of int4.

    The same codes: the floats of the ends, (-8 - z) * s and (7 - z) * s, round to themselves. Guards: one
    constant scale, ends that are finite, and nobody but DequantizeLinears reads the codes.
    """
    narrow, constants = node.outputs[0].dtype, scene.constants
    assert narrow is not None
    scale, zero = constants(node.inputs[1]), _zero_point(node, constants)
    if scale is None or scale.size != 1 or zero is None or not _is_dequantized(node, scene):
        return None
    step = float(scale.reshape(()))
    spec = QuantSpec(Format.parse(narrow.name.lower()), symmetric=zero == 0)
    ends = numerics.representable_range(step, zero, spec)
    if not np.isfinite(ends).all():
        return None
    insert, key = scene.inserter(node), (node.inputs[0], step, zero, narrow)
    if key not in scene.added:
        scene.added[key] = _quantize(insert, node, ends, zero)
    for use in node.outputs[0].uses():
        _read_as(use.node, _WIDER[narrow], insert, constants)
    scene.replace(node, scene.added[key])
    return f"codes of {narrow.name.lower()} became bytes within its ends"


def _quantize(insert: Inserter, node: ir.Node, ends: Sequence[NDArray[np.float32]], zero: int) -> ir.Value:
    """Return the codes of `node`, as bytes."""
    x, narrow = node.inputs[0], node.outputs[0]
    assert x is not None and narrow.dtype is not None
    low, high = (insert.constant(f"{node.name}.end", end) for end in ends)
    within = insert.node("Clip", [x, low, high], f"{node.name}.within", dtype=x.dtype, shape=x.shape)
    zero_point = insert.constant(f"{node.name}.zero_point", _WIDER[narrow.dtype](zero))
    inputs, dtype = [within, node.inputs[1], zero_point], zero_point.dtype
    return insert.node("QuantizeLinear", inputs, f"{node.name}.bytes", dtype=dtype, shape=narrow.shape)


def _is_dequantized(node: ir.Node, scene: Scene) -> bool:
    """Return whether DequantizeLinears with constant zero points are all that reads the codes of `node`."""
    codes = node.outputs[0]
    return not codes.is_graph_output() and all(
        use.idx == 0
        and use.node.graph is scene.graph
        and is_op(use.node, "DequantizeLinear")
        and _zero_point(use.node, scene.constants) is not None
        for use in codes.uses()
    )


def _zero_point(node: ir.Node, constants: Constants) -> int | None:
    """Return the one zero point of a pair's node; None where it is computed, or there are several."""
    if ops.QuantizeLinear.of(node).block_size:
        return None
    value = node.inputs[2] if len(node.inputs) > 2 else None
    zero_points = constants(value) if value is not None else np.zeros((), np.int8)
    return int(zero_points.reshape(())) if zero_points is not None and zero_points.size == 1 else None


def _read_as(node: ir.Node, wider: type, insert: Inserter, constants: Constants) -> None:
    """Let a DequantizeLinear read bytes."""
    zero = _zero_point(node, constants)
    assert zero is not None
    node.resize_inputs(3)
    node.replace_input_with(2, insert.constant(f"{node.name}.zero_point", wider(zero)))


FOUR_BITS = Rewrite(
    "widen codes of 4 bits", _widen, ("QuantizeLinear",), matches=lambda node: node.outputs[0].dtype in _WIDER
)

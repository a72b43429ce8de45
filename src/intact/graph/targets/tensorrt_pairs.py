"""Writes Q/DQ pairs as TensorRT's parser takes them, where that changes no number.

The parser takes int8, fp8, int4 and fp4, no zero points, and defaults other than ONNX's: axis 0 for a vector
of scales, int8 where nothing says a type. Source: `QuantDequantLinearHelper` of onnx-tensorrt.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Namer, inserter_at, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import input_of
from intact.graph.core.prune import prune
from intact.graph.core.scene import Note
from intact.graph.ops.attributes import put

_MIDDLE = 128
_PAIRS = ("QuantizeLinear", "DequantizeLinear")
_REALS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def write_tensorrt_pairs(model: ir.Model) -> list[Note]:
    """Rewrite the pairs of `model` in place, and say what was done; what stays wrong, a check names.

    Args:
        model: In Q/DQ form, see `normalize`.
    """
    notes, names = list[Note](), Namer(model.graph)
    for rewrite in (_store_float_biases, _shift_to_int8, _write_axes, _write_scale_types):
        constants = Constants(model.graph)
        for node in [
            node for node in model.graph.all_nodes() if node.domain == "" and node.op_type in _PAIRS
        ]:
            if node.graph is not None and (what := rewrite(node, names, constants)):
                notes.append(Note(node.name or "", what, rewrite="pairs for TensorRT"))
    prune(model)
    return notes


def _store_float_biases(node: ir.Node, names: Namer, constants: Constants) -> str:
    """Replace ``DQ(int32 constant)`` by the floats that it makes: TensorRT has no quantized biases.

    Before: ``Conv(x, w, DQ(b, s))``.  After: ``Conv(x, w, b')``, b' = b s.
    """
    codes = node.inputs[0]
    if node.op_type != "DequantizeLinear" or codes is None or codes.dtype != ir.DataType.INT32:
        return ""
    output = node.outputs[0]
    stored = constants(output) if output in constants and not output.is_graph_output() else None
    if stored is None:
        return ""
    floats = inserter_at(names, node).constant(f"{codes.name}.float", stored)
    replace(node, floats, names)
    return f"the bias '{codes.name}' became float: TensorRT has no int32 codes"


def _shift_to_int8(node: ir.Node, names: Namer, constants: Constants) -> str:
    """Shift a pair of uint8 around 128 to int8 around 0: the same floats.

    Before: ``DQ(Q(x, s, 128), s, 128)``, uint8.  After: ``DQ(Q(x, s, 0), s, 0)``, int8.

    Guards: all readers of the codes are DequantizeLinear with the zero point 128, too.
    """
    if node.op_type != "QuantizeLinear" or not _is_middle(node, constants):
        return ""
    codes = node.outputs[0]
    readers = [use.node for use in codes.uses()]
    if codes.is_graph_output() or not readers:
        return ""
    if not all(reader.op_type == "DequantizeLinear" and _is_middle(reader, constants) for reader in readers):
        return ""
    for half in (node, *readers):
        zero = input_of(half, 2)
        assert zero is not None and zero.shape is not None
        shape = tuple(size for size in zero.shape if isinstance(size, int))
        half.replace_input_with(
            2, inserter_at(names, half).constant(f"{zero.name}.int8", np.zeros(shape, np.int8))
        )
    codes.dtype = ir.DataType.INT8
    return "uint8 codes around 128 became int8 codes around 0"


def _is_middle(node: ir.Node, constants: Constants) -> bool:
    zero = input_of(node, 2)
    if zero is None or zero.dtype != ir.DataType.UINT8 or zero not in constants:
        return False
    return bool(np.all(constants(zero) == _MIDDLE)) and not ops.QuantizeLinear.of(node).output_dtype


def _write_axes(node: ir.Node, names: Namer, constants: Constants) -> str:
    """Write the axis of a vector of scales into the node: the parser's default is 0, ONNX's is 1."""
    scale = input_of(node, 1)
    record: Callable[[ir.Node], ops.QuantizeLinear | ops.DequantizeLinear] = (
        ops.QuantizeLinear.of if node.op_type == "QuantizeLinear" else ops.DequantizeLinear.of
    )
    if scale is None or scale.shape is None or len(scale.shape) != 1 or scale.shape[0] == 1:
        return ""
    if record(node).axis is not None:
        return ""
    put(node, "axis", 1)
    return "the axis 1, which ONNX means, was written into the node: TensorRT would take 0"


def _write_scale_types(node: ir.Node, names: Namer, constants: Constants) -> str:
    """Store a scale of 16 bits in front of data of another type as float32: the same number."""
    scale = input_of(node, 1)
    data = node.inputs[0] if node.op_type == "QuantizeLinear" else node.outputs[0]
    if scale is None or data is None or scale.dtype not in _REALS[1:] or data.dtype not in _REALS:
        return ""
    numbers = constants(scale) if scale in constants else None
    if scale.dtype == data.dtype or numbers is None:
        return ""
    stored = inserter_at(names, node).constant(f"{scale.name}.float32", numbers.astype(np.float32))
    node.replace_input_with(1, stored)
    return "its scale became float32: TensorRT takes that or the type of the data"

"""Dequantize tables in front of the Gather that takes rows of them, not behind it."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.edit import input_of
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene

_CODES = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4)


def _dequantize_first(node: ir.Node, scene: Scene) -> Outcome:
    """Move a DequantizeLinear above the Gather of a constant table, as readers of embeddings expect it.

    Before: ``DequantizeLinear(Gather(codes, index), scale, zero)``, as quantize_dynamic writes.
    After:  ``Gather(DequantizeLinear(codes, scale, zero), index)``: the same floats.

    Guards: codes are constant and have one scale; scale and zero point are constant.
    """
    codes = node.inputs[0]
    gather = codes.producer() if codes is not None else None
    if codes is None or gather is None or not is_op(gather, "Gather"):
        return None
    table, parameters = gather.inputs[0], [input_of(node, at) for at in (1, 2)]
    if table is None or table not in scene.constants or table.dtype not in _CODES:
        return None
    arrays = [scene.constants(value) for value in parameters if value is not None]
    if any(array is None or array.size != 1 for array in arrays):
        return None
    insert, output = scene.inserter(node), node.outputs[0]
    inputs = [table, *(value for value in parameters if value is not None)]
    floats = insert.node(
        "DequantizeLinear", inputs, f"{table.name}.floats", dtype=output.dtype, shape=table.shape
    )
    rows = insert.node(
        "Gather", [floats, gather.inputs[1]], f"{gather.name}.floats", dtype=output.dtype, shape=output.shape,
        axis=ops.Gather.of(gather).axis,
    )  # fmt: skip
    name = gather.name
    scene.replace(node, rows)
    producer = rows.producer()
    if not codes.uses() and not codes.is_graph_output() and producer is not None:
        scene.graph.remove(gather, safe=True)
        producer.name = name
    return "its table is dequantized in front of the Gather"


GATHERED_CODES = Rewrite(
    "dequantize tables in front of Gather",
    _dequantize_first,
    ("DequantizeLinear",),
    ensures=Ensures(read=True),
)

"""The marker node: one ``intact::FakeQuantize`` for each fake-quantized tensor, before Q/DQ are emitted.

An exporter writes markers because only it sees the model, and knows no quantization beyond that; `emit_qdq`
turns them into pairs, because only it knows the opset.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import CalibrationError, IntactError
from intact.graph import ops
from intact.graph.core.constants import Constants
from intact.spec import Format, QuantSpec

DOMAIN, OP_TYPE = "intact", "FakeQuantize"

_SCOPES = "pkg.torch.onnx.name_scopes"  # written by torch's dynamo exporter
_AMAX_SUFFIXES = ("._amax", ".amax")


def marker_schema() -> onnx.defs.OpSchema:
    """Return the schema of the marker: FakeQuantize(x, amax, amin?) and its attributes."""
    schema = onnx.defs.OpSchema
    optional = schema.FormalParameterOption.Optional
    floats = ["tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(double)"]
    return schema(
        OP_TYPE,
        DOMAIN,
        1,
        inputs=[
            schema.FormalParameter("x", "T"),
            schema.FormalParameter("amax", "R"),
            schema.FormalParameter("amin", "R", param_option=optional),
        ],
        outputs=[schema.FormalParameter("y", "T")],
        type_constraints=[("T", floats, "the tensor"), ("R", floats, "its range")],
        attributes=[
            schema.Attribute("format", schema.AttrType.STRING, required=True),
            schema.Attribute("axis", schema.AttrType.INTS, required=False),
            schema.Attribute("narrow", schema.AttrType.INT, required=True),
            schema.Attribute("block_size", schema.AttrType.INT, required=False),
            schema.Attribute("call", schema.AttrType.INT, required=False),  # keeps an exporter from merging
        ],
    )


@dataclass(frozen=True)
class Marker:
    """One marker node, read.

    Attributes:
        node: The node.
        quantizer: Who asked for it: the module path of the quantizer, or the best name that is known.
        spec: Grid and granularity.
        amax: Largest magnitude, or upper end, of each granule; float32, granule shape.
        amin: Lower end of an asymmetric range; None for a symmetric one.
    """

    node: ir.Node
    quantizer: str
    spec: QuantSpec
    amax: NDArray[np.float32]
    amin: NDArray[np.float32] | None


def find_markers(model: ir.Model) -> list[Marker]:
    """Find every marker of the graph, in its order.

    Raises:
        CalibrationError: A range is not a constant: the quantizer computes it from each batch.
    """
    constants = Constants(model.graph)
    return [read_marker(node, constants) for node in model.graph if is_marker(node)]


def is_marker(node: ir.Node) -> bool:
    """Return whether `node` is a marker."""
    return (node.domain, node.op_type) == (DOMAIN, OP_TYPE)


def read_marker(node: ir.Node, constants: Constants) -> Marker:
    """Read the attributes and inputs of a marker; raises as `find_markers`."""
    quantizer = _quantizer_name(node)
    try:
        return _parse(node, quantizer, constants)
    except IntactError as error:
        raise error.at(quantizer) from None


def _parse(node: ir.Node, quantizer: str, constants: Constants) -> Marker:
    amax = _range_end(node, 1, constants)
    amin = _range_end(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    form = ops.TensorMarker.of(node)
    axes, block = form.axis, form.block_size or None
    spec = QuantSpec(
        Format.parse(form.format),
        axis=axes if axes and (block or amax.size > 1) else None,
        block_size=block,
        symmetric=amin is None,
        narrow=bool(form.narrow),
    )
    if block is not None:
        return Marker(node, quantizer, spec, amax, amin)
    shape = tuple(amax.shape[axis] for axis in spec.axes) if len(spec.axes) > 1 else (-1,) * len(spec.axes)
    return Marker(node, quantizer, spec, amax.reshape(shape), None if amin is None else amin.reshape(shape))


def _range_end(node: ir.Node, index: int, constants: Constants) -> NDArray[np.float32]:
    array = constants(node.inputs[index])
    if array is None:
        raise CalibrationError(
            ("x", "amax", "amin")[index],
            "a range that is computed from each batch (dynamic quantization)",
            "a constant range",
            "calibrate the model before the export, or disable this quantizer",
        )
    return array.astype(np.float32)


def _quantizer_name(node: ir.Node) -> str:
    """Return the module path that the dynamo exporter records, else the one in the amax buffer's name."""
    if scopes := node.metadata_props.get(_SCOPES):
        path: list[str] = ast.literal_eval(scopes)
        if len(path) > 1 and path[-2]:
            return path[-2]
    name = (node.inputs[1].name if node.inputs[1] is not None else "") or ""
    for suffix in _AMAX_SUFFIXES:
        name = name.removesuffix(suffix)
    return name or node.name or "quantizer"

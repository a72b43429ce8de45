"""Take a model apart into inputs, constants, nodes and outputs, for other builders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.graph import ops
from intact.graph.core.proto import to_proto
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Scene
from intact.graph.files.model_builder import DTYPES, NAMES, sizes_of


@dataclass(frozen=True)
class Parts:
    """The contents of a model's main graph: inputs, constants, nodes, outputs.

    Attributes:
        inputs: (name, element type, sizes) of each; a size is a number, a name or None.
        constants: (name, values) of each initializer.
        nodes: In order; subgraphs inside know outer values by their names.
        outputs: Names.
        output_shapes: Sizes of the outputs, as the file declares them or the operators tell; by name.
        domains: Version of each operator set.
        blocks: axis and block_size of each DequantizeLinear, by the name of its output; 0: no blocks.
    """

    inputs: list[tuple[str, str, tuple[int | str | None, ...]]]
    constants: list[tuple[str, NDArray[Any]]]
    nodes: list[onnx.NodeProto]
    outputs: list[str]
    output_shapes: dict[str, tuple[int | str | None, ...]]
    domains: dict[str, int]
    blocks: dict[str, tuple[int, int]]


def parts_of(model: ir.Model) -> Parts:
    """Take `model` apart, without changing it.

    Raises:
        UnsupportedError: An input is no tensor of a common type, or the model has functions of its own.
    """
    if model.functions:
        raise UnsupportedError(
            "model", "functions of its own", "operators alone", "inline its functions first (onnx.inliner)"
        )
    proto = to_proto(model)
    values = {v.name: v.const_value for v in model.graph.initializers.values() if v.const_value is not None}
    constants = [(name or "", np.asarray(tensor.numpy())) for name, tensor in values.items()]
    inputs = [_input(i) for i in proto.graph.input if i.name not in values]
    domains = {entry.domain: entry.version for entry in proto.opset_import}
    types = {o.name: o.type.tensor_type for o in proto.graph.output}
    shapes = {name: sizes_of(tensor) for name, tensor in types.items() if tensor.HasField("shape")}
    dequantizers = [node for node in model.graph if is_op(node, "DequantizeLinear")]
    forms = ((node.outputs[0].name, ops.DequantizeLinear.of(node)) for node in dequantizers)
    blocks = {name or "": (1 if form.axis is None else form.axis, form.block_size) for name, form in forms}
    return Parts(inputs, constants, list(proto.graph.node), list(types), shapes, domains, blocks)


def take_floats_for_doubles(model: ir.Model) -> None:
    """Change float64 inputs to float32, with a Cast after each, in place.

    Before: ``x (float64) -> Add``.  After: ``x (float32) -> Cast -> Add``.

    An input that is an output as well stays as it is.
    """
    graph = model.graph
    first = next(iter(graph), None)
    for index, value in enumerate(graph.inputs):
        if value.dtype is not ir.DataType.DOUBLE or value.is_graph_output() or first is None:
            continue
        insert = Scene(graph).inserter(first)
        float_input = ir.Value(name=value.name, type=ir.TensorType(ir.DataType.FLOAT), shape=value.shape)
        value.name = insert.names(f"{value.name}.float64")
        graph.inputs[index] = float_input
        dtype, shape = ir.DataType.DOUBLE, value.shape
        cast = insert.node(
            "Cast", [float_input], f"{value.name}.cast", dtype=dtype, shape=shape, to=int(dtype)
        )
        value.replace_all_uses_with(cast)


def output_types(model: ir.Model) -> dict[str, str | None]:
    """Return the NumPy dtype name of each output; None where unknown, or no tensor."""
    types = {v.name or "": v.dtype for v in model.graph.outputs}
    return {name: None if t is None else _name_of(t) for name, t in types.items()}


def _name_of(dtype: ir.DataType) -> str:
    return "string" if dtype is ir.DataType.STRING else str(dtype.numpy().name)


def _input(info: onnx.ValueInfoProto) -> tuple[str, str, tuple[int | str | None, ...]]:
    tensor, kind = info.type.tensor_type, info.type.WhichOneof("value")
    if kind != "tensor_type" or tensor.elem_type not in NAMES:
        name = onnx.TensorProto.DataType.Name(tensor.elem_type) if kind == "tensor_type" else None
        raise UnsupportedError(
            f"input '{info.name}'", f"the type {name}" if name else f"a {kind}".replace("_type", ""),
            f"a tensor of one of {', '.join(DTYPES)}", "change the type of the input",
        )  # fmt: skip
    if not tensor.HasField("shape"):
        raise UnsupportedError(
            f"input '{info.name}'", "no shape", "its sizes, named or open ones included",
            "export the model again, with the shapes of its inputs",
        )  # fmt: skip
    return info.name, NAMES[tensor.elem_type], sizes_of(tensor)

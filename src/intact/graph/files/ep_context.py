"""Compose a model of one EPContext node, ONNX Runtime's operator for what a provider compiled beforehand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from intact.errors import UnsupportedError
from intact.graph.files.io import MAX_BYTES

_TYPES = {
    "bool": TensorProto.BOOL, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16, "uint16": TensorProto.UINT16, "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64, "uint64": TensorProto.UINT64, "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
}  # fmt: skip
"""Element types that both plans and EPContext nodes have, by their names in plans."""


@dataclass(frozen=True)
class CompiledValue:
    """An input or output of what was compiled.

    Attributes:
        name: The model's name for it.
        dtype: Of its elements, as NumPy calls it.
        shape: Sizes; a text where any size will do.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]


def compose_ep_context(
    model: ir.Model, inputs: Iterable[CompiledValue], outputs: Iterable[CompiledValue], *, context: bytes,
    is_embedded: bool, provider: str, version: str,
) -> bytes:  # fmt: skip
    """Return an ONNX file with a model's interface, whose one node holds or names what was compiled of it.

    Names, types and free sizes of inputs and outputs are the model's, and so are its metadata. Sizes that
    were fixed when it was compiled are numbers.

    Args:
        model: What was compiled.
        inputs, outputs: What the compiled model takes and makes, in its order.
        context: Its bytes, or the name of its file in UTF-8, which lies in the folder of the ONNX file.
        is_embedded: Whether `context` is the bytes.
        provider: Name of the execution provider that runs it.
        version: That of the library which compiled it.

    Raises:
        UnsupportedError: An input or output has an element type that these nodes lack, or the file would have
            more than 2 GiB.
    """
    declared_values = {
        value.name: value for value in (*model.graph.inputs, *model.graph.outputs) if value.name
    }
    input_infos = [_describe(value, declared_values) for value in inputs]
    output_infos = [_describe(value, declared_values) for value in outputs]
    node_outputs = list(_outputs_of_node(output_infos, {info.name for info in input_infos}))
    node = helper.make_node(
        "EPContext", [info.name for info in input_infos], [info.name for info in node_outputs],
        name="intact_plan", domain="com.microsoft", main_context=1, embed_mode=int(is_embedded),
        ep_cache_context=context, source=provider, ep_sdk_version=version, partition_name="intact_plan",
    )  # fmt: skip
    graph = helper.make_graph([node], model.graph.name or "network", input_infos, output_infos)
    graph.value_info.extend(info for info in node_outputs if info not in output_infos)
    # The node needs its own domain alone, and every version of ONNX Runtime has the 13th of ONNX's.
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="intact")
    proto.producer_version = version
    helper.set_model_props(proto, dict(model.metadata_props))
    return _serialize(proto)


def _describe(value: CompiledValue, declared_values: Mapping[str, ir.Value]) -> onnx.ValueInfoProto:
    """Describe an input or output as the model does, and by what was compiled where the model does not."""
    if value.dtype not in _TYPES:
        raise UnsupportedError(
            f"'{value.name}'", f"an input or output of {value.dtype}", f"one of {', '.join(_TYPES)}",
            "cast it in the model, or run the plan by the C library",
        )  # fmt: skip
    shape = declared_values[value.name].shape if value.name in declared_values else None
    if shape is None or len(shape) != len(value.shape):
        shape = ir.Shape([None] * len(value.shape))
    sizes = [_size(*pair) for pair in zip(value.shape, shape, strict=True)]
    return helper.make_tensor_value_info(value.name, _TYPES[value.dtype], sizes)


def _size(compiled: int | str, declared: int | ir.SymbolicDim) -> int | str | None:
    if isinstance(compiled, int):
        return compiled
    return declared if isinstance(declared, int) else declared.value


def _outputs_of_node(
    outputs: Sequence[onnx.ValueInfoProto], inputs: Collection[str]
) -> Iterator[onnx.ValueInfoProto]:
    """Describe the node's outputs: the model's. One that is an input has another name, which nobody reads."""
    for index, info in enumerate(outputs):
        output = onnx.ValueInfoProto()
        output.CopyFrom(info)
        if info.name in inputs:
            output.name = f"{info.name}.copy{index}"
        yield output


def _serialize(proto: onnx.ModelProto) -> bytes:
    if proto.ByteSize() > MAX_BYTES:
        raise UnsupportedError(
            "EPContext node", f"a plan that makes a file of {proto.ByteSize()} bytes", f"at most {MAX_BYTES}",
            "let the plan lie beside the file: intact build --ep-context --external-plan",
        )  # fmt: skip
    return bytes(proto.SerializeToString(deterministic=True))

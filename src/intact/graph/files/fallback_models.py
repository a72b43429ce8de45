"""Check the models that plans hold for ONNX Runtime before it loads them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from intact.errors import FileFormatError
from intact.graph.core.check_tensors import check_value
from intact.graph.core.error_text import unreadable
from intact.graph.core.proto import proto_graphs
from intact.graph.files.external import check_stored
from intact.graph.files.validate import check_structure
from intact.graph.infer.inference import infer_proto_shapes


def check_fallback(data: bytes, where: str, outputs: Mapping[str, str]) -> None:
    """Refuse a model for ONNX Runtime that a plan must not hold.

    It reads other files, contradicts itself, exceeds the limits, or has other outputs than its step.

    Args:
        data: The bytes of a ModelProto.
        where: The step of the plan, for errors.
        outputs: What the step makes, by name: NumPy's name of its type.
    Raises:
        FileFormatError: It is no model, or damaged; a tensor's data lie in another file.
        UnsupportedError: An IR version or opset that we do not read.
    """
    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError) as error:
        raise unreadable(where, error) from error
    try:
        check_structure(proto, _within, any_opset=True)
        if proto.training_info:
            raise FileFormatError("training_info", "a graph for training", "none", "build the plan again")
        output_types = {info.name: info.type.tensor_type.elem_type for info in proto.graph.output}
        for name, dtype in outputs.items():
            _check_output(name, output_types.get(name), dtype)
        for graph in proto_graphs(infer_proto_shapes(proto)):
            for info in (*graph.input, *graph.output, *graph.value_info):
                check_value(info, "")
    except FileFormatError as error:
        raise error.at(where) from error


def _check_output(name: str, elem_type: int | None, dtype: str) -> None:
    if elem_type is None:
        raise FileFormatError(
            f"output '{name}'", "none in the model", "one of its outputs", "build the plan again"
        )
    if elem_type and (output_dtype := onnx.helper.tensor_dtype_to_np_dtype(elem_type).name) != dtype:
        raise FileFormatError(
            f"output '{name}'", f"{output_dtype} in the model", dtype, "build the plan again"
        )


def _within(tensor: onnx.TensorProto, where: str) -> None:
    """Refuse data in other files, whether declared by location or by entries alone."""
    if tensor.external_data and tensor.data_location != onnx.TensorProto.EXTERNAL:
        raise FileFormatError(where, "a place in another file", "data in the model", "build the plan again")
    check_stored(tensor, where, None)

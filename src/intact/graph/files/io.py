"""Read and write ONNX files: checked, atomically, the same bytes for the same model; pickle models."""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx_ir.passes import common as passes

from intact.atomic import replacing
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.graph.core.error_text import first_line, unreadable
from intact.graph.core.proto import all_nodes, from_proto, to_proto
from intact.graph.core.prune import prune
from intact.graph.core.without_weights import (
    move_large_tensors_to_inputs,
    put_tensors,
    to_proto_without_weights,
    without_weights,
)
from intact.graph.infer.inference import infer_proto_shapes, infer_shapes
from intact.graph.infer.runtime_inference import hide_runtime_operators
from intact.graph.qdq.emit_qdq import QUANTIZER_KEY, REASON_KEY
from intact.reading import read_bytes

MAX_BYTES = 2**31 - 1
"""The most that one protobuf message can hold."""


def tidy(model: ir.Model) -> None:
    """Remove unused nodes and the exporter's metadata, in place.

    The exporter's metadata holds stack traces: file paths, and other bytes on every machine.
    """
    prune(model)
    passes.RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
    passes.RemoveUnusedOpsetsPass()(model)
    for node in all_nodes(model.graph):
        _keep_own(node.metadata_props)
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.metadata_props.clear()
    model.graph.doc_string = model.doc_string = None
    model.producer_name, model.producer_version = "intact", None


def _keep_own(metadata: dict[str, str]) -> None:
    for key in [k for k in metadata if k not in (QUANTIZER_KEY, REASON_KEY)]:
        del metadata[key]


def to_bytes(model: ir.Model) -> bytes:
    """Serialize `model`, after ONNX's checker has passed it.

    Raises:
        UnsupportedError: The model does not fit into one file of 2 GiB.
        QuantValueError: The checker refuses it.
    """
    proto = to_checked_proto(model)
    if proto.ByteSize() > MAX_BYTES:
        raise UnsupportedError(
            "model",
            f"{proto.ByteSize()} bytes",
            f"at most {MAX_BYTES}",
            "fold the weights (fold_weights=True), or save with external data",
        )
    return bytes(proto.SerializeToString(deterministic=True))


def to_checked_proto(model: ir.Model) -> onnx.ModelProto:
    """Convert `model` to one message, which ONNX's checker passes.

    Raises:
        QuantValueError: The checker refuses it.
    """
    proto, weights = without_weights(model)
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(proto)
    _check(move_large_tensors_to_inputs(skeleton))
    put_tensors(proto, weights)
    return proto


def check(model: ir.Model) -> None:
    """Let ONNX's checker pass `model`.

    Raises:
        QuantValueError: The checker refuses it.
    """
    _check(to_proto_without_weights(model))


def _check(skeleton: onnx.ModelProto) -> None:
    try:
        infer_proto_shapes(skeleton, follow=False)  # as the checker itself would do it (`full_check`)
        for output in skeleton.graph.output:
            if output.type.HasField("tensor_type"):  # the checker demands a shape, and runtimes do without
                output.type.tensor_type.shape.SetInParent()
        hide_runtime_operators(skeleton)
        onnx.checker.check_model(skeleton)
    except (onnx.checker.ValidationError, FileFormatError) as error:
        halves = any(t.data_type == onnx.TensorProto.BFLOAT16 for t in skeleton.graph.initializer)
        raise QuantValueError(
            "model",
            f"what ONNX's checker refuses: {first_line(error)}",
            "a valid graph",
            "leave the opset out, or choose 22 or newer: older ones have few operators of bfloat16. A float32"
            " model, as of model.float(), needs none of that"
            if halves
            else "export with another opset, and report this model",
        ) from error


def write_model(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write `data` to `path`, whole or not at all.

    Raises:
        FileAccessError: The path cannot be written; nothing is left behind.
    """
    with replacing(path) as file:
        file.write(data)


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """Read the model in an ONNX file.

    Raises:
        FileAccessError: The file cannot be read.
        FileFormatError: It is damaged, or no ONNX model.
    """
    return parse_model(read_bytes(path), str(path))


def parse_model(data: bytes, where: str) -> ir.Model:
    """Parse the model in `data`; errors name `where`.

    Raises:
        FileFormatError: They are damaged, or no ONNX model.
    """
    try:
        proto = onnx.ModelProto.FromString(data)
        if not proto.graph.node and not proto.graph.output:
            raise DecodeError("no graph in it")
        model: ir.Model = ir.from_proto(proto)
    except (DecodeError, ValueError) as error:
        raise unreadable(where, error, data) from error
    return model


class PicklableModel:
    """Holds a model, and is pickled as the bytes of its file: nodes and values of one are a circle.

    Args:
        model: It stays unchanged as long as parcels of it are sent.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model

    def __getstate__(self) -> bytes:
        """Return the bytes.

        Raises:
            UnsupportedError: They are more than one message can hold.
        """
        proto = to_proto(self.model)
        if (size := proto.ByteSize()) > MAX_BYTES:
            raise UnsupportedError(
                "model", f"{size} bytes", f"at most {MAX_BYTES} for work on other machines",
                "do the work in this process",
            )  # fmt: skip
        return bytes(proto.SerializeToString())

    def __setstate__(self, state: bytes) -> None:
        self.model = from_proto(onnx.ModelProto.FromString(state))
        infer_shapes(self.model)

"""Reading and writing ONNX files: checked, whole or not at all, the same bytes for the same model."""

from __future__ import annotations

import os
import re
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx_ir.passes import common as passes

from intact.atomic import replacing
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.graph.emit_qdq import QUANTIZER_KEY

MAX_BYTES = 2**31 - 1
"""The most that one protobuf message can hold."""


def tidy(model: ir.Model) -> None:
    """Drop what a reader does not need, in place: unused nodes and weights, the exporter's notes.

    The exporter's metadata holds stack traces: file paths, and other bytes on every machine.
    """
    passes.RemoveUnusedNodesPass()(model)
    passes.RemoveUnusedFunctionsPass()(model)  # type: ignore[no-untyped-call]
    passes.RemoveUnusedOpsetsPass()(model)
    for node in model.graph.all_nodes():
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
    for key in [k for k in metadata if k != QUANTIZER_KEY]:
        del metadata[key]


def to_bytes(model: ir.Model) -> bytes:
    """The file that `model` makes, after ONNX's checker has passed it.

    Raises:
        UnsupportedError: The model does not fit into one file of 2 GiB.
        QuantValueError: The checker refuses it.
    """
    proto = ir.to_proto(model)
    if proto.ByteSize() > MAX_BYTES:
        raise UnsupportedError(
            "model",
            f"{proto.ByteSize()} bytes",
            f"at most {MAX_BYTES}",
            "fold the weights (fold_weights=True)",
        )
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantValueError(
            "model",
            f"what ONNX's checker refuses: {_first_line(error)}",
            "a valid graph",
            "export with another opset, and report this model",
        ) from error
    return bytes(proto.SerializeToString(deterministic=True))


def write_model(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write `data` to `path`: through a temporary file beside it, so that a reader never sees half a file.

    Raises:
        FileFormatError: The folder is missing or not writable; nothing is left behind.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise _unwritable(Path(path), error) from error


def _unwritable(path: Path, error: OSError) -> IntactError:
    reason = error.strerror or str(error)
    return FileFormatError(
        str(path),
        f"'{reason}' when writing",
        "a folder that exists and can be written",
        "choose another path",
    )


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """The model in an ONNX file.

    Raises:
        FileFormatError: The file is missing, damaged, or no ONNX model.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(str(path), error) from error
    return parse_model(data, str(path))


def parse_model(data: bytes, where: str) -> ir.Model:
    """The model that `data` holds; `where` says in errors what they are from.

    Raises:
        FileFormatError: They are damaged, or no ONNX model.
    """
    try:
        proto = onnx.ModelProto.FromString(data)
        if not proto.graph.node and not proto.graph.output:
            raise DecodeError("no graph in it")
        model: ir.Model = ir.from_proto(proto)
    except (DecodeError, ValueError) as error:
        raise _unreadable(where, error) from error
    return model


def _unreadable(where: str, error: Exception) -> FileFormatError:
    return FileFormatError(
        where, _first_line(error), "an ONNX model", "check the path, or export the model again"
    )


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error).strip())[:300]

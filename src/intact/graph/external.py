"""External data: tensors in files beside the model, which must lie in the model's folder and hold enough."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.tensors import byte_size, check_tensor

_FIX = "copy the data file beside the model, or export the model again"


def check_stored(tensor: onnx.TensorProto, where: str, folder: Path | None) -> None:
    """Refuse a tensor that does not hold what its shape and dtype want, here or in another file.

    Raises:
        FileFormatError: As for `check_tensor` and `check_external`.
    """
    check_tensor(tensor, where)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        check_external(tensor, where, folder)


def check_external(tensor: onnx.TensorProto, where: str, folder: Path | None) -> None:
    """Refuse external data that lie outside `folder`, or that the file does not hold.

    Args:
        tensor: With external data; its shape and dtype have been checked.
        where: The tensor, in words, for errors.
        folder: The model's; None: the model did not come from a file.
    Raises:
        FileFormatError: The location is absolute or leaves the folder, itself or through a link; the file
            is missing or too short; the offset or the length is wrong.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise FileFormatError(
            where,
            f"external data in '{location}' of a model without a folder",
            "a model that was read from a file",
            "give the path of the model, or its folder",
        )
    path = _contained(location, folder, where)
    offset, length = _number(entries, "offset", where), _number(entries, "length", where)
    needed = byte_size(tensor)
    if length is not None and length != needed:
        raise FileFormatError(
            where, f"external data of {length} bytes", f"{needed}, for its shape and type", _FIX
        )
    status = path.stat()
    if status.st_nlink > 1:
        raise FileFormatError(
            where, f"external data in '{location}', a file with other hard links", "a file of its own", _FIX
        )
    held = status.st_size
    if (offset or 0) + needed > held:
        raise FileFormatError(
            where,
            f"external data at {offset or 0}..{(offset or 0) + needed} of '{location}'",
            f"a place within its {held} bytes",
            _FIX,
        )


def _contained(location: str, folder: Path, where: str) -> Path:
    if not location or "\0" in location:
        raise FileFormatError(where, f"external data in {location!r}", "the name of a file", _FIX)
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    if absolute or ".." in parts:
        raise _outside(where, location)
    path = folder / location
    try:
        inside = path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
        if inside and not path.is_file():
            raise FileFormatError(where, f"external data in '{location}', no regular file", "a file", _FIX)
    except OSError as error:
        raise FileFormatError(
            where, f"'{error.strerror}' for its external data '{location}'", "a readable file", _FIX
        ) from error
    if not inside:
        raise _outside(where, location)
    return path


def _outside(where: str, location: str) -> FileFormatError:
    return FileFormatError(
        where,
        f"external data in '{location}', outside the model's folder",
        "a file in that folder",
        "do not load this model unless you trust its origin; if you do, copy the data file beside it",
    )


def _number(entries: dict[str, str], key: str, where: str) -> int | None:
    if key not in entries:
        return None
    text = entries[key]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FileFormatError(where, f"external data with {key} {text[:40]!r}", "a count of bytes", _FIX)
    return int(text)


def set_folder(model: ir.Model, folder: Path) -> None:
    """Let the external initializers of `model` be found in `folder`; those of attributes are read at once."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for inner in (graph, *graph.subgraphs()):
            for value in inner.initializers.values():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value.base_dir = os.fspath(folder)
            for node in inner:
                for name, attribute in list(node.attributes.items()):
                    if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                        node.attributes[name] = _inside(attribute, folder)


def _inside(attribute: ir.Attr, folder: Path) -> ir.Attr:
    tensor = attribute.as_tensor()
    if not isinstance(tensor, ir.ExternalTensor):
        return attribute
    tensor.base_dir = os.fspath(folder)
    return ir.AttrTensor(attribute.name, ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name))

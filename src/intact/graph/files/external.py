"""External data: tensors in files beside the model, which must lie in the model's folder and hold enough.

Hugging Face's cache keeps files as ``models--x/blobs/<hash>`` and links ``models--x/snapshots/<commit>/...``
to them, model and data alike: there data may lie among the blobs that the model itself lies among.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.core.check_tensors import byte_size, check_tensor
from intact.graph.core.proto import with_subgraphs
from intact.graph.ops import attributes

_FIX = "copy the data file beside the model, or export the model again"


@dataclass(frozen=True)
class Home:
    """Folder in which the external data of a model may lie.

    Attributes:
        folder: The model's.
        blobs: The folder of a cache that `folder` links its files to; None: it is no such cache.
    """

    folder: Path
    blobs: Path | None = None

    @classmethod
    def of(cls, path: Path) -> Home:
        """Return the home of the model in the file `path`.

        Before: ``snapshots/1f/model.onnx -> ../../blobs/2a``.  After: data may be links into ``blobs``.

        Guards: the model itself is such a link; the folders have the cache's names and one parent.
        """
        if path.is_symlink():
            blobs = _without_links(path).parent
            snapshots = blobs.parent / "snapshots"
            if blobs.name == "blobs" and _without_links(path.parent).is_relative_to(snapshots):
                return cls(path.parent, blobs)
        return cls(path.parent)

    def holds(self, file: Path) -> bool:
        """Return whether `file`, without links, lies in the folder, or right among the blobs."""
        return file.is_relative_to(_without_links(self.folder, strict=True)) or file.parent == self.blobs


def check_stored(tensor: onnx.TensorProto, where: str, home: Home | None) -> None:
    """Refuse a tensor whose stored data do not match its shape and dtype, here or in another file.

    Raises:
        FileFormatError: As for `check_tensor` and `check_external`.
    """
    check_tensor(tensor, where)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        check_external(tensor, where, home)


def check_external(tensor: onnx.TensorProto, where: str, home: Home | None) -> None:
    """Refuse external data that lie outside `home`, or that the file does not hold.

    Args:
        tensor: With external data; its shape and dtype have been checked.
        where: The tensor, in words, for errors.
        home: The model's; None: the model did not come from a file.
    Raises:
        FileFormatError: The location is absolute or leaves `home`, itself or through a link; the file
            is missing or too short; the offset or the length is wrong.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if home is None:
        raise FileFormatError(
            where,
            f"external data in '{location}' of a model without a folder",
            "a model that was read from a file",
            "give the path of the model, or its folder",
        )
    path = _path_inside(location, home, where)
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
    file_size = status.st_size
    if (offset or 0) + needed > file_size:
        raise FileFormatError(
            where,
            f"external data at {offset or 0}..{(offset or 0) + needed} of '{location}'",
            f"a place within its {file_size} bytes",
            _FIX,
        )


def _path_inside(location: str, home: Home, where: str) -> Path:
    if not location or "\0" in location:
        raise FileFormatError(where, f"external data in {location!r}", "the name of a file", _FIX)
    parts = (*PurePosixPath(location).parts, *PureWindowsPath(location).parts)
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    if absolute or ".." in parts:
        raise _outside(where, location)
    path = home.folder / location
    try:
        inside = home.holds(_without_links(path, strict=True))
        if inside and not path.is_file():
            raise FileFormatError(where, f"external data in '{location}', no regular file", "a file", _FIX)
    except OSError as error:
        raise FileFormatError(
            where, f"'{error.strerror}' for its external data '{location}'", "a readable file", _FIX
        ) from error
    if not inside:
        raise _link_error(where, location) if path.is_symlink() else _outside(where, location)
    return path


def _without_links(path: Path, *, strict: bool = False) -> Path:
    """Return the path without links. `Path.resolve` raises no OSError for links that point to themselves.

    Raises:
        OSError: Where `strict`: there is no such file, or its links end nowhere.
    """
    return Path(os.path.realpath(path, strict=strict))


def _outside(where: str, location: str) -> FileFormatError:
    return FileFormatError(
        where,
        f"external data in '{location}', outside the model's folder",
        "a file in that folder",
        "do not load this model unless you trust its origin; if you do, copy the data file beside it",
    )


def _link_error(where: str, location: str) -> FileFormatError:
    return FileFormatError(
        where,
        f"external data in '{location}', a link to a file outside the model's folder",
        "a file in that folder, or a link within one Hugging Face cache, where the model is a link too",
        "do not load this model unless you trust its origin; if you do, put a copy in the place of the link",
    )


def data_files(path: str | os.PathLike[str]) -> list[Path]:
    """List the external data files of the model in `path`, each once; `load` has checked it."""
    proto = onnx.ModelProto.FromString(Path(path).read_bytes())
    locations: dict[str, None] = {}
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            locations |= {entry.value: None for entry in tensor.external_data if entry.key == "location"}
    return [Path(path).parent / location for location in locations]


def _number(entries: dict[str, str], key: str, where: str) -> int | None:
    if key not in entries:
        return None
    text = entries[key]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FileFormatError(where, f"external data with {key} {text[:40]!r}", "a count of bytes", _FIX)
    return int(text)


def set_home(model: ir.Model, home: Home) -> None:
    """Let the external initializers of `model` be found in `home`; those of attributes are read at once."""
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for inner in with_subgraphs(graph):
            for value in inner.initializers.values():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = _locate_tensor(value.const_value, home)
            for node in inner:
                for name, tensor in attributes.tensors(node).items():
                    if isinstance(tensor, ir.ExternalTensor):
                        attributes.put(node, name, ir.AttrTensor(name, _in_memory(tensor, home)))


def _locate_tensor(tensor: ir.ExternalTensor, home: Home) -> ir.ExternalTensor:
    """Return `tensor` at its resolved path: onnx-ir follows no link out of the folder that it is given."""
    folder, location = home.folder, os.fspath(tensor.location)
    if home.blobs is not None and (file := _without_links(folder / location)).parent == home.blobs:
        folder, location = home.blobs, file.name
    return ir.ExternalTensor(
        location, tensor.offset, tensor.length, tensor.dtype,
        shape=ir.Shape(tensor.shape), name=tensor.name or "", base_dir=os.fspath(folder),
    )  # fmt: skip


def _in_memory(tensor: ir.ExternalTensor, home: Home) -> ir.Tensor:
    tensor = _locate_tensor(tensor, home)
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)

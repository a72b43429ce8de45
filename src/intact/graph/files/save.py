"""`save`: write a model atomically, with the weights of a large one beside it."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx_ir as ir

from intact.atomic import check_target, replacing, together
from intact.graph.core.proto import to_proto, with_subgraphs
from intact.graph.core.without_weights import placeholder
from intact.graph.files.io import MAX_BYTES, check, to_checked_proto

_ALIGN = 4096  # a page, so that readers can map each tensor
_EMBEDDED = 1024  # bytes up to which a tensor stays in the model file


def save(model: ir.Model, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
    """Write `model` to `path`: checked, atomically, and the same bytes for the same model.

    Args:
        model: Not changed.
        path: The file. External data go to ``<path>.data`` beside it.
        external: Put weights above 1 KiB beside the file; None: only where they do not fit into 2 GiB.
    Raises:
        QuantValueError: ONNX's checker refuses the model.
        FileAccessError: The path cannot be written; the old files stay, and nothing else.
    """
    path = Path(path)
    tensors = _initializer_tensors(model)
    if external is None:
        external = sum(tensor.nbytes for tensor in tensors.values()) > MAX_BYTES - 2**20
    if external:
        check(model)
        check_target(path)
        with together():  # both behind a link, if `path` is one: a model finds its data in its own folder
            _save_external(model, Path(os.path.realpath(path)), tensors)
    else:
        _write(to_checked_proto(model), path)


def _write(proto: onnx.ModelProto, path: Path) -> None:
    with replacing(path) as file:
        file.write(proto.SerializeToString(deterministic=True))


def _initializer_tensors(model: ir.Model) -> dict[ir.Value, ir.TensorProtocol]:
    graphs = with_subgraphs(model.graph)
    values = (v for graph in graphs for v in graph.initializers.values())
    return {v: v.const_value for v in values if v.const_value is not None}


def _save_external(model: ir.Model, path: Path, tensors: dict[ir.Value, ir.TensorProtocol]) -> None:
    beside = path.with_name(path.name + ".data")
    large = {v: t for v, t in tensors.items() if t.nbytes > _EMBEDDED and t.dtype != ir.DataType.STRING}
    try:
        # The data file appears first: a model never names data that are not there.
        with replacing(beside) as file:
            for value, tensor in large.items():
                offset = file.seek(-(-file.tell() // _ALIGN) * _ALIGN)
                file.write(tensor.tobytes())
                value.const_value = placeholder(value, tensor, beside.name, offset)
        _write(to_proto(model), path)
    finally:
        for value, tensor in large.items():
            value.const_value = tensor

"""`load`: any valid model as onnx-ir's Model, read so that a damaged or hostile file can do no harm."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.graph.core.edit import free_weights
from intact.graph.core.proto import all_nodes, from_proto
from intact.graph.core.scene import Scene
from intact.graph.core.skeleton import move_large_tensors_to_inputs, to_proto_without_weights
from intact.graph.core.tensors import free_negative
from intact.graph.core.wording import first_line, root, unreadable
from intact.graph.files.external import Home, check_stored, set_home
from intact.graph.files.validate import check_structure
from intact.graph.infer.inference import TOLD, infer_shapes, refresh_shapes
from intact.graph.opset.raising import is_old, upgrade_old
from intact.graph.rewrites.float16 import widen_bfloat16
from intact.reading import read_bytes

_FIRST_FREE_IR = 4

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model"
"""What `load` takes: a path, a file's bytes, or a model in memory."""


def load(
    source: Source, *, folder: str | os.PathLike[str] | None = None, any_opset: bool = False,
    checked: bool = False,
) -> ir.Model:  # fmt: skip
    """The model in `source`, as an own copy that the caller may change.

    Every node has a name of its own, nodes stand in topological order, and values have shapes and types
    where the operators tell them; what was not in the file is not written by `save`. Files of IR version 3,
    whose weights had to be inputs, become IR version 4, opsets below 9 become 9, and bfloat16 becomes
    float32; the size -1 means any size. Nothing is executed, nothing outside the model's folder is opened,
    and no size is believed before it is compared with the bytes that are there.

    Args:
        source: A path, the bytes of a file, a ModelProto, or an onnx-ir Model.
        folder: Where external data must lie; None: the folder of the file, or the cache that it is linked to.
        any_opset: Accept every opset that the onnx package knows, to read and print it, and leave bfloat16
            as it is; False: 1..25, and what is older than 9 becomes opset 9, or 10 where it has operators
            that ONNX dropped by then.
        checked: `source` is a part of a model that was loaded, and the caller's own: it comes back.
    Raises:
        FileFormatError: Damaged: names the file and the node, tensor or value.
        UnsupportedError: An IR version, an opset or a tensor kind that we do not read.
    """
    where = str(source) if isinstance(source, (str, os.PathLike)) else "model"
    home = None if folder is None else Home(Path(folder))
    if home is None and isinstance(source, (str, os.PathLike)):
        home = Home.of(Path(source))
    skeleton = None
    try:
        if isinstance(source, ir.Model) and checked:
            model = source
        elif isinstance(source, ir.Model):
            model = source.clone()
            check_structure(to_proto_without_weights(model), lambda tensor, where: None, any_opset=any_opset)
        else:
            proto = _parse(source)
            free_negative(proto)
            outside: list[str] = []
            check_structure(proto, partial(_check_tensor, home=home, outside=outside), any_opset=any_opset)
            model = _convert(proto)
            if home is not None and outside:
                set_home(model, home)
            if proto.ir_version >= _FIRST_FREE_IR and not outside:
                skeleton = move_large_tensors_to_inputs(proto)
        _free_old_weights(model)
        if not any_opset and widen_bfloat16(model):
            skeleton = None
        has_shapes = checked and model.meta.get(TOLD)
        if not any_opset and not has_shapes and is_old(model):
            _name_nodes(model)
            upgrade_old(model)
            refresh_shapes(model)
        elif not has_shapes:
            infer_shapes(model, skeleton)
    except IntactError as error:
        raise error if where in error.where else error.at(where) from error
    _name_nodes(model)
    return model


def _parse(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy
    if not isinstance(source, (str, os.PathLike, bytes)):
        raise QuantValueError(
            "source", f"a {type(source).__name__}", "a path, bytes, a ModelProto or an onnx-ir Model",
            "give the path of an ONNX file",
        )  # fmt: skip
    data = source if isinstance(source, bytes) else read_bytes(source)
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError) as error:
        where = "model" if isinstance(source, bytes) else str(source)
        raise unreadable(where, error, data) from error
    return proto


def _convert(proto: onnx.ModelProto) -> ir.Model:
    try:
        return from_proto(proto)
    except IntactError:
        raise
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        raise FileFormatError(
            "graph", first_line(root(error)), "a graph that onnx-ir can hold", "export the model again"
        ) from error


def _check_tensor(tensor: onnx.TensorProto, where: str, home: Home | None, outside: list[str]) -> None:
    """As `check_stored`; notes in `outside` which tensors are external data."""
    check_stored(tensor, where, home)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        outside.append(where)


def _free_old_weights(model: ir.Model) -> None:
    """IR version 3 wanted weights to be inputs too, and runtimes take them for constants: say so in IR 4."""
    if model.ir_version < _FIRST_FREE_IR:
        model.ir_version = _FIRST_FREE_IR
        free_weights(model)


def _name_nodes(model: ir.Model) -> None:
    """A name for every node that has none, or another node's."""
    seen: set[str] = set()
    unnamed = []
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        for node in all_nodes(graph):
            if not node.name or node.name in seen:
                unnamed.append(node)
            else:
                seen.add(node.name)
    names = Scene(model.graph).names
    for node in unnamed:
        node.name = names(node.name or f"{node.op_type}_{next((v.name for v in node.outputs if v.name), '')}")

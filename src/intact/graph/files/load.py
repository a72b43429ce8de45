"""`load`: read a model as onnx-ir's Model, safely, also from a damaged or hostile file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from intact.errors import FileFormatError, IntactError, QuantValueError, require_path
from intact.graph.core.check_tensors import free_sizes, type_outputs
from intact.graph.core.edit import free_weights
from intact.graph.core.error_text import first_line, naming_errors, root, unreadable
from intact.graph.core.proto import all_nodes, from_proto
from intact.graph.core.scene import Scene
from intact.graph.core.without_weights import move_large_tensors_to_inputs, to_proto_without_weights
from intact.graph.files.external import Home, check_stored, set_home
from intact.graph.files.validate import check_structure
from intact.graph.infer.inference import HAS_SHAPES, infer_shapes, refresh_shapes
from intact.graph.opset.upgrade import is_old, upgrade_old
from intact.graph.rewrites.widen_float16 import widen_bfloat16
from intact.processes import reads_untrusted_files, try_file
from intact.reading import read_bytes, reading

_FIRST_FREE_IR = 4

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model"
"""Argument of `load`: a path, a file's bytes, or a model in memory."""


@dataclass
class Loading:
    """A model on its way through `STAGES`.

    Attributes:
        source, any_opset, checked: As for `load`.
        home: Where external data must lie; None: there may be none.
        proto: The message, where `source` is no onnx-ir Model.
        outside: Where tensors lie in files of their own.
        graph_model: The model.
        skeleton: `proto` with large tensors as inputs, where inference can use it up.
        upgraded: Its opset was raised, and shapes were inferred on the way.
    """

    source: Source
    any_opset: bool
    checked: bool
    home: Home | None
    proto: onnx.ModelProto | None = None
    outside: list[str] = field(default_factory=list)
    graph_model: ir.Model | None = None
    skeleton: onnx.ModelProto | None = None
    upgraded: bool = False

    @property
    def model(self) -> ir.Model:
        """The model, behind the stage that makes it."""
        assert self.graph_model is not None
        return self.graph_model

    @property
    def has_shapes(self) -> bool:
        """Return whether the caller has inferred all shapes."""
        return self.checked and bool(self.model.meta.get(HAS_SHAPES))

    @property
    def is_old(self) -> bool:
        """Return whether the model is upgraded to the oldest opset that all readers accept."""
        return not self.any_opset and not self.has_shapes and is_old(self.model)


@dataclass(frozen=True)
class LoadStage:
    """One step of `load`.

    Attributes:
        name: An imperative clause.
        run: Fills in or changes the state.
        applies: Whether it runs; None: always.
    """

    name: str
    run: Callable[[Loading], None]
    applies: Callable[[Loading], bool] | None = None


def _parse(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, *, is_own: bool
) -> onnx.ModelProto:  # fmt: skip
    if isinstance(source, onnx.ModelProto):
        if is_own:
            return source
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


def _try_untrusted(
    where: str, source: Source, folder: str | os.PathLike[str] | None, any_opset: bool
) -> None:
    """Let the limited process load a model first: ONNX's code may end the process."""
    data = bytes(source.SerializeToString()) if isinstance(source, onnx.ModelProto) else source
    assert isinstance(data, (str, os.PathLike, bytes))
    home = None if folder is None else os.fspath(folder)
    with reading(data) if not isinstance(data, bytes) else nullcontext():
        try_file(where, "intact.graph:load", data, folder=home, any_opset=any_opset)


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
    """Check a tensor as `check_stored` does, and collect external data in `outside`."""
    check_stored(tensor, where, home)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        outside.append(where)


def _free_old_weights(model: ir.Model) -> None:
    """Move models of IR version 3, whose weights are inputs too, to IR 4, so that weights are constants."""
    if model.ir_version < _FIRST_FREE_IR:
        model.ir_version = _FIRST_FREE_IR
        free_weights(model)


def _name_nodes(model: ir.Model) -> None:
    """Name every node that has no name, or another node's."""
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


def _is_message(state: Loading) -> bool:
    return not isinstance(state.source, ir.Model)


def _is_unchecked_model(state: Loading) -> bool:
    return isinstance(state.source, ir.Model) and not state.checked


def _parse_source(state: Loading) -> None:
    assert not isinstance(state.source, ir.Model)
    state.proto = _parse(state.source, is_own=state.checked)


def _take_model(state: Loading) -> None:
    assert isinstance(state.source, ir.Model)
    state.graph_model = state.source if state.checked else state.source.clone()


def _check_model(state: Loading) -> None:
    proto = to_proto_without_weights(state.model)
    check_structure(proto, lambda tensor, where: None, any_opset=state.any_opset)


def _check_message(state: Loading) -> None:
    assert state.proto is not None
    check_tensor = partial(_check_tensor, home=state.home, outside=state.outside)
    check_structure(state.proto, check_tensor, any_opset=state.any_opset)


def _free_sizes(state: Loading) -> None:
    assert state.proto is not None
    free_sizes(state.proto)


def _type_outputs(state: Loading) -> None:
    assert state.proto is not None
    type_outputs(state.proto)


def _convert_message(state: Loading) -> None:
    assert state.proto is not None
    state.graph_model = _convert(state.proto)


def _find_external_data(state: Loading) -> None:
    assert state.home is not None
    set_home(state.model, state.home)


def _keep_message(state: Loading) -> None:
    """Keep the message, because inference may consume it: the model shares its tensors."""
    assert state.proto is not None
    if state.proto.ir_version >= _FIRST_FREE_IR and not state.outside:
        state.skeleton = move_large_tensors_to_inputs(state.proto)


def _widen_bfloat16(state: Loading) -> None:
    if widen_bfloat16(state.model):
        state.skeleton = None  # which says bfloat16


def _upgrade(state: Loading) -> None:
    _name_nodes(state.model)
    upgrade_old(state.model)
    refresh_shapes(state.model)
    state.upgraded = True


STAGES = (
    LoadStage("take the model", _take_model, lambda state: not _is_message(state)),
    LoadStage("check the model", _check_model, _is_unchecked_model),
    LoadStage("parse the message", _parse_source, _is_message),
    LoadStage("let -1 be any size", _free_sizes, _is_message),
    LoadStage("check the message", _check_message, _is_message),
    LoadStage("type outputs that nothing makes", _type_outputs, _is_message),
    LoadStage("convert to onnx-ir", _convert_message, _is_message),
    LoadStage("find external data", _find_external_data, lambda state: bool(state.home and state.outside)),
    LoadStage("keep the message for inference", _keep_message, _is_message),
    LoadStage("free weights from inputs", lambda state: _free_old_weights(state.model)),
    LoadStage("compute bfloat16 as float32", _widen_bfloat16, lambda state: not state.any_opset),
    LoadStage("upgrade to opset 9", _upgrade, lambda state: state.is_old),
    LoadStage(
        "infer shapes", lambda state: infer_shapes(state.model, state.skeleton),
        lambda state: not state.has_shapes and not state.upgraded,
    ),
    LoadStage("name nodes", lambda state: _name_nodes(state.model)),
)  # fmt: skip
"""Stages of `load`, in order."""


def load(
    source: Source, *, folder: str | os.PathLike[str] | None = None, any_opset: bool = False,
    checked: bool = False,
) -> ir.Model:  # fmt: skip
    """Load the model in `source` as a copy that the caller may change.

    Every node has a name of its own, nodes stand in topological order, and values have shapes and types
    where the operators tell them; what was not in the file is not written by `save`. Files of IR version 3,
    whose weights had to be inputs, become IR version 4, opsets below 9 become 9, and bfloat16 becomes
    float32; the size -1 means any size. Nothing is executed, nothing outside the model's folder is opened,
    and no size is believed before it is compared with the bytes that are there.

    Args:
        source: A path, the bytes of a file, a ModelProto, or an onnx-ir Model.
        folder: Where external data must lie; None: the folder of the file, or the cache that it is linked to.
        any_opset: Accept every opset that the onnx package knows, to read and print it, and leave bfloat16
            as it is; False: up to `MAX_READ_OPSET`, and what is older than 9 becomes opset 9, or 10 where it
            has operators that ONNX dropped by then.
        checked: `source` is the caller's own: a model, part of one that was loaded, which comes back; or a
            ModelProto, which is checked all the same, and whose memory the model takes over.
    Raises:
        FileFormatError: Damaged: names the file and the node, tensor or value.
        UnsupportedError: An IR version, an opset or a tensor kind that we do not read.
    """
    where = str(source) if isinstance(source, (str, os.PathLike)) else "model"
    home = None if folder is None else Home(Path(folder))
    if isinstance(source, (str, os.PathLike)):
        require_path(source)
        home = Home.of(Path(source)) if home is None else home
    if reads_untrusted_files() and isinstance(source, (str, os.PathLike, bytes, onnx.ModelProto)):
        _try_untrusted(where, source, folder, any_opset)
    state = Loading(source, any_opset, checked, home)
    try:
        for stage in STAGES:
            if stage.applies is None or stage.applies(state):
                with naming_errors(f"model: '{stage.name}'"):
                    stage.run(state)
    except IntactError as error:
        raise error if where in error.where else error.at(where) from error
    return state.model

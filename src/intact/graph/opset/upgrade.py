"""Upgrade a graph to a newer opset of the ONNX domain.

`UPGRADES` says, operator by operator and opset by opset, how an older form reads in a newer one. Every other
change of a schema only added types, attributes or inputs whose defaults say what was said before.
ONNX's own converter is not used: it loses metadata and leaves subgraphs and functions as they are.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnx_ir as ir

from intact.errors import FileFormatError, UnsupportedError
from intact.graph.core.build import is_read, replace
from intact.graph.core.proto import all_nodes
from intact.graph.infer.inference import guess_shapes, refresh_shapes
from intact.graph.ops import attributes, older
from intact.graph.ops.attributes import FIX
from intact.graph.opset.upgrade_before_opset9 import DROPPED, EARLY
from intact.graph.opset.upgrade_context import Step, UpgradeContext, real_dtype

MAX_OPSET = 25
"""The newest opset that is written; newer files are read, and keep their own."""
_READ_OPSET = 9
_INFERABLE_OPSET = 6
"""From which most operators tell their shapes; before 7, operands lie along axes that only ranks place."""
_STAGES = (_INFERABLE_OPSET, _READ_OPSET)
"""Opsets at which the upgrade pauses.

Inserted nodes have the form of that opset and are upgraded on from there.
"""


def upgrade_opset(model: ir.Model, opset: int) -> None:
    """Upgrade `model` to `opset`, in place; a newer model stays as it is.

    Subgraphs and the bodies of functions are brought along, other domains stay.

    Args:
        model: Its shapes are inferred as far as its opset tells them.
        opset: Up to 25.
    Raises:
        UnsupportedError: An operator has no form in `opset` (names the node), or we do not know `opset`.
    """
    if opset > MAX_OPSET:
        raise UnsupportedError(
            "opset",
            str(opset),
            f"at most {MAX_OPSET}",
            "choose an older opset; 17 suits most runtimes",
        )
    # Files of other domains alone may have got operators of this one.
    model.graph.opset_imports.setdefault("", opset)
    oldest = min(graph.opset_imports.get("", opset) for graph in _bodies(model))
    late = list[tuple[UpgradeContext, ir.Node]]()
    for stage in (*(stage_opset for stage_opset in _STAGES if oldest < stage_opset < opset), opset):
        late = _raise(model, stage)
        if stage == _INFERABLE_OPSET and stage < opset:
            guess_shapes(model)
    model.ir_version = max(model.ir_version, ir_version_of(model.opset_imports.get("", opset)))
    if late:
        refresh_shapes(model)  # ONNX follows the numbers of shapes through more of the newer forms
        for stage_opset, node in late:
            _along_one_axis(stage_opset, node)


def is_old(model: ir.Model) -> bool:
    """Return whether the model or a function of it is below opset 9, or has operators that ONNX dropped."""
    return any(
        (opset := graph.opset_imports.get("", _READ_OPSET)) < _READ_OPSET
        or (opset == _READ_OPSET and _has_dropped(graph))
        for graph in _bodies(model)
    )


def upgrade_old(model: ir.Model) -> None:
    """Bring a model that `is_old`, in place, to the oldest opset that everything else reads.

    That is opset 9, and 10 where there are operators that ONNX dropped by then. Shapes are told as far as the
    old operators tell them.

    Raises:
        UnsupportedError: An operator has no form there (names the node).
    """
    old = [graph for graph in _bodies(model) if graph.opset_imports.get("", MAX_OPSET) <= _READ_OPSET]
    guess_shapes(model)
    upgrade_opset(model, _READ_OPSET + any(_has_dropped(graph) for graph in old))


def _has_dropped(graph: ir.Graph) -> bool:
    return any(node.op_type in DROPPED and not node.domain for node in all_nodes(graph))


def _bodies(model: ir.Model) -> list[ir.Graph]:
    return [model.graph, *(function.graph for function in model.functions.values())]


def _raise(model: ir.Model, opset: int) -> list[tuple[UpgradeContext, ir.Node]]:
    """Upgrade once through all opsets up to `opset`; return the nodes that wait for a rank."""
    late = list[tuple[UpgradeContext, ir.Node]]()
    for graph in _bodies(model):
        if graph.opset_imports.get("", opset) < opset:
            raising = UpgradeContext(graph, opset, stores=graph is model.graph)
            raising.run(UPGRADES)
            graph.opset_imports[""] = opset
            late += [(raising, node) for node in raising.late]
    return late


@cache
def ir_version_of(opset: int) -> int:
    """Return the IR of the first ONNX release with `opset`: old runtimes refuse a newer one."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))


def _axes_become_an_input(up: UpgradeContext, node: ir.Node) -> None:
    up.move(node, "axes", 1)


def _move_split_sizes(up: UpgradeContext, node: ir.Node) -> None:
    up.move(node, "split", 1)


def _set_split_count(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Split to 18: either the sizes or the number of outputs."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        attributes.put(node, "num_outputs", len(node.outputs))


def _slice(up: UpgradeContext, node: ir.Node) -> None:
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        up.move(node, name, index)


def _top_k(up: UpgradeContext, node: ir.Node) -> None:
    k = older.TopK1.of(node).k
    attributes.remove(node, "k")
    up.put(node, 1, up.constant(node, "k", np.array([k], np.int64)))


def _clip(up: UpgradeContext, node: ir.Node) -> None:
    up.move(node, "min", 1, real_dtype(node))
    up.move(node, "max", 2, real_dtype(node))


def _pad(up: UpgradeContext, node: ir.Node) -> None:
    up.move(node, "pads", 1)
    up.move(node, "value", 2, real_dtype(node))


def _dropout(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Dropout to 12: the ratio matters in training alone, which an input asks for."""
    attributes.remove(node, "ratio")


def _batch_norm(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade BatchNormalization to 14: the outputs beyond the first are training's alone."""
    if any(is_read(v) for v in node.outputs[1:]):
        raise up.refuse(node, "statistics as outputs", 14)
    node.resize_outputs(1)


def _upsample(up: UpgradeContext, node: ir.Node) -> None:
    node.op_type = "Resize"


def _resize(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Resize to 11: name the old placement of pixels, and add a region before the scales."""
    scales = node.inputs[1]
    up.put(node, 1, up.constant(node, "roi", np.zeros(0, np.float32)))
    up.put(node, 2, scales)
    attributes.put(node, "coordinate_transformation_mode", "asymmetric")
    attributes.put(node, "nearest_mode", "floor")


def _scatter(up: UpgradeContext, node: ir.Node) -> None:
    node.op_type = "ScatterElements"


def _softmax(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Softmax to 13: along one axis; before, over everything from `axis` (by default 1) on."""
    x, axis = node.inputs[0], older.Softmax1.of(node).axis
    attributes.put(node, "axis", axis)
    if axis != -1 and x is not None and x.shape is None:
        up.late.append(node)
    else:
        _along_one_axis(up, node)


def _along_one_axis(up: UpgradeContext, node: ir.Node) -> None:
    x, output, axis = node.inputs[0], node.outputs[0], older.Softmax1.of(node).axis
    rank = len(x.shape) if x is not None and x.shape is not None else None
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        attributes.put(node, "axis", -1)
        return
    if output.shape is not None and not -len(output.shape) <= axis < len(output.shape):
        output.shape = None  # exporters declare no axes where they know none
    insert, base = up.inserter(node), node.name or node.op_type.lower()
    rows = insert.node("Flatten", [x], f"{base}.rows", dtype=output.dtype, shape=None, axis=axis)
    soft = insert.node(node.op_type, [rows], f"{base}.soft", dtype=output.dtype, shape=None, axis=-1)
    shape = insert.node("Shape", [x], f"{base}.shape", dtype=ir.DataType.INT64, shape=None)
    back = insert.node("Reshape", [soft, shape], f"{base}.back", dtype=output.dtype, shape=output.shape)
    replace(node, back, up.names)


def _roi_align(up: UpgradeContext, node: ir.Node) -> None:
    attributes.put(node, "coordinate_transformation_mode", "output_half_pixel")


def _grid_sample(up: UpgradeContext, node: ir.Node) -> None:
    mode = older.GridSample16.of(node).mode
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    attributes.put(node, "mode", renamed)


def _dft(up: UpgradeContext, node: ir.Node) -> None:
    value = np.array(older.DFT17.of(node).axis, np.int64)
    attributes.remove(node, "axis")
    up.put(node, 2, up.constant(node, "axis", value))


def _group_norm(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade GroupNormalization to 21: a scale and a bias for each channel; before, for each group."""
    x, groups, names = node.inputs[0], older.GroupNormalization18.of(node).num_groups, ("", "scale", "bias")
    channels = x.shape[1] if x is not None and x.shape is not None and len(x.shape) > 1 else None
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise FileFormatError(
            f"node '{node.name}' (GroupNormalization)", f"{groups} groups of {channels} channels",
            "a number of groups that divides the channels", FIX,
        )  # fmt: skip
    for index in (1, 2):
        value = node.inputs[index]
        count = (
            value.shape[0] if value is not None and value.shape is not None and value.shape.rank() else None
        )
        if isinstance(channels, int) and count == channels:  # as some exporters write it in opset 18, too
            continue
        array = value.const_value if value is not None and value.is_initializer() else None
        if isinstance(channels, int) and array is not None:
            repeated = np.repeat(array.numpy(), channels // groups)
            up.put(node, index, up.constant(node, names[index], repeated))
        else:
            up.put(node, index, _for_each_channel(up, node, value, names[index], groups))


def _for_each_channel(
    up: UpgradeContext, node: ir.Node, value: ir.Value | None, name: str, groups: int
) -> ir.Value:  # fmt: skip
    """Repeat the number of each group as often as it has channels, which a run determines."""
    insert, base = up.inserter(node), f"{node.name or 'group_norm'}.{name}"
    dtype, int64 = None if value is None else value.dtype, ir.DataType.INT64
    sizes = insert.node("Shape", [node.inputs[0]], f"{base}.sizes", dtype=int64, shape=None, start=1, end=2)
    count = up.constant(node, f"{name}.groups", np.array([groups], np.int64))
    each = insert.node("Div", [sizes, count], f"{base}.each", dtype=int64, shape=None)
    one_vector = up.constant(node, f"{name}.one", np.array([1], np.int64))
    target = insert.node("Concat", [one_vector, each], f"{base}.target", dtype=int64, shape=None, axis=0)
    column = insert.node("Unsqueeze", [value, one_vector], f"{base}.column", dtype=dtype, shape=None)
    table = insert.node("Expand", [column, target], f"{base}.table", dtype=dtype, shape=None)
    line = up.constant(node, f"{name}.line", np.array([-1], np.int64))
    return insert.node("Reshape", [table, line], f"{base}.channels", dtype=dtype, shape=None)


UPGRADES: dict[tuple[str, int], Step] = {
    **EARLY,
    ("Upsample", 10): _upsample,
    ("Slice", 10): _slice,
    ("TopK", 10): _top_k,
    ("Resize", 11): _resize,
    ("Clip", 11): _clip,
    ("Pad", 11): _pad,
    ("Scatter", 11): _scatter,
    ("Dropout", 12): _dropout,
    ("Squeeze", 13): _axes_become_an_input,
    ("Unsqueeze", 13): _axes_become_an_input,
    ("ReduceSum", 13): _axes_become_an_input,
    ("Split", 13): _move_split_sizes,
    ("Softmax", 13): _softmax,
    ("LogSoftmax", 13): _softmax,
    ("Hardmax", 13): _softmax,
    ("BatchNormalization", 14): _batch_norm,
    ("RoiAlign", 16): _roi_align,
    ("Split", 18): _set_split_count,
    **{(f"Reduce{kind}", 18): _axes_become_an_input
       for kind in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")},
    ("GridSample", 20): _grid_sample,
    ("DFT", 20): _dft,
    ("GroupNormalization", 21): _group_norm,
}  # fmt: skip
"""(operator, opset) -> what brings its older form to the form that it has since that opset."""

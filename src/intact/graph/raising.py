"""Bringing a graph of opset 9 or newer to a newer opset of the ONNX domain.

`RAISED` says, operator by operator and opset by opset, how an older form reads in a newer one. Every other
change of a schema since opset 9 only added types, attributes or inputs whose defaults say what was said
before. ONNX's own converter is not used: it loses metadata and leaves subgraphs and functions as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import ArrayLike

from intact.errors import UnsupportedError
from intact.graph.attributes import integer, text
from intact.graph.build import Inserter, Namer, replace
from intact.graph.inference import refresh_shapes
from intact.graph.proto import all_nodes

MAX_RAISED_OPSET = 25


def raise_opset(model: ir.Model, opset: int) -> None:
    """Rewrite `model`, in place, so that it says the same in `opset`; a model that is newer stays as it is.

    Subgraphs and the bodies of functions are brought along, other domains stay.

    Args:
        model: Of opset 9 or newer.
        opset: Up to 25.
    Raises:
        UnsupportedError: An operator has no form in `opset` (names the node), or we do not know `opset`.
    """
    if opset > MAX_RAISED_OPSET:
        raise UnsupportedError(
            "opset",
            str(opset),
            f"at most {MAX_RAISED_OPSET}",
            "choose an older opset; 17 suits most runtimes",
        )
    raised = list[_Raising]()
    for graph in (model.graph, *(f.graph for f in model.functions.values())):
        if graph.opset_imports.get("", opset) < opset:
            raised.append(_Raising(graph, opset, stores=graph is model.graph))
            raised[-1].run()
            graph.opset_imports[""] = opset
    model.ir_version = max(model.ir_version, ir_version_of(model.opset_imports.get("", opset)))
    if any(one.late for one in raised):
        refresh_shapes(model)  # ONNX follows the numbers of shapes through more of the newer forms
        for one in raised:
            for node in one.late:
                _along_one_axis(one, node)


@cache
def ir_version_of(opset: int) -> int:
    """The IR of the first ONNX release with `opset`: old runtimes refuse a newer one."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))


class _Raising:
    """One graph or function on its way up.

    Args:
        graph: Of an older opset.
        target: The opset to reach.
        stores: The graph may have initializers; the body of a function may not.

    Attributes:
        late: Softmaxes and their kind of an unknown rank.
    """

    def __init__(self, graph: ir.Graph, target: int, *, stores: bool) -> None:
        self.graph, self.target, self.stores, self.names = graph, target, stores, Namer(graph)
        self.late = list[ir.Node]()

    def run(self) -> None:
        for node in list(all_nodes(self.graph)):
            if node.domain:
                continue
            for first in range(self.graph.opset_imports[""] + 1, self.target + 1):
                step = RAISED.get((node.op_type, first))
                if step is not None:
                    step(self, node)
            node.version = None

    def refuse(self, node: ir.Node, what: str, first: int) -> UnsupportedError:
        return UnsupportedError(
            f"node '{node.name}' ({node.op_type})",
            f"{what}, in a model that is raised to opset {self.target}",
            f"an opset below {first}",
            f"write the model with opset {first} or newer, or quantize it with an older opset",
        )

    def constant(self, node: ir.Node, name: str, array: ArrayLike) -> ir.Value:
        """A constant in front of `node`: an initializer where its graph may have one."""
        name = f"{node.name or node.op_type.lower()}.{name}"
        if node.graph is self.graph and self.stores:
            return self.inserter(node).constant(name, array)
        tensor = ir.tensor(np.asarray(array))
        return self.inserter(node).node(
            "Constant", [], name, dtype=tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), value=tensor
        )

    def inserter(self, node: ir.Node) -> Inserter:
        assert isinstance(node.graph, ir.Graph)
        return Inserter(node.graph, node, self.names)

    def move(self, node: ir.Node, attribute: str, index: int, dtype: object = np.int64) -> None:
        """An attribute becomes the input at `index`."""
        given = node.attributes.pop(attribute, None)
        if given is not None:
            value = given.value if isinstance(given.value, (int, float)) else list(given.value)
            self.put(node, index, self.constant(node, attribute, np.array(value, dtype)))  # type: ignore[call-overload]

    def put(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        node.resize_inputs(max(index + 1, len(node.inputs)))
        node.replace_input_with(index, value)


def _axes_become_an_input(up: _Raising, node: ir.Node) -> None:
    up.move(node, "axes", 1)


def _split_sizes(up: _Raising, node: ir.Node) -> None:
    up.move(node, "split", 1)


def _split_count(up: _Raising, node: ir.Node) -> None:
    """18: either the sizes or the number of outputs."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _slice(up: _Raising, node: ir.Node) -> None:
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        up.move(node, name, index)


def _top_k(up: _Raising, node: ir.Node) -> None:
    k = node.attributes.pop("k")
    up.put(node, 1, up.constant(node, "k", np.array([k.as_int()], np.int64)))


def _real_dtype(node: ir.Node) -> np.dtype:
    x = node.inputs[0]
    return np.dtype(x.dtype.numpy()) if x is not None and x.dtype is not None else np.dtype(np.float32)


def _clip(up: _Raising, node: ir.Node) -> None:
    up.move(node, "min", 1, _real_dtype(node))
    up.move(node, "max", 2, _real_dtype(node))


def _pad(up: _Raising, node: ir.Node) -> None:
    up.move(node, "pads", 1)
    up.move(node, "value", 2, _real_dtype(node))


def _dropout(up: _Raising, node: ir.Node) -> None:
    """12: the ratio matters in training alone, which an input asks for."""
    node.attributes.pop("ratio", None)


def _batch_norm(up: _Raising, node: ir.Node) -> None:
    """14: the outputs beyond the first are training's alone."""
    if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise up.refuse(node, "statistics as outputs", 14)
    node.resize_outputs(1)


def _upsample(up: _Raising, node: ir.Node) -> None:
    node.op_type = "Resize"


def _resize(up: _Raising, node: ir.Node) -> None:
    """11: what had been the only way to place the pixels got names, and a region came before the scales."""
    scales = node.inputs[1]
    up.put(node, 1, up.constant(node, "roi", np.zeros(0, np.float32)))
    up.put(node, 2, scales)
    node.attributes["coordinate_transformation_mode"] = ir.AttrString(
        "coordinate_transformation_mode", "asymmetric"
    )
    node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "floor")


def _scatter(up: _Raising, node: ir.Node) -> None:
    node.op_type = "ScatterElements"


def _softmax(up: _Raising, node: ir.Node) -> None:
    """13: along one axis; before, over everything from `axis` (by default 1) on."""
    x, axis = node.inputs[0], integer(node, "axis", 1)
    node.attributes["axis"] = ir.AttrInt64("axis", axis)
    if axis != -1 and x is not None and x.shape is None:
        up.late.append(node)
    else:
        _along_one_axis(up, node)


def _along_one_axis(up: _Raising, node: ir.Node) -> None:
    x, output, axis = node.inputs[0], node.outputs[0], integer(node, "axis", 1)
    rank = len(x.shape) if x is not None and x.shape is not None else None
    if axis == -1 or (rank is not None and axis % max(rank, 1) == rank - 1):
        node.attributes["axis"] = ir.AttrInt64("axis", -1)
        return
    if output.shape is not None and not -len(output.shape) <= axis < len(output.shape):
        output.shape = None  # exporters declare no axes where they know none
    insert, base = up.inserter(node), node.name or node.op_type.lower()
    rows = insert.node("Flatten", [x], f"{base}.rows", dtype=output.dtype, shape=None, axis=axis)
    soft = insert.node(node.op_type, [rows], f"{base}.soft", dtype=output.dtype, shape=None, axis=-1)
    shape = insert.node("Shape", [x], f"{base}.shape", dtype=ir.DataType.INT64, shape=None)
    back = insert.node("Reshape", [soft, shape], f"{base}.back", dtype=output.dtype, shape=output.shape)
    replace(node, back, up.names)


def _roi_align(up: _Raising, node: ir.Node) -> None:
    name = "coordinate_transformation_mode"
    node.attributes[name] = ir.AttrString(name, "output_half_pixel")


def _grid_sample(up: _Raising, node: ir.Node) -> None:
    given = text(node, "mode", "bilinear")
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(given, given)
    node.attributes["mode"] = ir.AttrString("mode", renamed)


def _dft(up: _Raising, node: ir.Node) -> None:
    axis = node.attributes.pop("axis", None)
    value = np.array(1 if axis is None else axis.as_int(), np.int64)
    up.put(node, 2, up.constant(node, "axis", value))


def _group_norm(up: _Raising, node: ir.Node) -> None:
    raise up.refuse(node, "a scale per group, which became a scale per channel", 21)


Step = Callable[[_Raising, ir.Node], None]

RAISED: dict[tuple[str, int], Step] = {
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
    ("Split", 13): _split_sizes,
    ("Softmax", 13): _softmax,
    ("LogSoftmax", 13): _softmax,
    ("Hardmax", 13): _softmax,
    ("BatchNormalization", 14): _batch_norm,
    ("RoiAlign", 16): _roi_align,
    ("Split", 18): _split_count,
    **{(f"Reduce{kind}", 18): _axes_become_an_input
       for kind in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")},
    ("GridSample", 20): _grid_sample,
    ("DFT", 20): _dft,
    ("GroupNormalization", 21): _group_norm,
}  # fmt: skip
"""(operator, opset) -> what brings its older form to the form that it has since that opset."""

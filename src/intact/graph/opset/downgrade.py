"""Move a graph to another opset of the ONNX domain, 13 to 25.

torch's exporter writes opset 18 and up. `LOWERED` says, operator by operator, how 18 is said in 13..17; an
operator that is missing there passes where its schema did not change, and is refused by name where it did.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph import ops
from intact.graph.core.build import Inserter, replace
from intact.graph.core.proto import all_nodes
from intact.graph.core.scene import Scene
from intact.graph.ops import attributes
from intact.graph.opset.upgrade import MAX_OPSET, ir_version_of, upgrade_opset

MIN_OPSET = 13
NATIVE_OPSET = 18
"""The oldest opset that an exporter writes, from which `set_opset` goes down."""

# Since opset 13 these learned types, and nothing else that a graph of float tensors could say.
_ONLY_TYPES = {
    "Abs", "Add", "And", "Cast", "CastLike", "Compress", "ConstantOfShape", "Constant", "CumSum", "Div",
    "Equal", "Flatten", "GRU", "GreaterOrEqual", "Identity", "If", "IsInf", "IsNaN", "LeakyRelu",
    "LessOrEqual", "Loop", "LSTM", "Mul", "NonZero", "PRelu", "Pow", "RNN", "Relu", "Scan", "Size",
    "Squeeze", "Sub", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
}  # fmt: skip


def check_opset(opset: int) -> None:
    """Raise an error for an opset outside MIN_OPSET..MAX_OPSET.

    Raises:
        UnsupportedError: `opset` is too old for a per-channel QuantizeLinear, or newer than we know.
    """
    if not MIN_OPSET <= opset <= MAX_OPSET:
        raise UnsupportedError(
            "opset",
            str(opset),
            f"{MIN_OPSET}..{MAX_OPSET}: per-channel scales need {MIN_OPSET}",
            "choose an opset in that range; 17 suits most runtimes",
        )


def set_opset(model: ir.Model, target: int) -> None:
    """Convert `model` to opset `target`, older or newer, in place, with its IR version.

    Args:
        model: Of opset 18 or newer, without functions and without markers.
        target: 13..25; at least the model's own, or below 18 for a model of opset 18.
    Raises:
        UnsupportedError: An operator has no form in `target`; names the node and the opset that has one.
    """
    check_opset(target)
    current = model.opset_imports.get("", target)
    if target < current:
        if current > NATIVE_OPSET:
            raise UnsupportedError(
                "opset", f"a model of opset {current} for {target}", f"opset {NATIVE_OPSET} to go down from",
                f"export the model again with opset={target}",
            )  # fmt: skip
        _Lowering(model.graph, target).run()
    upgrade_opset(model, target)
    model.opset_imports[""] = target
    for node in all_nodes(model.graph):
        node.version = None
    model.ir_version = ir_version_of(target)


def oldest_opset(model: ir.Model, wanted: int) -> int:
    """Return `wanted`, or the next opset in which every operator of `model` has a form and takes its types.

    Args:
        model: Of opset 18 or newer; it stays as it is. Markers are no operators.
        wanted: 13..25.
    """
    wanted = _opset_of_types(model, wanted)
    for opset in range(wanted, min(model.opset_imports.get("", wanted), NATIVE_OPSET)):
        try:
            _Lowering(model.graph.clone(), opset).run()
        except UnsupportedError:
            continue
        return opset
    return max(wanted, NATIVE_OPSET)


def _opset_of_types(model: ir.Model, wanted: int) -> int:
    """Return `wanted`, or the next opset in which operators take the types of what they read and write.

    Convolutions of bfloat16 came with opset 22, for example. Types that no opset takes raise nothing here.

    Args:
        model: Of opset 18 or newer; it stays as it is. Markers are no operators.
        wanted: 13..25.
    """
    opset = wanted
    for node in all_nodes(model.graph):
        if not node.domain:
            fitting = (n for n in range(opset, MAX_OPSET + 1) if _takes_types(node, n))
            opset = next(fitting, opset)
    return opset


def _takes_types(node: ir.Node, opset: int) -> bool:
    """Return whether the schema of an operator has the types of `node`; also where there is no schema yet."""
    if not _since(node.op_type, opset):
        return True
    schema = onnx.defs.get_schema(node.op_type, opset)
    for formals, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        for index, value in enumerate(values if formals else ()):
            if value is None or value.dtype is None or not isinstance(value.type, ir.TensorType):
                continue
            types = formals[min(index, len(formals) - 1)].types
            if f"tensor({value.dtype.name.lower()})" not in types:
                return False
    return True


@cache
def _since(op_type: str, opset: int) -> int:
    """Return the opset that last changed `op_type`, as seen from `opset`; 0 where it does not exist yet."""
    try:
        return int(onnx.defs.get_schema(op_type, opset).since_version)
    except onnx.defs.SchemaError:
        return 0


class _Lowering:
    def __init__(self, graph: ir.Graph, target: int) -> None:
        self.graph, self.target = graph, target
        scene = Scene(graph)
        self.names, self.constants = scene.names, scene.constants

    def run(self) -> None:
        for node in list(all_nodes(self.graph)):
            if node.domain:
                continue
            since = _since(node.op_type, self.target)
            if since == _since(node.op_type, NATIVE_OPSET):
                continue
            lower = LOWERED.get(node.op_type)
            if lower is not None:
                lower(self, node)
            elif not since or node.op_type not in _ONLY_TYPES:
                raise self.refuse(node, f"{node.op_type} as it is since", _since(node.op_type, NATIVE_OPSET))

    def refuse(self, node: ir.Node, what: str, opset: int) -> UnsupportedError:
        return UnsupportedError(
            node.name or node.op_type,
            f"{what} opset {opset}, in a file of opset {self.target}",
            f"opset {opset} or newer",
            f"choose opset={opset} (--opset), or write the model without {node.op_type}",
        )

    def drop(self, node: ir.Node, **defaults: Any) -> None:
        """Remove attributes that the older form lacks, where their values are its behaviour anyway."""
        for name, default in defaults.items():
            attribute = attributes.take(node, name)
            value = None if attribute is None else attribute.value
            if value is not None and value != default and list(np.atleast_1d(value)) != default:
                raise self.refuse(node, f"{node.op_type} with {name}={value}, since", NATIVE_OPSET)

    def ints(self, node: ir.Node, index: int) -> list[int] | None:
        """Return a constant input as a list of integers; None where the input is left out."""
        value = node.inputs[index] if index < len(node.inputs) else None
        if value is None:
            return None
        array = self.constants(value)
        if array is None:
            raise self.refuse(node, f"{node.op_type} with a computed input {index}, since", NATIVE_OPSET)
        return [int(i) for i in array.reshape(-1)]

    def inserter(self, node: ir.Node) -> Inserter:
        assert isinstance(node.graph, ir.Graph)
        return Inserter(node.graph, node, self.names)


def _reduce(low: _Lowering, node: ir.Node) -> None:
    """Lower a reduction's axes: an input since 18, an attribute before.

    None means all, or nothing with noop.
    """
    axes = low.ints(node, 1)
    noop = ops.Reduction.of(node).noop_with_empty_axes
    attributes.remove(node, "noop_with_empty_axes")
    if not axes and noop:
        replace_with_input(low, node)
        return
    node.resize_inputs(1)
    if axes:
        attributes.put(node, "axes", axes)


def replace_with_input(low: _Lowering, node: ir.Node) -> None:
    assert node.inputs[0] is not None
    replace(node, node.inputs[0], low.names)


def _batch_norm(low: _Lowering, node: ir.Node) -> None:
    low.drop(node, training_mode=0)


def _reshape(low: _Lowering, node: ir.Node) -> None:
    """Lower allowzero (14): a constant shape without zeros reads the same.

    A computed shape has zeros only for an empty tensor, which no exporter's shape arithmetic copies from.
    """
    allowzero = ops.Reshape.of(node).allowzero
    attributes.remove(node, "allowzero")
    shape = low.constants(node.inputs[1])
    if allowzero and shape is not None and 0 in shape:
        raise low.refuse(node, "Reshape to an empty tensor, since", 14)


def _shape(low: _Lowering, node: ir.Node) -> None:
    """Lower start and end (15) to a Slice of the whole shape."""
    form = ops.Shape.of(node)
    first, last = form.start, form.end
    attributes.remove(node, "start", "end")
    if first == 0 and last is None:
        return
    insert, base = low.inserter(node), node.name or "shape"
    full = insert.node("Shape", node.inputs, f"{base}.full", dtype=ir.DataType.INT64, shape=None)
    bounds = [
        insert.constant(f"{base}.{name}", np.array([value], np.int64))
        for name, value in (("start", first), ("end", np.iinfo(np.int64).max if last is None else last))
    ]
    output = node.outputs[0]
    cut = insert.node("Slice", [full, *bounds], f"{base}.slice", dtype=output.dtype, shape=output.shape)
    replace(node, cut, low.names)


def _split_without_count(low: _Lowering, node: ir.Node) -> None:
    """Lower num_outputs (18): before, the number of outputs says it, and sizes must be equal or given."""
    form = ops.Split.of(node)
    axis, count = form.axis, form.num_outputs
    attributes.remove(node, "num_outputs")
    if count is None or (len(node.inputs) > 1 and node.inputs[1] is not None):
        return
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    size = shape[axis] if shape is not None else None
    if not isinstance(size, int):
        raise low.refuse(node, "Split of an unknown size with num_outputs, since", NATIVE_OPSET)
    step = -(-size // count)
    sizes = [step] * (count - 1)
    value = low.inserter(node).constant(f"{node.name}.sizes", np.array([*sizes, size - sum(sizes)], np.int64))
    node.resize_inputs(2)
    node.replace_input_with(1, value)


def _pad(low: _Lowering, node: ir.Node) -> None:
    """Lower axes (18): the pads of the other axes are zeros."""
    axes, pads = low.ints(node, 3), node.inputs[1]
    if axes is None:
        return
    pad_widths = low.ints(node, 1)
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or pads is None or pad_widths is None:
        raise low.refuse(node, "Pad with axes and an unknown rank, since", NATIVE_OPSET)
    full = np.zeros((2, len(shape)), np.int64)
    full[:, axes] = np.reshape(pad_widths, (2, -1))
    node.replace_input_with(1, low.inserter(node).constant(f"{node.name}.pads", full.reshape(-1)))
    node.resize_inputs(3)


def _resize(low: _Lowering, node: ir.Node) -> None:
    rank = len(node.outputs[0].shape) if node.outputs[0].shape is not None else 0
    low.drop(node, antialias=0, keep_aspect_ratio_policy="stretch", axes=list(range(rank)))


def _scatter(low: _Lowering, node: ir.Node) -> None:
    low.drop(node, reduction="none")


def _recurrent(low: _Lowering, node: ir.Node) -> None:
    low.drop(node, layout=0)


def _pool(low: _Lowering, node: ir.Node) -> None:
    low.drop(node, ceil_mode=0, dilations=[1] * len(ops.LpPool.of(node).kernel_shape))


def _hard_swish(low: _Lowering, node: ir.Node) -> None:
    """Write HardSwish by its definition: x * HardSigmoid(x; 1/6, 1/2)."""
    x, insert = node.inputs[0], low.inserter(node)
    assert x is not None
    gate = insert.node(
        "HardSigmoid", [x], f"{node.name}.gate", dtype=x.dtype, shape=x.shape, alpha=1 / 6, beta=0.5
    )
    product = insert.node("Mul", [x, gate], f"{node.name}.product", dtype=x.dtype, shape=x.shape)
    replace(node, product, low.names)


def _layer_norm(low: _Lowering, node: ir.Node) -> None:
    """Write LayerNormalization by its definition, over the last axes.

    ``(x - mean) / sqrt(var + epsilon) * scale + bias``.
    """
    if len(node.outputs) > 1:
        raise low.refuse(node, "LayerNormalization with its statistics, since", 17)
    x, insert, base = node.inputs[0], low.inserter(node), node.name or "norm"
    if x is None or x.shape is None or x.dtype is None:
        raise low.refuse(node, "LayerNormalization of an unknown shape, since", 17)
    form = ops.LayerNormalization.of(node)
    axis, epsilon = form.axis, form.epsilon
    axes = list(range(axis, 0)) if axis < 0 else list(range(axis, len(x.shape)))
    small = ir.Shape([1 if i in axes or i - len(x.shape) in axes else n for i, n in enumerate(x.shape)])

    def put(op_type: str, inputs: list[ir.Value | None], shape: ir.Shape, **attributes: Any) -> ir.Value:
        return insert.node(
            op_type, inputs, f"{base}.{op_type.lower()}", dtype=x.dtype, shape=shape, **attributes
        )

    centred = put("Sub", [x, put("ReduceMean", [x], small, axes=axes)], x.shape)
    variance = put("ReduceMean", [put("Mul", [centred, centred], x.shape)], small, axes=axes)
    offset = insert.constant(f"{base}.epsilon", np.array(epsilon, x.dtype.numpy()))
    deviation = put("Sqrt", [put("Add", [variance, offset], small)], small)
    y = put("Mul", [put("Div", [centred, deviation], x.shape), node.inputs[1]], x.shape)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        y = put("Add", [y, node.inputs[2]], x.shape)
    replace(node, y, low.names)


LOWERED: dict[str, Callable[[_Lowering, ir.Node], None]] = {
    **{f"Reduce{kind}": _reduce
       for kind in ("Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")},
    "BatchNormalization": _batch_norm,
    "GRU": _recurrent,
    "HardSwish": _hard_swish,
    "LSTM": _recurrent,
    "LayerNormalization": _layer_norm,
    "LpPool": _pool,
    "Pad": _pad,
    "RNN": _recurrent,
    "Reshape": _reshape,
    "Resize": _resize,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Shape": _shape,
    "Split": _split_without_count,
}  # fmt: skip
"""Functions that rewrite an operator of opset 18, called where the target opset's schema differs."""

"""Upgrades operators of opsets below 9, and operators that ONNX dropped with opset 10.

The first opsets told operators which inputs they may overwrite, laid operands along axes by an attribute, and
had sizes as attributes that became inputs. ONNX Runtime still runs the operators that were dropped: Windows'
converters wrote them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from intact.errors import FileFormatError, UnsupportedError
from intact.graph.core.build import drop_unused, is_read, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of
from intact.graph.ops import Control, attributes, older
from intact.graph.ops.attributes import FIX
from intact.graph.opset.upgrade_context import Step, UpgradeContext, real_dtype

_FAR = 2**31
"""Above what any size is."""


def _refuse(node: ir.Node, what: str, first: int) -> UnsupportedError:
    return UnsupportedError(
        f"node '{node.name}' ({node.op_type})",
        f"{what}, as opsets below {first} have it",
        f"what opset {first} can say, too",
        f"export the model again with opset {max(first, 9)} or newer",
    )


def _without(*names: str) -> Step:
    """Return a step that drops attributes without meaning in the newer form."""

    def step(up: UpgradeContext, node: ir.Node) -> None:
        attributes.remove(node, *names)

    return step


_overwrites = _without("consumed_inputs")


def _to_input(attribute: str, index: int, dtype: type = np.int64) -> Step:
    def step(up: UpgradeContext, node: ir.Node) -> None:
        if not attributes.has(node, attribute):
            raise _refuse(node, f"no {attribute}", up.target)
        up.move(node, attribute, index, dtype)

    return step


def _reshape(up: UpgradeContext, node: ir.Node) -> None:
    _overwrites(up, node)
    _to_input("shape", 1)(up, node)


def _concat(up: UpgradeContext, node: ir.Node) -> None:
    attributes.put(node, "axis", older.Concat1.of(node).axis)


def _cast(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Cast to 6: the type by its number; before, by its name."""
    name = older.Cast1.of(node).to
    if name.upper() not in ir.DataType.__members__:
        raise _refuse(node, f"the type '{name}'", 6)
    attributes.put(node, "to", int(ir.DataType[name.upper()]))


def _selu(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Selu to 6: more digits in the defaults."""
    _overwrites(up, node)
    form = older.Selu1.of(node)
    attributes.put(node, "alpha", form.alpha)
    attributes.put(node, "gamma", form.gamma)


def _lp_pool(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade LpPool to 2: the power is an integer."""
    form = older.LpPool1.of(node)
    power = form.p
    if not power.is_integer():
        raise _refuse(node, f"the power {power}", 2)
    attributes.put(node, "p", int(power))
    if node.op_type == "LpPool" and form.kernel_shape is None:
        raise _refuse(node, "no kernel_shape", 2)


def _pad(up: UpgradeContext, node: ir.Node) -> None:
    attributes.put(node, "pads", ir.AttrInt64s("pads", older.Pad1.of(node).paddings))
    attributes.remove(node, "paddings")


def _constant_integers(up: UpgradeContext, node: ir.Node, index: int) -> list[int]:
    """Return the whole numbers of an input whose values have to be known."""
    array = Constants(up.graph)(node.inputs[index])
    if array is None:
        raise _refuse(node, f"a computed input {index}", up.target)
    numbers = [float(n) for n in array.reshape(-1)] if array.dtype.kind in "iuf" else []
    if not numbers or not all(n.is_integer() and abs(n) < _FAR for n in numbers):
        raise _refuse(node, f"an input {index} of {array.reshape(-1)[:4]}", up.target)
    return [int(n) for n in numbers]


def _split_sizes(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Split to 2: the sizes as an attribute alone; they were an input, too."""
    if len(node.inputs) > 1 and (sizes := node.inputs[1]) is not None:
        attributes.put(node, "split", _constant_integers(up, node, 1))
        node.resize_inputs(1)
        drop_unused(up.graph, sizes)
    node.resize_inputs(1)


def _tile(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Tile to 6: repeats along each axis; before, along one axis that an input names."""
    tiles, axis = (_constant_integers(up, node, index)[0] for index in (1, 2))
    rank = rank_of(node.inputs[0])
    if rank is None or not -rank <= axis < rank:
        raise _refuse(node, f"axis {axis} of {'unknown' if rank is None else rank}", 6)
    repeats = np.ones(rank, np.int64)
    repeats[axis] = tiles
    node.resize_inputs(2)
    node.replace_input_with(1, up.constant(node, "repeats", repeats))


def _upsample(up: UpgradeContext, node: ir.Node) -> None:
    form = older.Upsample1.of(node)
    _without("height_scale", "width_scale")(up, node)
    attributes.put(node, "scales", [1.0, 1.0, form.height_scale, form.width_scale])


def _align_operand(up: UpgradeContext, node: ir.Node, axis: int) -> None:
    """Give the second input axes of size 1 behind its own, so that its first lies on `axis` of the first."""
    x, other = node.inputs[:2]
    if other is None or (other.shape is not None and all(n == 1 for n in other.shape)):
        return
    ranks = rank_of(x), rank_of(other)
    if ranks[0] is None or ranks[1] is None:
        raise _refuse(node, "an operand along an axis of a tensor of an unknown rank", 7)
    first = axis + ranks[0] if axis < 0 else axis
    behind = ranks[0] - first - ranks[1]
    if behind < 0 or first < 0:
        raise _refuse(node, f"an operand of {ranks[1]} axes along axis {axis} of {ranks[0]}", 7)
    if not behind:
        return
    assert other.shape is not None
    shape = ir.Shape([*other.shape, *[1] * behind])
    if other.const_value is not None and other.is_initializer() and other.graph is up.graph:
        array = other.const_value.numpy()
        aligned = up.constant(node, other.name or "operand", array.reshape(*array.shape, *[1] * behind))
    else:
        axes = list(range(ranks[1], ranks[1] + behind))
        name = f"{node.name or node.op_type.lower()}.laid"
        aligned = up.inserter(node).node(
            "Unsqueeze", [other], name, dtype=other.dtype, shape=shape, axes=axes
        )
    node.replace_input_with(1, aligned)
    drop_unused(up.graph, other)


def _broadcast(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade to 7: broadcast as NumPy; before, the second operand alone, from an attribute `axis` on."""
    form = older.Arithmetic1.of(node)
    _without("axis", "broadcast")(up, node)
    if form.broadcast and form.axis is not None:
        _align_operand(up, node, form.axis)


def _prelu(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade PRelu to 7: slopes broadcast as in NumPy; before, one for each channel."""
    if rank_of(node.inputs[1]) in (None, 1):
        _align_operand(up, node, 1)


def _batch_norm(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade BatchNormalization to 7: reading the statistics' outputs asks for those of a batch."""
    if any(map(is_read, node.outputs[1:])):
        raise _refuse(node, "statistics as outputs", 7)
    node.resize_outputs(1)
    attributes.remove(node, "is_test")


def _batch_norm_of_elements(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade BatchNormalization to 9: numbers for each channel alone.

    `spatial` could give each element its own.
    """
    form = older.BatchNormalization1.of(node)
    attributes.remove(node, "spatial")
    if form.spatial or rank_of(node.inputs[1]) == 1:
        return
    if rank_of(node.inputs[1]) is None:
        raise _refuse(node, "spatial=0, and numbers of an unknown rank", 9)
    if any(map(is_read, node.outputs[1:])):
        raise _refuse(node, "statistics as outputs", 9)
    x, scale, bias, mean, variance = node.inputs
    assert scale is not None
    epsilon = np.array(form.epsilon, real_dtype(node))

    def put(op_type: str, *inputs: ir.Value | None, like: ir.Value | None = scale) -> ir.Value:
        return _insert_like(up, node, op_type, inputs, like)

    deviation = put("Sqrt", put("Add", variance, up.constant(node, "epsilon", epsilon)))
    factor = put("Div", scale, deviation)
    offset = put("Sub", bias, put("Mul", mean, factor))
    node.resize_outputs(1)
    replace(node, put("Add", put("Mul", x, factor, like=x), offset, like=x), up.names)


def _insert_like(
    up: UpgradeContext, node: ir.Node, op_type: str, inputs: Any, like: ir.Value | None, **attributes: Any
) -> ir.Value:
    """Insert a node in front of `node` whose output is as `like`."""
    return up.inserter(node).node(
        op_type, inputs, f"{node.name or node.op_type.lower()}.{op_type.lower()}",
        dtype=like.dtype if like is not None else None, shape=like.shape if like is not None else None,
        **attributes,
    )  # fmt: skip


def _first(node: ir.Node) -> ir.Value:
    """Return the first input of an operator that ONNX dropped, whose inputs nobody has counted."""
    if not node.inputs or node.inputs[0] is None or len(node.outputs) != 1:
        got = f"{len(node.inputs)} inputs and {len(node.outputs)} outputs"
        raise FileFormatError(f"node '{node.name}' ({node.op_type})", got, "one of each", FIX)
    return node.inputs[0]


def _dropout_mask(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Dropout to 10: its mask holds bools; before, reals."""
    if any(map(is_read, node.outputs[1:])):
        raise _refuse(node, "its mask as an output", 10)


def _scan(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade Scan to 9: over one sequence; the old one over a batch becomes a Scan that holds it."""
    lengths, *inputs = node.inputs
    if lengths is not None:
        raise _refuse(node, "sequences of their own lengths", 9)
    base = node.name or "scan"

    def like(value: ir.Value | None) -> ir.Value:
        of = None if value is None or value.dtype is None else ir.TensorType(value.dtype)
        return ir.Value(name=up.names(f"{base}.one"), type=of)

    each, outputs = [like(value) for value in inputs], [like(value) for value in node.outputs]
    form, inner_body = older.Scan8.of(node), Control.body(node)
    attributes.remove(node, "body")
    own: list[ir.Attr] = [
        ir.AttrGraph("body", inner_body), ir.AttrInt64("num_scan_inputs", form.num_scan_inputs)
    ]  # fmt: skip
    if form.directions:
        own.append(ir.AttrInt64s("scan_input_directions", form.directions))
    attributes.remove(node, "directions")
    name = up.names(f"{base}.sequence")
    inner = ir.Node("", "Scan", each, own, outputs=outputs, name=name)
    body = ir.Graph(each, outputs, nodes=[inner], name=up.names(f"{base}.batch"))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.resize_inputs(len(inputs))
    attributes.put(node, "body", body)
    attributes.put(node, "num_scan_inputs", len(inputs))


def _mean_variance(up: UpgradeContext, node: ir.Node) -> None:
    """Upgrade MeanVarianceNormalization to 9: axes; before, whether over channels, and whether to divide."""
    form = older.MeanVarianceNormalization1.of(node)
    _without("across_channels", "normalize_variance")(up, node)
    axes = [0, 1, 2, 3] if form.across_channels else [0, 2, 3]
    if form.normalize_variance:
        attributes.put(node, "axes", axes)
        return
    x = _first(node)
    name = f"{node.name or 'normalize'}.mean"
    mean = up.inserter(node).node("ReduceMean", [x], name, dtype=x.dtype, shape=None, axes=axes)
    replace(node, _insert_like(up, node, "Sub", [x, mean], x), up.names)


def _around(op_type: str | None, inside: str | None, outside: str | None, plus: str | None = None) -> Step:
    """Return a step for ``outside * op_type(inside * x) + plus``, where attributes of these names are
    given."""

    def step(up: UpgradeContext, node: ir.Node) -> None:
        x = y = _first(node)
        form = older.ScaledFunction1.of(node)

        def with_number(number_of: str | None, operator: str, idle: float) -> None:
            nonlocal y
            number = None if number_of is None else getattr(form, number_of)
            if number is not None and number != idle:
                constant = up.constant(node, number_of or "", np.array(number, real_dtype(node)))
                y = _insert_like(up, node, operator, [y, constant], x)

        with_number(inside, "Mul", 1.0)
        if op_type is not None:
            y = _insert_like(up, node, op_type, [y], x)
        with_number(outside, "Mul", 1.0)
        with_number(plus, "Add", 0.0)
        replace(node, _insert_like(up, node, "Identity", [x], x) if y is x else y, up.names)

    return step


def _image_scaler(up: UpgradeContext, node: ir.Node) -> None:
    """Write ImageScaler: x * scale + bias of the channel."""
    x, dtype = _first(node), real_dtype(node)
    form = older.ImageScaler1.of(node)
    scale = up.constant(node, "scale", np.array(form.scale, dtype))
    bias = up.constant(node, "bias", np.array(form.bias, dtype).reshape(-1, 1, 1))
    replace(
        node, _insert_like(up, node, "Add", [_insert_like(up, node, "Mul", [x, scale], x), bias], x), up.names
    )


def _crop(up: UpgradeContext, node: ir.Node) -> None:
    """Write Crop: without `border` (left, top, right, bottom), or `scale` (height, width) from its corner
    on."""
    x, form = _first(node), older.Crop1.of(node)
    border, size = form.border, form.scale
    if len(border) != 4 or len(size) not in (0, 2) or not all(0 <= n < _FAR for n in (*border, *size)):
        raise _refuse(node, f"border={list(border)} and scale={list(size)}", 10)
    left, top, right, bottom = border
    ends = [top + size[0], left + size[1]] if size else [-bottom or _FAR, -right or _FAR]
    bounds = [
        up.constant(node, name, np.array(numbers, np.int64))
        for name, numbers in (("starts", [top, left]), ("ends", ends), ("axes", [2, 3]))
    ]
    cut = up.inserter(node).node(
        "Slice", [x, *bounds], f"{node.name or 'crop'}.slice", dtype=x.dtype, shape=None
    )
    replace(node, cut, up.names)


def _dynamic_slice(up: UpgradeContext, node: ir.Node) -> None:
    node.op_type = "Slice"


def _as_it_is(up: UpgradeContext, node: ir.Node) -> None:
    """Rename an experimental operator that ONNX adopted unchanged."""


EARLY: dict[tuple[str, int], Step] = {
    ("GlobalLpPool", 2): _lp_pool,
    ("LpPool", 2): _lp_pool,
    ("Pad", 2): _pad,
    ("Split", 2): _split_sizes,
    ("Concat", 4): _concat,
    ("Reshape", 5): _reshape,
    **{(kind, 6): _overwrites
       for kind in ("Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp",
                    "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean",
                    "Min", "Mul", "Neg", "PRelu", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Sum",
                    "Tanh")},
    ("Cast", 6): _cast,
    ("Selu", 6): _selu,
    ("Tile", 6): _tile,
    **{(kind, 7): _broadcast
       for kind in ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")},
    **{(kind, 7): _without("output_sequence") for kind in ("GRU", "LSTM", "RNN")},
    ("BatchNormalization", 7): _batch_norm,
    ("Dropout", 7): _without("is_test"),
    ("Gemm", 7): _without("broadcast"),
    ("PRelu", 7): _prelu,
    ("Upsample", 7): _upsample,
    ("BatchNormalization", 9): _batch_norm_of_elements,
    ("MeanVarianceNormalization", 9): _mean_variance,
    ("Scan", 9): _scan,
    ("Upsample", 9): _to_input("scales", 1, np.float32),
    ("Affine", 10): _around(None, None, "alpha", "beta"),
    ("Crop", 10): _crop,
    ("Dropout", 10): _dropout_mask,
    ("DynamicSlice", 10): _dynamic_slice,
    ("ImageScaler", 10): _image_scaler,
    ("ParametricSoftplus", 10): _around("Softplus", "beta", "alpha"),
    ("Scale", 10): _around(None, None, "scale"),
    ("ScaledTanh", 10): _around("Tanh", "beta", "alpha"),
    ("ThresholdedRelu", 10): _as_it_is,
}  # fmt: skip
"""(operator, opset) -> what brings its older form to the form that it has since that opset."""

DROPPED = frozenset(
    {"Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}
    | {"ThresholdedRelu"}
)
"""Operators that ONNX only tried out: runtimes read them in files of opset 9 and older."""

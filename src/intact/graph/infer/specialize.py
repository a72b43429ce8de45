"""Specialize a model for given input sizes or values: fold what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.graph import ops
from intact.graph.core.build import hand_over
from intact.graph.core.constants import evaluate_node, foldable
from intact.graph.core.edit import set_shape, static_sizes
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Scene
from intact.graph.core.without_weights import SMALL, say_onesided
from intact.graph.infer.ceil_mode_pools import POOLS, RIGHT_OPSET
from intact.graph.infer.layer_sizes import Sizes, layer_sizes

_REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError)
"""Exceptions of ONNX's inference: sizes that do not fit, attributes that are missing."""

MAX_COMPUTED = 2**20
"""Elements up to which a value that follows from sizes becomes a constant."""

_FIX = "give inputs of the shapes that the model was made for"


def specialize(
    model: ir.Model,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Fix the sizes of the inputs in place, and compute values that follow from them.

    Before: ``Reshape(x, Concat(Shape(x)[0], -1, Shape(x)[2] / 4))``, sizes by name.
    After: ``Reshape(x, [1, -1, 8])``, every shape in numbers as far as the operators tell it. What the file
    says about inner shapes is forgotten where the operators know better: exporters write names that are not
    one size, and ranks that are wrong. Numbers that the file says count where no operator tells, as long as
    the inputs have the sizes that the file says.

    Args:
        model: Changed in place.
        shapes: Sizes of inputs, by name; others stay as declared.
        values: What some of the inputs hold, by name: they stay inputs, whose values are known.
    Raises:
        QuantValueError: There is no such input, or its declared rank or sizes are others.
    """
    names: dict[str, int] = {}
    declared = [static_sizes(value.shape) for value in model.graph.inputs]
    for name, shape in shapes.items():
        _fix(model, name, shape, names)
    as_declared = declared == [static_sizes(value.shape) for value in model.graph.inputs]
    _Walk(model, names, values or {}, as_declared).run()


def _fix(model: ir.Model, name: str, shape: Sequence[int], names: dict[str, int]) -> None:
    """Give an input its sizes; `names` learns those of named dimensions."""
    value = next((v for v in model.graph.inputs if v.name == name), None)
    if value is None:
        input_names = ", ".join(v.name or "" for v in model.graph.inputs)
        raise QuantValueError(f"input '{name}'", "a name that no input has", f"one of {input_names}", _FIX)
    declared = list(shape) if value.shape is None else list(value.shape)
    fits = len(declared) == len(shape) and all(
        not isinstance(want, int) or want == size for want, size in zip(declared, shape, strict=True)
    )
    if not fits or any(size < 0 for size in shape):
        raise QuantValueError(
            f"input '{name}'", f"shape {tuple(shape)}", f"{tuple(map(str, declared))}", _FIX
        )
    for dim, size in zip(declared, shape, strict=True):
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
            names.setdefault(str(dim.value), size)
    value.shape = ir.Shape(shape)


class _Walk:
    """One way through the graph, from the inputs to the outputs.

    Args:
        model: The model.
        names: Sizes of dimensions that the inputs name: for operators of which nobody knows the shapes.
        values: What is known of inputs, by name.
        as_declared: The inputs have the sizes that the file says.
    """

    def __init__(
        self,
        model: ir.Model,
        names: Mapping[str, int],
        values: Mapping[str, NDArray[Any]],
        as_declared: bool,
    ) -> None:
        self._as_declared = as_declared
        self._graph, self._names, self._opsets = model.graph, names, dict(model.opset_imports)
        self._scene = Scene(model.graph)
        self._constants = self._scene.constants
        self._imports = [onnx.helper.make_opsetid(d, v) for d, v in self._opsets.items()]
        inputs = {value.name or "": value for value in model.graph.inputs}
        self._numbers = {inputs[name]: array for name, array in values.items()}

    def run(self) -> None:
        """Visit every node, and those of branches that turn out to be taken."""
        waiting = list(reversed(list(self._graph)))
        while waiting:
            node = waiting.pop()
            condition = self._number(node.inputs[0]) if is_op(node, "If") else None
            if condition is not None:
                waiting.extend(reversed(self._inline_branch(node, bool(condition.reshape(-1)[0]))))
            elif not all(value in self._constants for value in node.outputs):
                self._visit(node)

    def _visit(self, node: ir.Node) -> None:
        inferred_outputs = self._infer_outputs(node)
        for value in node.outputs:
            if (shape := inferred_outputs.get(value.name or "", value.shape)) is not None:
                set_shape(value, self._merge_sizes(shape, value.shape))
        if (array := self._compute(node)) is not None:
            self._settle(node, array)

    def _merge_sizes(self, inferred: ir.Shape, declared: ir.Shape | None) -> list[int | str | None]:
        sizes = [self._size(dim) for dim in inferred]
        if not self._as_declared or declared is None or len(declared) != len(inferred):
            return sizes
        pairs = zip(sizes, declared, strict=True)
        return [
            declared_size if isinstance(declared_size, int) and not isinstance(size, int) else size
            for size, declared_size in pairs
        ]

    def _size(self, dim: int | ir.SymbolicDim) -> int | str | None:
        return dim if isinstance(dim, int) else self._names.get(str(dim.value), dim.value)

    # -- numbers

    def _number(self, value: ir.Value | None) -> NDArray[Any] | None:
        """Return the constant of a small value; None where a run decides, and for weights."""
        if value is None or value in self._numbers:
            return None if value is None else self._numbers[value]
        sizes = static_sizes(value.shape)
        if value not in self._constants or sizes is None or math.prod(sizes) > SMALL:
            return None
        try:
            return self._constants(value)
        except IntactError:
            return None

    def _compute(self, node: ir.Node) -> NDArray[Any] | None:
        """Compute a node with one output from sizes; None where they do not suffice."""
        if len(node.outputs) != 1 or is_op(node, "QuantizeLinear", "DequantizeLinear"):
            return None  # a pair says what is quantized: the weights of a branch, too
        if is_op(node, "Shape") or is_op(node, "Size"):
            return _measure_shape(node)
        inputs = [self._number(value) for value in node.inputs]
        if any(array is None and value is not None for array, value in zip(inputs, node.inputs, strict=True)):
            return None
        sizes = static_sizes(node.outputs[0].shape)
        if not foldable(node) or sizes is None or math.prod(sizes) > MAX_COMPUTED:
            return None
        try:
            return evaluate_node(node, inputs)[0]
        except IntactError:
            return None  # ONNX's reference does not know this case: it is computed in every run

    def _settle(self, node: ir.Node, array: NDArray[Any]) -> None:
        """Let every reader of a node's output read a constant."""
        value = node.outputs[0]
        self._numbers[value] = array
        set_shape(value, array.shape)
        if value.uses() and not value.is_graph_output():
            constant = self._scene.inserter(node).constant(f"{value.name}.known", array)
            self._numbers[constant] = array
            value.replace_all_uses_with(constant)

    # -- shapes

    def _infer_outputs(self, node: ir.Node) -> dict[str, ir.Shape]:
        """Run ONNX's inference on one node, with all that is known of its inputs."""
        opset = self._opsets.get(node.domain, 1)
        if not node.domain and node.op_type in POOLS:
            opset = max(opset, RIGHT_OPSET)
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        except onnx.defs.SchemaError:
            sizes = layer_sizes(node, _sizes_of)
            return {} if sizes is None else {node.outputs[0].name or "": ir.Shape(sizes)}
        types, data = {}, {}
        for value in node.inputs:
            if value is None or not value.name:
                continue
            if value.type is None:
                return {}  # what an operator of the user's made: inference wants to know all of them
            types[value.name] = ir.serde.serialize_value(value).type
            if (array := self._number(value)) is not None and array.dtype.kind in "iufb":
                data[value.name] = onnx.numpy_helper.from_array(array, value.name)
        proto = ir.to_proto(node)
        say_onesided(proto)
        try:
            inferred_types = onnx.shape_inference.infer_node_outputs(
                schema, proto, types, data, opset_imports=self._imports
            )
        except (*_REFUSALS, RuntimeError, ValueError, TypeError, IndexError):
            return {}
        return {
            name: shape for name, type_ in inferred_types.items() if (shape := _shape_in(type_)) is not None
        }

    # -- branches

    def _inline_branch(self, node: ir.Node, condition: bool) -> list[ir.Node]:
        """Put the nodes of the branch that is always taken in place of an If; returns them."""
        branch = ops.If.branch(node, "then_branch" if condition else "else_branch")
        for value in list(branch.initializers.values()):
            branch.initializers.pop(value.name or "")
            value.name = self._scene.names(value.name or "")
            self._graph.register_initializer(value)
            tensor = value.const_value
            if tensor is not None and tensor.size <= SMALL:
                self._numbers[value] = tensor.numpy()
        if len(branch.outputs) != len(node.outputs):
            raise FileFormatError(
                f"node '{node.name}' (If)", f"a branch with {len(branch.outputs)} outputs",
                f"{len(node.outputs)}, as the node has", "export the model again",
            )  # fmt: skip
        moved = list(branch)
        branch.remove(moved)
        for inner in moved:
            inner.name = self._scene.names(inner.name or inner.op_type)
            for value in inner.outputs:
                value.name = self._scene.names(value.name) if value.name else value.name
        self._graph.insert_before(node, moved)
        outputs = list(branch.outputs)
        branch.outputs.clear()  # they are no graph's outputs any more
        for outer, inner_value in zip(node.outputs, outputs, strict=True):
            hand_over(node, outer, inner_value, self._scene.names)
        self._graph.remove(node, safe=True)
        return moved


def _measure_shape(node: ir.Node) -> NDArray[Any] | None:
    """Compute a Shape or Size, where its input's sizes are known."""
    value = node.inputs[0]
    sizes = static_sizes(value.shape) if value is not None else None
    if sizes is None:
        return None
    if node.op_type == "Size":
        return np.asarray(math.prod(sizes), np.int64)
    form = ops.Shape.of(node)
    return np.asarray(sizes[form.start : form.end], np.int64)


def _sizes_of(value: ir.Value | None) -> Sizes | None:
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def _shape_in(type_: onnx.TypeProto) -> ir.Shape | None:
    """Return the shape of a tensor's type; None where it has none, or one that no tensor has."""
    if not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    if any(dim.dim_value < 0 for dim in type_.tensor_type.shape.dim):
        return None
    return ir.serde.deserialize_type_proto_for_shape(type_)

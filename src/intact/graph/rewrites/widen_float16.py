"""Convert float16 and bfloat16 models to float32, with float16 at inputs and outputs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.proto import values_of, with_subgraphs
from intact.graph.core.quantization_view import is_op
from intact.graph.core.scene import Note, Scene
from intact.graph.ops import attributes

_HALF, _BRAIN, _SINGLE = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT
_ROUNDED = (_SINGLE, ir.DataType.DOUBLE)
_NARROW = (ir.DataType.FLOAT8E4M3FN, ir.DataType.INT4, ir.DataType.FLOAT4E2M1)
"""Types that NumPy lacks, and whose values float32 holds."""
_TYPES = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision", "precision")
"""Attributes that say what a node makes, or computes in."""

_WIDENED = "intact.bfloat16"
"""In a model's meta: the names of the values that were bfloat16 before it was loaded."""


def widen_float16(model: ir.Model) -> list[Note]:
    """Convert float16 to float32 between inputs and outputs, in place.

    Before: ``x: float16 -> Conv(float16 weights) -> y: float16``.
    After: ``x: float16 -> Cast -> Conv(float32 weights) -> Cast -> y: float16``. Every float16 is a float32;
    what was rounded to float16 between two operators no longer is, nor becomes infinite beyond 65504.

    Casts of float32 to float16 that nothing but Casts back read are the user's own rounding, and stay; so do
    caches of INTact's GroupQueryAttention, which widens what it reads.

    Returns:
        One note where something was widened, and one where `widen_bfloat16` did before.
    """
    notes = []
    if model.meta.get(_WIDENED):
        notes.append(Note("model", "bfloat16 is computed in float32; inputs and outputs are float32"))
    outputs = [value for value in model.graph.outputs if value.dtype == _HALF]
    inputs = [value for value in model.graph.inputs if value.dtype == _HALF and value.const_value is None]
    if not _widen(model, _HALF):
        return notes
    scene = Scene(model.graph)
    for value in inputs:
        if value.dtype == _SINGLE:
            _read(scene, value, _HALF, _SINGLE)
    for value in dict.fromkeys(outputs):
        if value.dtype == _SINGLE:
            _write(scene, value, _HALF, _SINGLE)
    notes.append(Note("model", "float16 inside is computed in float32; inputs and outputs keep their types"))
    return notes


def widen_bfloat16(model: ir.Model) -> bool:
    """Convert bfloat16 values to float32, inputs and outputs too, in place.

    NumPy has no bfloat16, ONNX Runtime takes none from Python, and before opset 22 few operators do. Casts of
    float32 to bfloat16 that nothing but Casts back read stay, as in `widen_float16`; so do those that make an
    output, which is float32 behind them.

    Returns:
        Whether something was.
    """
    casts = [value.producer() for value in dict.fromkeys(model.graph.outputs)]
    rounded = [node for node in casts if node is not None and _rounds(node, _BRAIN)]
    names = _widen(model, _BRAIN)
    if names:
        scene = Scene(model.graph)
        for node in rounded:
            x = node.inputs[0]
            cast = scene.inserter(node).node(
                "Cast", [x], f"{node.name}.rounded", dtype=_BRAIN, shape=node.outputs[0].shape, to=int(_BRAIN)
            )
            node.replace_input_with(0, cast)
        model.meta[_WIDENED] = frozenset(names)
    return bool(names)


def widen_ports(model: ir.Model) -> None:
    """Let inputs and outputs of 8-bit floats and 4-bit numbers be float32, in place.

    Before: ``x: int4 -> DequantizeLinear -> ... -> QuantizeLinear -> y: float8e4m3fn``.
    After: ``x: float32 -> Cast -> int4 -> ... -> float8e4m3fn -> Cast -> y: float32``; the rest stays.
    NumPy has none of these types, and float32 holds each of their values.
    """
    scene = Scene(model.graph)
    outputs = [(value, value.dtype) for value in dict.fromkeys(model.graph.outputs)]
    for value in model.graph.inputs:
        if (dtype := value.dtype) in _NARROW:
            assert dtype is not None
            _read(scene, value, _SINGLE, dtype)
    for value, dtype in outputs:
        if dtype in _NARROW:
            assert dtype is not None
            _write(scene, value, _SINGLE, dtype)


def bfloat16_values(model: ir.Model) -> frozenset[str]:
    """Return the names of values that `widen_bfloat16` found to be bfloat16: declared, or by an attribute."""
    names: frozenset[str] = model.meta.get(_WIDENED, frozenset())
    return names


def _widen(model: ir.Model, narrow: ir.DataType) -> set[str]:
    """Let values, constants and attributes of the type `narrow` be float32; return the values' names.

    Those of an attribute are the outputs of its node.
    """
    graphs, names = with_subgraphs(model.graph), set[str]()
    rounded = _roundings(graphs, narrow)
    for value in (value for graph in graphs for value in values_of(graph)):
        if value.dtype == narrow and value not in rounded:
            names.add(value.name or "")
            value.type = ir.TensorType(_SINGLE)
            if value.const_value is not None:
                value.const_value = _single(value.const_value)
    bodies = [inner for function in model.functions.values() for inner in with_subgraphs(function.graph)]
    for node in (node for graph in (*graphs, *bodies) for node in graph):
        if rounded.isdisjoint(node.outputs) and _widen_attributes(node, narrow):
            names.update(output.name or "" for output in node.outputs)
    return names


def _roundings(graphs: list[ir.Graph], narrow: ir.DataType) -> set[ir.Value]:
    """Return the values between Casts of float32 to `narrow` and back, with moves of all elements between.

    Before and after: ``x: float32 -> Cast -> float16 -> Transpose -> float16 -> Cast -> float32``. Types of
    values may not be known yet. Caches are rounded, too.
    """
    rounded = set[ir.Value]()
    for graph in graphs:
        for node in graph:
            if node.op_type not in ("GroupQueryAttention", "Cast"):
                continue
            if is_op(node, "GroupQueryAttention", domain=ops.NarrowGroupQueryAttention.domain):
                caches = (*node.inputs[3:5], *node.outputs[1:3])
                rounded |= {cache for cache in caches if cache is not None}
            if _rounds(node, narrow):
                rounded |= _only_rounded(node.outputs[0])
    return rounded


def _rounds(node: ir.Node, narrow: ir.DataType) -> bool:
    """Return whether a node casts a wider float, or what has no type yet, to `narrow`."""
    source = node.inputs[0] if is_op(node, "Cast") else None
    return source is not None and source.dtype in (*_ROUNDED, None) and _cast_type(node) == narrow


def _cast_type(node: ir.Node) -> int:
    """Return the target type of a Cast; 0 for the oldest ones, which name it in words."""
    to = attributes.values(node).get("to")
    return to if isinstance(to, int) else 0


def _only_rounded(value: ir.Value) -> set[ir.Value]:
    """Return `value` and its moved copies, where Casts to wider floats alone read them; else nothing."""
    waiting, rounded = [value], set[ir.Value]()
    while waiting:
        current = waiting.pop()
        rounded.add(current)
        uses = list(current.uses())
        if current.is_graph_output() or not uses:
            return set()
        for node, index in uses:
            if is_op(node, "Cast") and _cast_type(node) in _ROUNDED:
                continue
            if index or not ops.may_move(node, keeps_all=True):
                return set()
            waiting += node.outputs
    return rounded


def _single(tensor: ir.TensorProtocol) -> ir.Tensor:
    return ir.Tensor(tensor.numpy().astype(np.float32), name=tensor.name)


def _widen_attributes(node: ir.Node, narrow: ir.DataType) -> bool:
    """Widen types and tensors in attributes to float32; return whether one was of the type `narrow`."""
    is_any = False
    for name, tensor in attributes.tensors(node).items():
        if tensor.dtype == narrow:
            attributes.put(node, name, ir.AttrTensor(name, _single(tensor)))
            is_any = True
    for name, value in attributes.values(node).items():
        if name in _TYPES and isinstance(value, int) and value == narrow:
            attributes.put(node, name, int(_SINGLE))
            is_any = True
    return is_any


def _read(scene: Scene, value: ir.Value, outside: ir.DataType, inside: ir.DataType) -> None:
    """Let an input have the type `outside`, and its readers one of type `inside`."""
    value.type = ir.TensorType(outside)
    uses = list(value.uses())
    first = next(iter(scene.graph), None)
    if first is None or not uses:
        return
    insert = scene.inserter(first)
    cast = insert.node(
        "Cast",
        [value],
        f"{value.name}.{inside.name.lower()}",
        dtype=inside,
        shape=value.shape,
        to=int(inside),
    )
    for node, index in uses:
        node.replace_input_with(index, cast)


def _write(scene: Scene, value: ir.Value, outside: ir.DataType, inside: ir.DataType) -> None:
    """Cast an output to `outside`, under its own name."""
    node = value.producer()
    if node is None:  # an input, or a constant: it is handed on as it is
        value.type = ir.TensorType(outside)
        if value.const_value is not None:
            array = value.const_value.numpy().astype(outside.numpy())
            value.const_value = ir.Tensor(array, name=value.name)
        return
    name = value.name or ""
    value.name = scene.names(f"{name}.{inside.name.lower()}")
    insert = scene.inserter(node, after=True)
    cast = insert.node("Cast", [value], f"{name}.cast", dtype=outside, shape=value.shape, to=int(outside))
    cast.name = name
    for index, output in enumerate(scene.graph.outputs):
        if output is value:
            scene.graph.outputs[index] = cast

"""Replace ReduceMax or ReduceMin of stacked tensors by Max or Min of the tensors."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter, replace
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Outcome, Rewrite, Scene

_OF_TWO = {"ReduceMax": "Max", "ReduceMin": "Min"}


def _fuse_stack(node: ir.Node, scene: Scene) -> Outcome:
    """Replace a maximum over stacked tensors by Max.

    Before: ``ReduceMax(Concat(Unsqueeze(a, 3), Unsqueeze(b, 3), axis=3), axes=[3])``, as
    ``torch.stack([a, b], dim=3).max(3)`` is exported. After: ``Max(a, b)``.

    Guards: one axis; nobody else reads the stack; each part is one tensor that got this axis.
    """
    stack = _match_stack(node, scene.constants)
    if stack is None:
        return None
    parts, axis = stack
    form, output = ops.Reduction.of(node), node.outputs[0]
    insert = Inserter(scene.graph, node, scene.names)
    shape = output.shape if not form.keepdims else parts[0].shape
    result = insert.node(_OF_TWO[node.op_type], parts, f"{node.name}.of_all", dtype=output.dtype, shape=shape)
    if form.keepdims:
        result = insert.copy(axis, [result, *axis.inputs[1:]])[0]
        result.shape = output.shape
    replace(node, result, scene.names)
    return f"{len(parts)} tensors are compared without a stack"


def _match_stack(node: ir.Node, constants: Constants) -> tuple[list[ir.Value], ir.Node] | None:
    """Match a stack along the axis that `node` reduces: its tensors, and the node that adds the axis to
    one."""
    stack = node.inputs[0].producer() if node.inputs[0] is not None else None
    if stack is None or not is_op(stack, "Concat"):
        return None
    y = stack.outputs[0]
    if y.shape is None or y.is_graph_output() or len(y.uses()) > 1:
        return None
    rank, axes = len(y.shape), ops.Reduction.of(node).axes_of(node, constants)
    place = ops.Concat.of(stack).axis % rank
    if axes is None or [axis % rank for axis in axes] != [place]:
        return None
    parts = list[ir.Value]()
    for value in stack.inputs:
        unsqueeze = value.producer() if value is not None else None
        if unsqueeze is None or not is_op(unsqueeze, "Unsqueeze") or len(unsqueeze.inputs) < 2:
            return None
        axes_array, part = constants(unsqueeze.inputs[1]), unsqueeze.inputs[0]
        if (
            axes_array is None
            or part is None
            or [int(axis_number) % rank for axis_number in axes_array.reshape(-1)] != [place]
        ):
            return None
        parts.append(part)
    first = stack.inputs[0].producer() if stack.inputs[0] is not None else None
    return None if first is None or len(parts) < 2 else (parts, first)


FUSE_STACKED_MAX = Rewrite("compare stacked tensors without the stack", _fuse_stack, tuple(_OF_TWO))

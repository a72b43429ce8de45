"""Fuse what surrounds maxima: Pads of the lowest value in front of them, and stacks that they compare."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter, drop_unused, is_read, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import attributes
from intact.graph.rewrites.rewrite import Outcome, Requires, Rewrite, Scene

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


def _fuse_pad(node: ir.Node, scene: Scene) -> Outcome:
    """Let MaxPools pad themselves.

    Before: ``MaxPool(Pad(x, pads, -inf))``, as convolutional networks whose padding is "same" are written in
    PyTorch. After: ``MaxPool(x, pads)``: no tensor with infinities, which have no code.

    Guards: the lowest number, or minus infinity, in front of and behind height and width alone; only
    MaxPools read it, whose windows are wider than their pads, and no `ceil_mode` counts them otherwise.
    """
    constants, uses, x = scene.constants, list(node.outputs[0].uses()), node.inputs[0]
    more = _spatial(node, constants) if ops.fills_below_all(node, constants) else None
    if more is None or x is None or not uses or node.outputs[0].is_graph_output():
        return None
    joined = [_merge_pads(use.node, more, scene.graph) for use in uses]
    if any(pads is None for pads in joined):
        return None
    for use, pads in zip(uses, joined, strict=True):
        attributes.remove(use.node, "auto_pad")
        attributes.put(use.node, "pads", ir.AttrInt64s("pads", pads or []))
    pad_inputs = node.inputs[1:]
    replace(node, x, scene.names)
    drop_unused(scene.graph, *pad_inputs)
    return "Pad is part of the MaxPool behind it"


def _spatial(node: ir.Node, constants: Constants) -> list[int] | None:
    """Return the pads in front of the spatial axes, then behind; None where the node does anything else."""
    rank = rank_of(node.inputs[0])
    assert rank is not None  # as `FUSE_PADS` requires
    sides = ops.Pad.of(node).sides(node, constants, rank)
    if sides is None or any(map(any, sides[:2])) or min(map(min, sides), default=0) < 0:
        return None
    return [before for before, _ in sides[2:]] + [behind for _, behind in sides[2:]]


def _merge_pads(node: ir.Node, more: list[int], graph: ir.Graph) -> list[int] | None:
    """Return the pads of a MaxPool with `more`; None where they cannot be its own."""
    if not is_op(node, "MaxPool") or node.graph is not graph:
        return None
    form = ops.MaxPool.of(node)
    kernel = form.kernel_shape * 2
    plain = (
        not form.ceil_mode
        and form.auto_pad in ("NOTSET", "VALID")
        and not any(map(is_read, node.outputs[1:]))
    )
    own = form.pads_of(form.kernel_shape, [None] * len(form.kernel_shape)) if plain else None
    if own is None or len(own) != len(more) or len(kernel) != len(more):
        return None
    pads = [a + b for a, b in zip(own, more, strict=True)]
    return pads if all(pad < size for pad, size in zip(pads, kernel, strict=True)) else None


FUSE_PADS = Rewrite(
    "let MaxPools pad themselves", _fuse_pad, ("Pad",), requires=Requires(opset=13, ranks=(0,))
)

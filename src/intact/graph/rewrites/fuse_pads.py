"""Fuse a Pad of the lowest value into the MaxPool behind it."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import drop_unused, is_read, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import attributes
from intact.graph.rewrites.rewrite import Outcome, Requires, Rewrite, Scene


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

"""Pads with what no maximum is, in front of MaxPools: the pool's own pads are the same."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.build import Namer, drop_unused, replace
from intact.graph.constants import Constants
from intact.graph.edit import rank_of
from intact.graph.notes import Note
from intact.graph.view import is_op


def join_pads(model: ir.Model) -> list[Note]:
    """Let MaxPools pad themselves, in place.

    Before: ``MaxPool(Pad(x, pads, -inf))``, as convolutional networks whose padding is "same" are written in
    PyTorch. After: ``MaxPool(x, pads)``: no tensor with infinities, which have no code.

    Guards: the lowest number, or minus infinity, in front of and behind height and width alone; only
    MaxPools read it, whose windows are wider than their pads, and no `ceil_mode` counts them otherwise.

    Args:
        model: Of opset 13 or newer; changed in place.
    Returns:
        One note for each Pad that was joined.
    """
    constants, names, notes = Constants(model.graph), Namer(model.graph), list[Note]()
    for node in [one for one in model.graph if is_op(one, "Pad")]:
        uses, x = list(node.outputs[0].uses()), node.inputs[0]
        more = _spatial(node, constants) if ops.fills_below_all(node, constants) else None
        if more is None or x is None or not uses or node.outputs[0].is_graph_output():
            continue
        joined = [_joined(use.node, more, model.graph) for use in uses]
        if any(pads is None for pads in joined):
            continue
        for use, pads in zip(uses, joined, strict=True):
            use.node.attributes.pop("auto_pad", None)
            use.node.attributes.add(ir.AttrInt64s("pads", pads or []))
        given = node.inputs[1:]
        replace(node, x, names)
        drop_unused(model.graph, *given)
        notes.append(Note(node.name or "pad", "Pad is part of the MaxPool behind it"))
    return notes


def _spatial(node: ir.Node, constants: Constants) -> list[int] | None:
    """What it puts in front of each axis but the first two, then behind; None where it does anything else."""
    pads = constants(node.inputs[1]) if node.inputs[1] is not None else None
    given = node.inputs[3] if len(node.inputs) > 3 else None
    rank, axes = rank_of(node.inputs[0]), None if given is None else constants(given)
    if pads is None or rank is None or (given is not None and axes is None):
        return None
    places = range(rank) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    whole = [0] * (2 * rank)
    for index, axis in enumerate(places):
        whole[axis], whole[rank + axis] = int(pads[index]), int(pads[len(places) + index])
    known = min(whole) >= 0 and not any(whole[:2]) and not any(whole[rank : rank + 2])
    return [*whole[2:rank], *whole[rank + 2 :]] if known else None


def _joined(node: ir.Node, more: list[int], graph: ir.Graph) -> list[int] | None:
    """The pads of a MaxPool with `more`; None where they cannot be its own."""
    if not is_op(node, "MaxPool") or node.graph is not graph:
        return None
    said = ops.MaxPool.of(node)
    told = len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output())
    if (
        told
        or said.ceil_mode
        or said.auto_pad not in ("NOTSET", "VALID")
        or 2 * len(said.kernel_shape) != len(more)
    ):
        return None
    own = said.pads if said.pads and said.auto_pad == "NOTSET" else [0] * len(more)
    pads = [a + b for a, b in zip(own, more, strict=True)]
    fits = all(
        pad < kernel for pad, kernel in zip(pads, (*said.kernel_shape, *said.kernel_shape), strict=True)
    )
    return pads if fits else None

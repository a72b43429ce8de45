"""Replace reads of a tensor sequence by Gather, Slice or Concat of what it was made of."""

from __future__ import annotations

import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Namer, Writer, is_read, take_place
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene


def _inline_sequence(node: ir.Node, scene: Scene) -> Outcome:
    """Replace nodes that read tensors of a sequence by nodes that read the sequence's own inputs.

    Before: ``SequenceAt(SplitToSequence(x, axis=1, keepdims=0), i)``.  After: ``Gather(x, i, axis=1)``.
    Before: ``ConcatFromSequence(SequenceConstruct(a, b), axis=0)``.    After: ``Concat(a, b, axis=0)``.

    `keepdims` counts where no sizes are given, and for the size 1, as in ONNX Runtime.

    Guards: the index is a constant, unless all parts have the size 1; other parts add up to the axis.
    """
    sequence = None if node.inputs[0] is None else node.inputs[0].producer()
    if sequence is None or sequence.graph is not scene.graph:
        return None
    if len(node.inputs) < 2:
        result = _concat_tensors(node, sequence, scene.names)
    else:
        result = _element(node, sequence, scene.constants, scene.names)
    if result is None:
        return None
    take_place(node, [result], scene.names)
    if not is_read(sequence.outputs[0]):
        scene.graph.remove(sequence, safe=True)
    return f"{node.op_type} of {sequence.op_type} is written without a sequence"


def _concat_tensors(node: ir.Node, sequence: ir.Node, names: Namer) -> ir.Value | None:
    """Concatenate the tensors that `sequence` was made of; None where it was made otherwise."""
    if not is_op(sequence, "SequenceConstruct"):
        return None
    write = Writer(node, names, _dtype(sequence.inputs[0]))
    form, parts = ops.ConcatFromSequence.of(node), list(sequence.inputs)
    axis = form.axis
    if form.new_axis:
        parts = [write("Unsqueeze", part, write.sizes(axis)) for part in parts]
    return write("Concat", *parts, axis=axis)


def _element(node: ir.Node, sequence: ir.Node, constants: Constants, names: Namer) -> ir.Value | None:
    """Return one tensor of `sequence`; None where its place in the inputs is not known."""
    x, position = sequence.inputs[0], node.inputs[1]
    index = constants(position)
    place = None if index is None or index.size != 1 else int(index.reshape(-1)[0])
    write = Writer(node, names, _dtype(x))
    if is_op(sequence, "SequenceConstruct"):
        count = len(sequence.inputs)
        if place is None or not -count <= place < count:
            return None
        return write("Identity", sequence.inputs[place])
    rank = rank_of(x)
    if not is_op(sequence, "SplitToSequence") or rank is None or x is None or x.shape is None:
        return None
    form = ops.SplitToSequence.of(sequence)
    axis = form.axis
    sizes = _part_sizes(sequence, x.shape[axis], constants)
    if sizes is None:
        return None
    if sizes == _ONE_EACH:
        return _single(node, write, x, position, axis, rank, keeps=bool(form.keepdims))
    if place is None or not -len(sizes) <= place < len(sizes):
        return None
    start = sum(sizes[: place % len(sizes)])
    ends = write.sizes(start), write.sizes(start + sizes[place])
    return write("Slice", x, *ends, write.sizes(axis))


_ONE_EACH: list[int] = []
"""Stands for as many parts of the size 1 as the axis is long."""


def _part_sizes(sequence: ir.Node, size: int | ir.SymbolicDim, constants: Constants) -> list[int] | None:
    """Return the sizes of the parts of an axis of `size`; None where they are not known, or no such parts."""
    split_value = sequence.inputs[1] if len(sequence.inputs) > 1 else None
    if split_value is None:
        return _ONE_EACH
    sizes = constants(split_value)
    if sizes is None or not sizes.size or (sizes <= 0).any():
        return None
    if not sizes.ndim:
        part = int(sizes)
        if part == 1:
            return _ONE_EACH
        if not isinstance(size, int) or not ops.SplitToSequence.of(sequence).keepdims:
            return None
        return [min(part, size - start) for start in range(0, size, part)]
    parts = [int(part) for part in sizes.reshape(-1)]
    return parts if sum(parts) == size else None


def _single(
    node: ir.Node, write: Writer, x: ir.Value, position: ir.Value | None, axis: int, rank: int, *, keeps: bool
) -> ir.Value:
    """Slice one index of an axis, which stays with the size 1 where `keeps`."""
    row = write("Gather", x, position, axis=axis)
    if rank_of(node.outputs[0]) != rank - (not keeps):  # ONNX's inference keeps the axis beside given sizes
        node.outputs[0].shape = None
    return write("Unsqueeze", row, write.sizes(axis)) if keeps else row


def _dtype(value: ir.Value | None) -> ir.DataType:
    return ir.DataType.FLOAT if value is None or value.dtype is None else value.dtype


SEQUENCES = Rewrite(
    "read sequences where they are made",
    _inline_sequence,
    ("SequenceAt", "ConcatFromSequence"),
    ensures=Ensures(shapes=True),
)

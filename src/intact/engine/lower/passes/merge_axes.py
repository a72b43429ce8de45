"""Merge adjacent axes of a Transpose between Reshapes, where a tensor has more than steps support."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intact.engine.lower.base.builder import MOST_RANK
from intact.graph import Inserter, Node, Outcome, Rewrite, Scene, Value, is_op, ops, replace, set_shape
from intact.graph.core import static_sizes


def _join_axes(node: Node, scene: Scene) -> Outcome:
    """Merge axes that a Transpose keeps together.

    Before: ``Reshape(Transpose(Reshape(x, [2, 4, 2, 2, 7, 2, 7, 32]), (0, 1, 3, 5, 2, 4, 6, 7)), ...)``,
    as windows are cut out of volumes.
    After: ``Reshape(Transpose(Reshape(x, [8, 2, 2, 7, 2, 224]), (0, 1, 3, 2, 4, 5)), ...)``.

    Guards: all sizes are known; nobody else reads what is in between.
    """
    before, behind = _reshape_before(node), _reshape_behind(node)
    x = node.inputs[0]
    sizes = static_sizes(x.shape) if x is not None else None
    output_sizes = static_sizes(behind.outputs[0].shape) if behind is not None else None
    if before is None or behind is None or x is None or sizes is None or output_sizes is None:
        return None
    if len(sizes) <= MOST_RANK or 0 in sizes:
        return None
    joined, perm = _merge_axes(sizes, ops.Transpose.of(node).order(len(sizes)))
    insert = Inserter(scene.graph, node, scene.names)
    for reshape, shape in ((before, joined), (behind, output_sizes)):
        reshape.replace_input_with(1, insert.constant(f"{reshape.name}.sizes", np.array(shape, np.int64)))
    set_shape(x, joined)
    y = insert.node("Transpose", [x], f"{node.name}.joined", dtype=x.dtype, shape=None, perm=perm)
    set_shape(y, [joined[axis] for axis in perm])
    replace(node, y, scene.names)
    return f"{len(sizes)} axes are {len(joined)}"


AXES = Rewrite("join axes", _join_axes, ("Transpose",))


def _merge_axes(sizes: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """Merge axes that follow each other in both orders into one, and drop those of size 1."""
    wide_axes = [axis for axis in range(len(sizes)) if sizes[axis] != 1] or [0]
    order = [wide_axes.index(axis) for axis in perm if axis in wide_axes]
    runs: list[list[int]] = []
    for axis in order:
        if runs and axis == runs[-1][-1] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    firsts = sorted(run[0] for run in runs)
    size_of = {run[0]: int(np.prod([sizes[wide_axes[axis]] for axis in run])) for run in runs}
    return [size_of[first] for first in firsts], [firsts.index(run[0]) for run in runs]


def _reshape_before(node: Node) -> Node | None:
    value = node.inputs[0]
    return (
        value.producer() if value is not None and _between(value) and _is_reshape(value.producer()) else None
    )


def _reshape_behind(node: Node) -> Node | None:
    value = node.outputs[0]
    reader = next((use.node for use in value.uses()), None)
    return reader if _between(value) and _is_reshape(reader) else None


def _between(value: Value) -> bool:
    return len(value.uses()) == 1 and not value.is_graph_output()


def _is_reshape(node: Node | None) -> bool:
    return is_op(node, "Reshape")

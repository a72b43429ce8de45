"""Lowers ReverseSequence with constant lengths."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import data, define_like, numbers, who
from intact.engine.lower.rules.moves.gather import take_rows
from intact.engine.steps import Slice
from intact.graph import Node, ops


def lower_reverse_sequence(builder: PlanBuilder, node: Node) -> None:
    """Lower with constant lengths: full rows are reversed at once, others row by row."""
    x, lengths = data(builder, node.inputs[0]), numbers(builder, node, 1)
    op = ops.ReverseSequence.of(node)
    time, batch = op.time_axis, op.batch_axis
    sizes = tuple(n for n in x.shape[:2] if isinstance(n, int))
    if {time, batch} != {0, 1} or len(sizes) < 2:
        raise NoMatch("its axes are not the first two, or their sizes are not known")
    steps, rank = sizes[time], len(x.shape)
    if len(lengths) != sizes[batch] or not all(0 <= length <= steps for length in lengths):
        raise NoMatch("its lengths are not those of its rows")
    if steps and all(length == steps for length in lengths):
        starts, hops = ([at if axis == time else sign for axis in range(rank)]
                        for at, sign in ((steps - 1, 0), (-1, 1)))  # fmt: skip
        y = define_like(builder, node.outputs[0], x)
        builder.add(Slice(*who(node), x.name, y, tuple(starts), tuple(hops)), node)
        return
    if rank in (4, 5):
        raise NoMatch("it turns a part of images")
    place, end = np.arange(steps)[:, None], np.array(lengths)[None]
    read, row = np.where(place < end, end - 1 - place, place), np.arange(sizes[batch])[None]
    chosen = read * sizes[1] + row if time == 0 else (row * sizes[1] + read).T
    take_rows(builder, node, x, sizes, chosen.reshape(-1))

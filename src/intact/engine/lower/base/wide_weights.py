"""Split weights of 9 bits (uint8 codes less a zero point other than 128) into int8 weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.operand import CodesRead
from intact.engine.lower.base.weights import Weight
from intact.engine.steps import Concat, Gather
from intact.graph import Node

_FEW = 4
"""Part of the channels up to which they alone are repeated: a Gather costs more than a Concat."""


def split_weight(
    builder: PlanBuilder, node: Node, read: CodesRead, weight: Weight, axis: int, groups: int = 1
) -> tuple[CodesRead, Weight]:
    """Let a layer read channels twice where one int8 weight for them is too small.

    Before: ``x * w`` with w in -120..135.  After: ``[x, x] * [w1, w2]``, where w1 is w within int8 and w2 the
    rest: the same integer sums, at up to twice the products.

    Args:
        builder: Gets the step that repeats channels.
        node: The layer.
        read: What it multiplies.
        weight: [out, in / groups, ...].
        axis: Of the channels of what it reads.
        groups: Of the channels.
    Returns:
        Both as they were where int8 holds the weights.
    Raises:
        NoMatch: Each group has one channel: depthwise kernels multiply int8.
    """
    if weight.codes.dtype == np.int8:
        return read, weight
    if groups > 1 and weight.codes.shape[1] == 1:
        raise NoMatch(
            "its weight less its zero point does not fit into int8, and its groups have one channel"
        )
    channels, parts = _parts(weight.codes)
    size = weight.codes.shape[1]
    index = np.concatenate([group * size + channels for group in range(groups)])
    names = {}
    for x in filter(None, (read.x, read.low)):
        names[x] = _repeat_channels(
            builder, node, x, index, axis % len(builder.tensors[x].shape), groups * size
        )
    read = replace(read, x=names[read.x], low=names.get(read.low, ""))
    return read, Weight(parts, weight.scale)


def _parts(codes: NDArray[np.signedinteger]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Split `codes` of one group into int8 weights that add up to them, with the channels that they
    repeat."""
    size = codes.shape[1]
    channels, parts, rest = [np.arange(size)], list[NDArray[np.int8]](), codes
    while True:
        part = np.clip(rest, -128, 127).astype(np.int8)
        parts.append(part[:, channels[-1]])
        rest = rest - part
        wide = np.flatnonzero(rest.any(axis=(0, *range(2, rest.ndim))))
        if not wide.size:
            return np.concatenate(channels), np.concatenate(parts, axis=1)
        channels.append(np.arange(size) if wide.size * _FEW > size else wide)


def _repeat_channels(
    builder: PlanBuilder, node: Node, x: str, index: NDArray[np.int64], axis: int, size: int
) -> str:
    """Gather the channels of x at `index`."""
    tensor, done = builder.tensors[x], (node.name or "",)
    shape = *tensor.shape[:axis], len(index), *tensor.shape[axis + 1 :]
    times = len(index) // size
    whole = len(index) == times * size and np.array_equal(index, np.tile(np.arange(size), times))
    name = f"{x}.times{times}.{axis}"
    if whole and name in builder.tensors:
        return name  # which another layer wanted
    y = builder.scratch(name if whole else f"{x}.chosen", tensor.dtype, shape, tensor.codes)
    if whole:
        builder.add(Concat(done[0], done, (x,) * times, y, axis))
    else:
        builder.add(Gather(done[0], done, x, builder.hold(f"{y}.index", index), y, axis))
    return y

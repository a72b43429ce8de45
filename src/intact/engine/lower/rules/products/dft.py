"""DFT of a known length, as a product with the matrix of its waves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, has, numbers, plain, who
from intact.engine.steps import FloatLinear, Reshape, Transpose
from intact.graph import Node, ops

MOST_WAVES = 2**21  # numbers of a matrix; above, a fast transform wins


def lower_dft(builder: PlanBuilder, node: Node) -> None:
    """Lower DFT along one axis, of reals or of pairs of them: the axis is moved last, and is a row then."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    rank = len(x.shape)
    if x.dtype != "float32" or rank < 2 or x.shape[-1] not in (1, 2):
        raise NoMatch(f"it transforms {x.dtype} of the sizes {', '.join(map(str, x.shape))}")
    axis = (numbers(builder, node, 2)[0] if has(node, 2) else -2) % rank
    size, parts = x.shape[axis], x.shape[-1]
    if not isinstance(size, int) or not isinstance(parts, int) or axis == rank - 1 or size < 1:
        raise NoMatch("the size of what it transforms is not known")
    length = numbers(builder, node, 1)[0] if has(node, 1) else size
    op = ops.DFT.of(node)
    inverse, onesided = op.inverse, op.onesided
    if length < 1 or (inverse and onesided):
        raise NoMatch(f"it transforms {length} elements" if length < 1 else "it is the inverse of one side")
    waves = waves_of(size, length, parts, bool(inverse), length // 2 + 1 if onesided else length)
    if waves.size > MOST_WAVES:
        raise NoMatch(f"its matrix would have {waves.size} numbers")
    last = [*(other for other in range(rank - 1) if other != axis), axis, rank - 1]
    source, rows = x.name, [x.shape[place] for place in last]
    if last != list(range(rank)):
        source = between(builder, f"{value.name}.last", x, tuple(rows))
        builder.add(Transpose(*who(node), x.name, source, tuple(last)))
    lead, bins = tuple(rows[:-2]), waves.shape[1] // 2
    flat = between(builder, f"{value.name}.rows", x, (*(lead or (1,)), size * parts))
    product = between(builder, f"{value.name}.waves", x, (*(lead or (1,)), 2 * bins))
    builder.add(Reshape(*who(node), source, flat))
    builder.add(FloatLinear(*who(node), flat, product, builder.hold(f"{node.name}.waves", waves)))
    y = builder.write_plain(value, "float32")
    if last == list(range(rank)):
        builder.add(Reshape(*who(node), product, y), node)
        return
    pairs = between(builder, f"{value.name}.pairs", x, (*lead, bins, 2))
    builder.add(Reshape(*who(node), product, pairs))
    back = tuple(int(place) for place in np.argsort(last))
    builder.add(Transpose(*who(node), pairs, y, back), node)


def waves_of(size: int, length: int, parts: int, inverse: bool, bins: int) -> NDArray[np.float32]:
    """Return the weights [elements * parts, made * 2] that take elements to real and imaginary parts.

    Elements beyond `length` count nothing; what is missing up to it is 0.
    """
    turns = np.outer(np.arange(size), np.arange(bins)) % length  # whole numbers: angles stay small
    angles = turns * (2 * np.pi / length * (1 if inverse else -1))
    weight = (np.arange(size) < length)[:, None] / (length if inverse else 1)
    real, imaginary = np.cos(angles) * weight, np.sin(angles) * weight
    of_real = np.stack([real, imaginary], -1).reshape(size, 2 * bins)
    of_imaginary = np.stack([-imaginary, real], -1).reshape(size, 2 * bins)
    every = np.stack([of_real, of_imaginary][:parts], 1)
    return every.reshape(size * parts, 2 * bins).astype(np.float32)

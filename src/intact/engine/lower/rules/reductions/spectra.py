"""Discrete Fourier transforms of a known length, as products with the matrix of their waves.

Those of frames of a signal, STFT, are a convolution with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.rules.moves.moves import Rule, between, has, numbers, plain, who
from intact.engine.steps import FloatConv, FloatLinear, Reshape, Transpose
from intact.graph import Node
from intact.graph.ops.attributes import integer

_MOST_WAVES = 2**21  # numbers of a matrix; above, a fast transform wins


def _dft(builder: PlanBuilder, node: Node) -> None:
    """Along one axis, of reals or of pairs of them: the axis goes behind the others, and is a row then."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    rank = len(x.shape)
    if x.dtype != "float32" or rank < 2 or x.shape[-1] not in (1, 2):
        raise NoMatch(f"it transforms {x.dtype} of the sizes {', '.join(map(str, x.shape))}")
    axis = (numbers(builder, node, 2)[0] if has(node, 2) else -2) % rank
    size, parts = x.shape[axis], x.shape[-1]
    if not isinstance(size, int) or not isinstance(parts, int) or axis == rank - 1 or size < 1:
        raise NoMatch("the size of what it transforms is not known")
    length = numbers(builder, node, 1)[0] if has(node, 1) else size
    inverse, onesided = integer(node, "inverse", 0), integer(node, "onesided", 0)
    if length < 1 or (inverse and onesided):
        raise NoMatch(f"it transforms {length} elements" if length < 1 else "it is the inverse of one side")
    waves = _waves(size, length, parts, bool(inverse), length // 2 + 1 if onesided else length)
    if waves.size > _MOST_WAVES:
        raise NoMatch(f"its matrix would have {waves.size} numbers")
    last = [*(other for other in range(rank - 1) if other != axis), axis, rank - 1]
    source, rows = x.name, [x.shape[place] for place in last]
    if last != list(range(rank)):
        source = between(builder, f"{value.name}.last", x, tuple(rows))
        builder.add(Transpose(*who(node), x.name, source, tuple(last)))
    lead, made = tuple(rows[:-2]), waves.shape[1] // 2
    flat = between(builder, f"{value.name}.rows", x, (*(lead or (1,)), size * parts))
    product = between(builder, f"{value.name}.waves", x, (*(lead or (1,)), 2 * made))
    builder.add(Reshape(*who(node), source, flat))
    builder.add(FloatLinear(*who(node), flat, product, builder.hold(f"{node.name}.waves", waves)))
    y = builder.write_plain(value, "float32")
    if last == list(range(rank)):
        builder.add(Reshape(*who(node), product, y), node)
        return
    pairs = between(builder, f"{value.name}.pairs", x, (*lead, made, 2))
    builder.add(Reshape(*who(node), product, pairs))
    back = tuple(int(place) for place in np.argsort(last))
    builder.add(Transpose(*who(node), pairs, y, back), node)


def _waves(size: int, length: int, parts: int, inverse: bool, made: int) -> NDArray[np.float32]:
    """[elements * parts, made * 2]: what each part of an element adds to the real and imaginary parts.

    Elements beyond `length` count nothing; what is missing up to it is 0.
    """
    turns = np.outer(np.arange(size), np.arange(made)) % length  # whole numbers: angles stay small
    angles = turns * (2 * np.pi / length * (1 if inverse else -1))
    weight = (np.arange(size) < length)[:, None] / (length if inverse else 1)
    real, imaginary = np.cos(angles) * weight, np.sin(angles) * weight
    of_real = np.stack([real, imaginary], -1).reshape(size, 2 * made)
    of_imaginary = np.stack([-imaginary, real], -1).reshape(size, 2 * made)
    every = np.stack([of_real, of_imaginary][:parts], 1)
    return every.reshape(size * parts, 2 * made).astype(np.float32)


def _stft(builder: PlanBuilder, node: Node) -> None:
    """Of a real signal, each frame under the window: a wave is a filter."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    batch, samples = x.shape[:2] if len(x.shape) in (2, 3) else (0, 0)
    if x.dtype != "float32" or x.shape not in ((batch, samples), (batch, samples, 1)):
        raise NoMatch(f"it transforms {x.dtype} of the sizes {', '.join(map(str, x.shape))}")
    step, under = numbers(builder, node, 1)[0], node.inputs[2] if has(node, 2) else None
    window = builder.constant(under, "its window") if under is not None else None
    length = numbers(builder, node, 3)[0] if has(node, 3) else -1 if window is None else window.size
    if step < 1 or length < 1 or (window is not None and window.shape != (length,)):
        raise NoMatch(f"its frames have {length} elements, at steps of {step}")
    waves = _waves(length, length, 1, False, length // 2 + 1 if integer(node, "onesided", 1) else length)
    if waves.size > _MOST_WAVES:
        raise NoMatch(f"its matrix would have {waves.size} numbers")
    if window is not None:
        waves *= window.astype(np.float32)[:, None]
    filters = builder.hold(f"{node.name}.waves", np.ascontiguousarray(waves.T)[:, None, :, None])
    frames, made = dims_of(value)[1], waves.shape[1]
    image = between(builder, f"{value.name}.signal", x, (batch, 1, 1, samples))
    product = between(builder, f"{value.name}.waves", x, (batch, made, 1, frames))
    rows = between(builder, f"{value.name}.rows", x, (batch, 1, frames, made))
    builder.add(Reshape(*who(node), x.name, image))
    builder.add(FloatConv(*who(node), image, product, filters, strides=(1, step)))
    builder.add(Transpose(*who(node), product, rows, (0, 2, 3, 1)))
    builder.add(Reshape(*who(node), rows, builder.write_plain(value, "float32")), node)


SPECTRA: dict[str, Rule] = {"DFT": _dft, "STFT": _stft}
"""Operator -> how it becomes steps."""

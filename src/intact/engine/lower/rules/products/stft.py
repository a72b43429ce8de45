"""Lowers STFT to a convolution with waves."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import between, has, numbers, plain, who
from intact.engine.lower.rules.products.dft import MOST_WAVES, waves_of
from intact.engine.steps import FloatConv, Reshape, Transpose
from intact.graph import Node, ops


def lower_stft(builder: PlanBuilder, node: Node) -> None:
    """Lower the STFT of a real signal to a convolution: each windowed wave is a filter."""
    x, value = plain(builder, node.inputs[0]), node.outputs[0]
    batch, samples = x.shape[:2] if len(x.shape) in (2, 3) else (0, 0)
    if x.dtype != "float32" or x.shape not in ((batch, samples), (batch, samples, 1)):
        raise NoMatch(f"it transforms {x.dtype} of the sizes {', '.join(map(str, x.shape))}")
    step, under = numbers(builder, node, 1)[0], node.inputs[2] if has(node, 2) else None
    window = builder.constant(under, "its window") if under is not None else None
    length = numbers(builder, node, 3)[0] if has(node, 3) else -1 if window is None else window.size
    if step < 1 or length < 1 or (window is not None and window.shape != (length,)):
        raise NoMatch(f"its frames have {length} elements, at steps of {step}")
    waves = waves_of(length, length, 1, False, length // 2 + 1 if ops.STFT.of(node).onesided else length)
    if waves.size > MOST_WAVES:
        raise NoMatch(f"its matrix would have {waves.size} numbers")
    if window is not None:
        waves *= window.astype(np.float32)[:, None]
    filters = builder.hold(f"{node.name}.waves", np.ascontiguousarray(waves.T)[:, None, :, None])
    frames, bins = dims_of(value)[1], waves.shape[1]
    image = between(builder, f"{value.name}.signal", x, (batch, 1, 1, samples))
    product = between(builder, f"{value.name}.waves", x, (batch, bins, 1, frames))
    rows = between(builder, f"{value.name}.rows", x, (batch, 1, frames, bins))
    builder.add(Reshape(*who(node), x.name, image))
    builder.add(FloatConv(*who(node), image, product, filters, strides=(1, step)))
    builder.add(Transpose(*who(node), product, rows, (0, 2, 3, 1)))
    builder.add(Reshape(*who(node), rows, builder.write_plain(value, "float32")), node)

"""Reads the codes of a layer's input: of 8 bits, or of 16 as two tensors of bytes."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import FloatGrid
from intact.engine.lower.base.operand import CodesRead
from intact.engine.steps import Codes, Pad, SplitQuantize
from intact.engine.steps.base.window import Pads
from intact.engine.steps.elements.split_quantize import FORMATS, split_codes
from intact.graph import Node, Value, is_op


def codes_read(builder: PlanBuilder, value: Value | None, *, of_images: bool = False) -> CodesRead:
    """Return the codes behind `value`.

    Args:
        builder: The plan so far.
        value: What a layer reads.
        of_images: Of codes of 16 bits, a Pad in front of their pair may be left to the layer.
    Raises:
        NoMatch: It has none that kernels multiply.
    """
    pair = builder.grids.float_pair(value.producer() if value is not None else None)
    constant = value is None or value in builder.constants
    if value is None or constant or pair is None or pair[1].format not in FORMATS:
        return CodesRead(*builder.require_codes(value))
    quantize, grid = pair
    high, low = split_codes(grid.format, grid.scale, grid.zero_point)
    if not np.isfinite(np.float32(high.scale)):
        raise NoMatch(f"its input is in steps of {grid.scale}, whose high bytes no float32 scales")
    x, pads = _without_pad(builder, quantize) if of_images else (None, (0, 0, 0, 0))
    base = value.name if x is None else f"{value.name}.unpadded"
    names = f"{base}.high", f"{base}.low"
    if names[0] not in builder.tensors:
        _split(builder, (quantize, value), x, grid, names, (high, low))
    whole = Codes(grid.scale, 256 * high.zero_point + low.zero_point, False, 0, 2**16 - 1)
    return CodesRead(names[0], whole, names[1], pads)


def _without_pad(builder: PlanBuilder, quantize: Node) -> tuple[str | None, Pads]:
    """Return the input and pads of a Pad with zeros in front of a pair; None where there is none."""
    source = quantize.inputs[0]
    if source is not None and is_op(source.producer(), "Pad"):
        x = builder.real(source)
        for step in reversed(builder.steps):
            if isinstance(step, Pad) and step.y == x and not step.fill and len(step.pads) == 4:
                pads = step.constant_pads
                if pads and not any(pads[:4]) and builder.tensors[step.x].dtype == "float32":
                    top, bottom, left, right = pads[4:]
                    return step.x, (top, left, bottom, right)
    return None, (0, 0, 0, 0)


def _split(
    builder: PlanBuilder,
    pair: tuple[Node, Value],
    x: str | None,
    grid: FloatGrid,
    names: tuple[str, str],
    codes: tuple[Codes, Codes],
) -> None:
    """Write both tensors of bytes, once for all layers that read a pair; of `x`, or of the pair's input."""
    quantize, dequantize = pair[0], pair[1].producer()
    assert dequantize is not None, "it is no constant"
    x = x or builder.real(quantize.inputs[0])
    shape = builder.tensors[x].shape
    tensors = [
        builder.scratch(name, "codes", shape, part_codes)
        for name, part_codes in zip(names, codes, strict=True)
    ]
    if tensors != list(names):
        raise NoMatch(f"the graph has a tensor called '{names[0]}' or '{names[1]}'")
    done = (quantize.name or "", dequantize.name or "")
    builder.add(SplitQuantize(done[1], done, x, *names, grid.format, grid.scale, grid.zero_point))

"""Maximum or mean over windows."""

from __future__ import annotations

import numpy as np

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.views import grid_of, regrid, zero_of
from intact.engine.steps import Pool, Shape
from intact.errors import QuantValueError
from intact.kernels import pool
from intact.kernels.program import NativeStep
from intact.kernels.window import PixelWindow
from intact.numerics import ratio


@binds(Pool)
def bind_pool(step: Pool, binding: Binding) -> list[NativeStep]:
    """Maximum or mean over windows."""
    x, y = binding.image(step.x), binding.image(step.y)
    sizes, positions = binding.shape(step.x)[2:], binding.shape(step.y)[2:]
    window = PixelWindow((sizes[0], sizes[1]))
    if step.kernel is not None:
        window = PixelWindow(step.kernel, step.strides, step.dilations, step.pads)
    counts = _counts(window, sizes, positions, step.mode == "average" and step.count_include_pad)
    if 0 in counts:
        raise QuantValueError(
            f"step '{step.name}'",
            f"pads {step.pads} with kernel {window.kernel} over {sizes}",
            "at least one value in every window",
            "pad by less than the kernel",
        )
    if step.mode == "max":
        if binding.grid(step.x) is None:
            return [pool.float_max_pool(x, y, window, binding.kernels)]
        pooled = pool.max_pool(x, y, window, binding.kernels)
        return [pooled, *regrid(binding, step.x, step.y)]
    from_codes, to_codes = binding.codes(step.x), binding.codes(step.y)
    multipliers = {n: float(ratio(from_codes.scale, to_codes.scale, n)) for n in sorted(counts)}
    return [
        pool.mean_pool(
            x,
            y,
            window,
            zero_of(from_codes),
            multipliers,
            grid_of(to_codes),
            include_pads=step.count_include_pad,
            kernels=binding.kernels,
        )
    ]


def _counts(window: PixelWindow, sizes: Shape, positions: Shape, include_pads: bool) -> set[int]:
    """Every number of elements that a window counts."""
    per_axis = []
    for axis in range(2):
        before, after = (window.pads[axis], window.pads[axis + 2]) if include_pads else (0, 0)
        taps = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        at = np.arange(positions[axis])[:, None] * window.strides[axis] + taps
        per_axis.append(set(((at >= -before) & (at < sizes[axis] + after)).sum(axis=1).tolist()))
    return {down * across for down in per_axis[0] for across in per_axis[1]}

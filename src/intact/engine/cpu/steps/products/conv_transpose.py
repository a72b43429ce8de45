"""Transposed convolutions: a convolution for each phase of the strides; for phases that are alike, one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.partial_conv import PartialConv, native_conv
from intact.engine.cpu.steps.base.phases import are_side_by_side, every_stride, taps_label
from intact.engine.steps import ConvTranspose
from intact.kernels import SLACK, NativeStep
from intact.numerics import phases


@binds(ConvTranspose)
def bind_conv_transpose(step: ConvTranspose, binding: Binding) -> list[NativeStep]:
    """One convolution for each phase of the strides, which writes the outputs of that phase."""
    return [native_conv(part, step, binding) for part in _parts(step, binding)]


def _parts(step: ConvTranspose, binding: Binding) -> Iterator[PartialConv]:
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    axes = [phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
    images = [y, residual] if residual else [y]
    joined = step.groups == 1 and len({w.window for w in axes[1]}) == 1 and are_side_by_side(axes[1], images)
    for h in axes[0]:
        for together in [axes[1]] if joined else [[w] for w in axes[1]]:
            w = together[0]
            if h.first >= y.sizes[1] or w.first >= y.sizes[2]:
                continue
            firsts, number = (h.first, w.first), len(together)
            part = PartialConv(
                x,
                every_stride(y, firsts, step.strides, number),
                every_stride(residual, firsts, step.strides, number) if residual else None,
                np.concatenate([weight[:, h.taps][:, :, phase.taps] for phase in together]),
                dilations=(h.dilation, w.dilation),
                origin=(h.origin, w.origin),
                groups=step.groups,
                label=f".{taps_label(h.taps)}." + "+".join(taps_label(phase.taps) for phase in together),
                repeats=number,
            )
            yield part if h.taps and w.taps else _zero_part(part, binding)


def _zero_part(part: PartialConv, binding: Binding) -> PartialConv:
    """Outputs that no tap reaches: one tap of weight 0, on a pixel of their own: x may have none."""
    (n, h, w, _), channels = part.y.sizes, part.x.sizes[3]
    still = binding.hold(np.zeros(channels + SLACK, np.uint8)).part(0, (n, h, w, channels), (0, 0, 0, 1))
    nothing = np.zeros((part.weight.shape[0], 1, 1, part.weight.shape[3]), np.int8)
    return replace(part, x=still, weight=nothing, dilations=(1, 1), origin=(0, 0))

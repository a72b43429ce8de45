"""Transposed convolutions: a convolution for each phase of the strides; for phases that are alike, one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.gemm import PartialConv, native
from intact.engine.steps import ConvTranspose
from intact.kernels.program import SLACK, NativeStep, View


@dataclass(frozen=True)
class _Phase:
    """Along one axis, every stride-th output of a transposed convolution: a convolution of stride 1.

    Attributes:
        first: The first of these outputs.
        taps: The kernel's taps that reach them, in the order of the inputs that they read; may be empty.
        origin: The input under the first of these taps at output `first`.
        dilation: From tap to tap, in inputs.
    """

    first: int
    taps: tuple[int, ...]
    origin: int
    dilation: int

    @property
    def window(self) -> tuple[int, int, int]:
        """What inputs an output reads, by their places relative to it."""
        return self.origin, len(self.taps), self.dilation


def _phases(taps: int, stride: int, dilation: int, pad: int) -> list[_Phase]:
    """Output o takes tap k from input (o + pad - k * dilation) / stride, where that is a whole number."""
    apart = dilation // gcd(stride, dilation)
    phases = []
    for first in range(stride):
        reach = [k for k in reversed(range(taps)) if (first + pad - k * dilation) % stride == 0]
        origin = (first + pad - reach[0] * dilation) // stride if reach else 0
        phases.append(_Phase(first, tuple(reach), origin, apart))
    return phases


@binds(ConvTranspose)
def bind_conv_transpose(step: ConvTranspose, binding: Binding) -> list[NativeStep]:
    """One convolution for each phase of the strides, which writes the outputs of that phase."""
    return [native(part, step, binding) for part in _transposed_parts(step, binding)]


def _transposed_parts(step: ConvTranspose, binding: Binding) -> Iterator[PartialConv]:
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    axes = [_phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
    images = [y, residual] if residual else [y]
    joined = step.groups == 1 and len({w.window for w in axes[1]}) == 1 and _side_by_side(axes[1], images)
    for h in axes[0]:
        for together in [axes[1]] if joined else [[w] for w in axes[1]]:
            w = together[0]
            if h.first >= y.sizes[1] or w.first >= y.sizes[2]:
                continue
            firsts, number = (h.first, w.first), len(together)
            part = PartialConv(
                x,
                _every(y, firsts, step.strides, number),
                _every(residual, firsts, step.strides, number) if residual else None,
                np.concatenate([weight[:, h.taps][:, :, one.taps] for one in together]),
                dilations=(h.dilation, w.dilation),
                origin=(h.origin, w.origin),
                groups=step.groups,
                label=f".{_named(h.taps)}." + "+".join(_named(one.taps) for one in together),
                repeats=number,
            )
            yield part if h.taps and w.taps else _untouched(part, binding)


def _side_by_side(phases: list[_Phase], images: list[View]) -> bool:
    """Whether the outputs of all phases are neighbours, as if they were channels of one pixel."""
    return bool(phases[0].taps) and all(
        image.sizes[2] % len(phases) == 0 and image.strides[2] == image.sizes[3] * image.itemsize
        for image in images
    )


def _named(taps: tuple[int, ...]) -> str:
    """Every so many taps of a kernel."""
    return f"{taps[0]}-{taps[-1]}-{len(taps)}" if taps else "none"


def _every(image: View, first: tuple[int, int], strides: tuple[int, int], number: int) -> View:
    """Every stride-th pixel of an image, from `first` on, each with its next ones as further channels."""
    n, h, w, c = image.sizes
    image_stride, row, pixel, step = image.strides
    offset = image.offset + first[0] * row + first[1] * pixel
    sizes = (n, -(-(h - first[0]) // strides[0]), -(-(w - first[1]) // strides[1]), number * c)
    return image.part(offset, sizes, (image_stride, row * strides[0], pixel * strides[1], step))


def _untouched(part: PartialConv, binding: Binding) -> PartialConv:
    """Outputs that no tap reaches: one tap of weight 0, on a pixel of their own: x may have none."""
    (n, h, w, _), channels = part.y.sizes, part.x.sizes[3]
    still = binding.hold(np.zeros(channels + SLACK, np.uint8)).part(0, (n, h, w, channels), (0, 0, 0, 1))
    nothing = np.zeros((part.weight.shape[0], 1, 1, part.weight.shape[3]), np.int8)
    return replace(part, x=still, weight=nothing, dilations=(1, 1), origin=(0, 0))

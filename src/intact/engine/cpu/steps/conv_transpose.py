"""Transposed convolutions: a convolution for each phase of the strides; for phases that are alike, one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.gemm import PartialConv, native
from intact.engine.steps import ConvTranspose, FloatConvTranspose
from intact.kernels import float_gemm
from intact.kernels.program import SLACK, NativeStep, View
from intact.kernels.window import PixelWindow
from intact.numerics.floats.float_conv_transpose import Phase, phases


@binds(ConvTranspose)
def bind_conv_transpose(step: ConvTranspose, binding: Binding) -> list[NativeStep]:
    """One convolution for each phase of the strides, which writes the outputs of that phase."""
    return [native(part, step, binding) for part in _transposed_parts(step, binding)]


def _transposed_parts(step: ConvTranspose, binding: Binding) -> Iterator[PartialConv]:
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    axes = [phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
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


def _side_by_side(phases: list[Phase], images: list[View]) -> bool:
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


@binds(FloatConvTranspose)
def bind_float_conv_transpose(step: FloatConvTranspose, binding: Binding) -> list[NativeStep]:
    """As `bind_conv_transpose`, in float32; an output that no tap reaches has a window of one pixel of 0."""
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    kernel = binding.kernels[float_gemm.FAMILY]
    axes = [phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
    joined = step.groups == 1 and len({w.window for w in axes[1]}) == 1 and _side_by_side(axes[1], [y])
    made = []
    for h in axes[0]:
        for together in [axes[1]] if joined else [[w] for w in axes[1]]:
            w, number = together[0], len(together)
            if h.first >= y.sizes[1] or w.first >= y.sizes[2]:
                continue
            part = _every(y, (h.first, w.first), step.strides, number)
            taps = np.concatenate([weight[:, h.taps][:, :, one.taps] for one in together])
            read, window, origin = x, (len(h.taps), len(w.taps)), (h.origin, w.origin)
            if 0 in window:
                read, window, origin = _nothing(part, x.sizes[3], binding), (1, 1), (0, 0)
                taps = np.zeros((len(taps), 1, 1, weight.shape[3]), np.float32)

            def pack(taps: NDArray[np.float32] = taps) -> NDArray[np.float32]:
                return float_gemm.pack_filters(taps, step.groups, kernel)

            label = f"{_named(h.taps)}." + "+".join(_named(one.taps) for one in together)
            top, left = origin
            made.append(
                float_gemm.conv(
                    read,
                    part,
                    binding.packed(step.weight, f"{kernel}.filters{step.groups}.{label}", pack),
                    PixelWindow(window, (1, 1), (h.dilation, w.dilation), (-top, -left, 0, 0)),
                    groups=step.groups,
                    start=_starts(step.bias, number, binding),
                    kernel=kernel,
                )
            )
    return made


def _starts(bias: str, number: int, binding: Binding) -> View | None:
    """The starts of outputs that stand so many times side by side."""
    if not bias:
        return None
    if number == 1:
        return binding.constant(bias)
    return binding.hold(np.tile(binding.array(bias), number))


def _nothing(part: View, channels: int, binding: Binding) -> View:
    """An image of 0, as many pixels as `part` has, all of them one."""
    n, h, w, _ = part.sizes
    return binding.hold(np.zeros(channels + SLACK, np.float32)).part(0, (n, h, w, channels), (0, 0, 0, 4))

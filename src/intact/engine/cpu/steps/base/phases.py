"""The parts of a transposed convolution: one for each phase of its strides."""

from __future__ import annotations

from intact.kernels import View
from intact.numerics import Phase


def are_side_by_side(phases: list[Phase], images: list[View]) -> bool:
    """Whether the outputs of all phases are neighbours, as if they were channels of one pixel."""
    return bool(phases[0].taps) and all(
        image.sizes[2] % len(phases) == 0 and image.strides[2] == image.sizes[3] * image.itemsize
        for image in images
    )


def taps_label(taps: tuple[int, ...]) -> str:
    """Every so many taps of a kernel."""
    return f"{taps[0]}-{taps[-1]}-{len(taps)}" if taps else "none"


def every_stride(image: View, first: tuple[int, int], strides: tuple[int, int], number: int) -> View:
    """Every stride-th pixel of an image, from `first` on, each with its next ones as further channels."""
    n, h, w, c = image.sizes
    image_stride, row, pixel, step = image.strides
    offset = image.offset + first[0] * row + first[1] * pixel
    sizes = (n, -(-(h - first[0]) // strides[0]), -(-(w - first[1]) // strides[1]), number * c)
    return image.part(offset, sizes, (image_stride, row * strides[0], pixel * strides[1], step))

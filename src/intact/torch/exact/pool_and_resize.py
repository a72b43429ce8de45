"""Compute average pools and resized images in the engine's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from intact.engine.steps import Interpolate
from intact.numerics import ResizeSampling, weighted_places
from intact.torch.exact.engine_steps import run_step
from intact.torch.exact.exact_operator import exact, register
from intact.torch.exact.tensor_grids import TensorGrids
from intact.torch.exact.volumes import convolve_volumes

__all__ = ["average_pool", "mean_of_planes", "resize"]

_POOLS: dict[int, Callable[..., Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d}


def mean_of_planes(grids: TensorGrids, x: Tensor, keepdim: bool) -> Tensor | None:
    """Return the mean of each plane of codes (N27); None for floats."""
    grid = grids.of(x)
    if grid is None or grid.scale.dim() or x.dim() != 4:
        return None
    sums = _sum_whole_numbers(x, grid.scale, lambda n: n.sum((2, 3), keepdim=keepdim))
    return sums / (x.shape[2] * x.shape[3])


def _sum_whole_numbers(x: Tensor, scale: Tensor, sums: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``fl32(fl32(sum of whole numbers) * scale)``, with the gradient of a sum of `x`."""
    sums_of_codes = sums((x / scale).round().double()).float() * scale
    if not (torch.is_grad_enabled() and x.requires_grad):
        return sums_of_codes
    like = sums(x)
    return like + (sums_of_codes - like).detach()


def average_pool(
    grids: TensorGrids, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor: int | None = None,
) -> Tensor | None:  # fmt: skip
    """Return sums of windows divided by their counts; with a divisor of its own, means of whole windows times
    a constant.
    """
    rank = len(kernel)
    if rank == 3:
        return _average_of_volumes(grids, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    pool = _POOLS[rank]
    ones = torch.ones((1, 1, *x.shape[2:]))
    sizes = pool(ones, list(kernel), list(stride), list(padding), ceil_mode, count_include_pad).shape[2:]
    ends = [
        max(pad, (out - 1) * hop + k - pad - n)
        for pad, out, hop, k, n in zip(padding, sizes, stride, kernel, x.shape[2:], strict=True)
    ]
    around = [pad for pair in zip(reversed(padding), reversed(ends), strict=True) for pad in pair]
    rim = [pad for pad_size in reversed(padding) for pad in (pad_size, pad_size)]
    beyond = [
        end - pad for pair in zip(reversed(ends), reversed(padding), strict=True) for end, pad in [pair]
    ]
    counted = F.pad(F.pad(ones, rim, value=float(count_include_pad)), [n for b in beyond for n in (0, b)])
    window = torch.ones((1, 1, *kernel))
    attributes: dict[str, Any] = {"stride": list(stride), "padding": [0] * rank, "dilation": [1] * rank}
    convolution = {1: F.conv1d, 2: F.conv2d}[rank]
    counts = convolution(counted, window, None, list(stride))
    wide, channels = F.pad(x, around), x.shape[1]
    each, grid = window.expand(channels, 1, *kernel).contiguous(), grids.of(x)
    if grid is not None and not grid.scale.dim():
        sums = _sum_whole_numbers(
            wide, grid.scale, lambda n: convolution(n, each.to(n), None, list(stride), groups=channels)
        )
    else:
        sums = exact("conv", wide, each, groups=channels, transposed=False, **attributes)
    if divisor is not None:
        return _mean_of_sums(sums, prod(kernel), divisor)
    return sums / (prod(kernel) if bool((counts == prod(kernel)).all()) else counts)


def _average_of_volumes(
    grids: TensorGrids, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    ceil_mode: bool, count_include_pad: bool, divisor: int | None,
) -> Tensor | None:  # fmt: skip
    """Return sums of windows, of floats or of codes, divided by their count."""
    if ceil_mode or (any(padding) and not count_include_pad and divisor is None):
        return None
    channels, grid = x.shape[1], grids.of(x)
    window = torch.ones((channels, 1, *kernel))
    if grid is not None and not grid.scale.dim():
        geometry: Any = None, list(stride), list(padding), 1, channels
        sums: Tensor | None = _sum_whole_numbers(
            x, grid.scale, lambda n: F.conv3d(n, window.to(n), *geometry)
        )
    else:
        attributes: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": (1, 1, 1)}
        sums = convolve_volumes(x, window, None, groups=channels, **attributes)
    return sums if sums is None else _mean_of_sums(sums, prod(kernel), divisor)


def _mean_of_sums(sums: Tensor, count: int, divisor: int | None) -> Tensor:
    """Return sums of windows of `count` elements by their count, or by a divisor of their own as a file has
    it.
    """
    means = sums / count
    return means if divisor in (None, count) else means * (count / divisor)


# ---- between elements ----


def _like_interpolate(x: Tensor, places: Tensor, weights: Tensor, *, axis: int) -> Tensor:
    neighbours = x.movedim(axis, -1)[..., places.reshape(-1)].reshape(
        *x.movedim(axis, -1).shape[:-1], *places.shape
    )
    return (neighbours * weights).sum(-1).movedim(-1, axis)


@register("interpolate", _like_interpolate)
def _interpolate(x: NDArray[Any], places: NDArray[Any], weights: NDArray[Any], *, axis: int) -> NDArray[Any]:
    """Interpolate along one axis (N57)."""
    return run_step(Interpolate, {"x": x}, {"y": x.ndim}, {"places": places, "weights": weights}, axis=axis)[
        0
    ]


def resize(
    x: Tensor, sizes: Sequence[int], scales: Sequence[float | None], mode: str, align_corners: bool,
    antialias: bool,
) -> Tensor:  # fmt: skip
    """Compute ONNX's Resize of all axes behind the first two, shrinking axes first."""
    coordinates = "align_corners" if align_corners else "half_pixel"
    # A smoothing kernel ends at the edges, and is Keys' with another coefficient, as PyTorch has it.
    sampling = (
        ResizeSampling(mode, coordinates, cubic_coeff_a=-0.5, exclude_outside=True, antialias=True)
        if antialias
        else ResizeSampling(mode, coordinates)
    )
    axes = [
        (axis, n, size, size / n if scale is None else scale)
        for axis, (n, size, scale) in enumerate(zip(x.shape[2:], sizes, scales, strict=True), start=2)
    ]
    for axis, n, size, scale in sorted(axes, key=lambda entry: entry[3]):
        if scale == 1 or (n == size and scale is None):
            continue
        places, weights = weighted_places(sampling, n, size, scale)
        x = exact(
            "interpolate",
            x,
            torch.from_numpy(places),
            torch.from_numpy(np.ascontiguousarray(weights)),
            axis=axis,
        )
    return x

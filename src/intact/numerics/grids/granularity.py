"""Granules: which elements of a tensor share a scale, and parameters broadcast over a tensor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.spec import QuantSpec

Shape = tuple[int, ...]


def normalize_axes(shape: Shape, spec: QuantSpec) -> tuple[int, ...]:
    """Return the axes of a grid as ascending indices; negative ones count from the end.

    Args:
        shape: Of the tensor.
        spec: Its grid.
    Raises:
        QuantValueError: An axis is out of range or given twice.

    Rule N4.
    """
    rank = len(shape)
    axes = tuple(sorted(a + rank if a < 0 else a for a in spec.axes))
    if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
        raise QuantValueError(
            "axis",
            f"{spec.axis} for a tensor of shape {shape}",
            f"distinct axes in [{-rank}, {rank})",
            "choose an axis that the tensor has, or None for one scale per tensor",
        )
    return axes


def granule_shape(shape: Shape, spec: QuantSpec) -> Shape:
    """Return the shape of the scales of a tensor: (), [channels...] or [..., blocks, ...].

    Args:
        shape: Of the tensor.
        spec: Its grid.
    Raises:
        QuantValueError: As for `normalize_axes`.

    Example:
        >>> granule_shape((64, 3, 7, 7), QuantSpec(axis=0))
        (64,)
        >>> granule_shape((4, 100), QuantSpec(axis=-1, block_size=32))
        (4, 4)

    Rule N4.
    """
    axes = normalize_axes(shape, spec)
    if spec.block_size is None:
        return tuple(shape[a] for a in axes)
    blocks = -(-shape[axes[0]] // spec.block_size)
    return (*shape[: axes[0]], blocks, *shape[axes[0] + 1 :])


def expand(params: ArrayLike, shape: Shape, spec: QuantSpec) -> NDArray:
    """Reshape scales (or zero points) of granule shape so that they broadcast against `shape`.

    Args:
        params: Scales or zero points, granule shape of `spec`; a single number always fits.
        shape: Shape of the tensor.
        spec: The granularity: which axes keep a scale of their own.
    Returns:
        An array that broadcasts to `shape`, dtype of `params`.
    Raises:
        QuantValueError: `params` has another shape than the granules of the tensor.

    Rule N4.
    """
    params = np.asarray(params)
    if params.size == 1:
        return params.reshape((1,) * len(shape))
    want = granule_shape(shape, spec)
    if params.shape != want:
        raise QuantValueError(
            "scale or zero_point",
            f"shape {params.shape} for a tensor of shape {shape}, {spec}",
            f"shape {want}",
            "calibrate with the same axis and block size as the tensor is quantized with",
        )
    axes = normalize_axes(shape, spec)
    if spec.block_size is not None:
        per_element = np.repeat(params, spec.block_size, axis=axes[0])
        return np.take(per_element, np.arange(shape[axes[0]]), axis=axes[0])
    return params.reshape([n if a in axes else 1 for a, n in enumerate(shape)])

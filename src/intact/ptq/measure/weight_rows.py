"""Writes weighted layers as matrix products: rows of the weight times rows of inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.graph import Node, ops
from intact.numerics import Window, to_float32

_PART_BYTES = 2**22


def as_rows(node: Node, weight: NDArray) -> NDArray | None:
    """Return the weight as [groups, outputs, columns], a view where possible; None if `node` is no such
    product.

    Conv [O, C / groups, *kernel], Gemm and MatMul [K, O]; no Gemm with alpha, or of a transposed input.
    """
    op = ops.read(node)
    if isinstance(op, ops.Conv):
        return weight.reshape(op.group, weight.shape[0] // op.group, -1)
    if weight.ndim != 2 or (isinstance(op, ops.Gemm) and (op.alpha != 1 or op.transA)):
        return None
    if isinstance(op, ops.Gemm) and op.transB:
        return weight[None]
    return weight.T[None] if isinstance(op, ops.Gemm | ops.MatMul) else None


def from_rows(node: Node, rows: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Return the weight of `shape` whose `as_rows` is `rows`.

    Args:
        node: The layer.
        rows: [groups, outputs, columns], as `as_rows` gives them.
        shape: Of the weight.
    """
    transposed = node.op_type == "MatMul" or (node.op_type == "Gemm" and not ops.Gemm.of(node).transB)
    return rows[0].T if transposed else rows.reshape(shape)


class InputRows:
    """Gathers the input rows that a layer multiplies with rows of its weight, at some positions.

    Args:
        node: A layer that `as_rows` knows.
        kernel: Sizes of a convolution's window; () for others.
        most: Positions evenly spaced are taken where there are more.
    """

    def __init__(self, node: Node, kernel: tuple[int, ...], most: int) -> None:
        self._conv = ops.Conv.of(node) if node.op_type == "Conv" else None
        self._kernel, self._most = kernel, most
        self._cached_places: tuple[tuple[int, ...], _Places] | None = (
            None  # the last shape's: few are unlike it
        )

    def __call__(self, x: NDArray) -> Iterator[NDArray[np.float32]]:
        """Yield some groups after the other of an input that is not empty: float32 [groups, positions,
        columns].

        There are `most` positions or fewer. A part has `_PART_BYTES`, about: windows hold a pixel many times.
        """
        if self._conv is None:
            flat = x.reshape(1, -1, x.shape[-1])
            yield flat[:, _even_positions(flat.shape[1], self._most)].astype(np.float32, copy=False)
            return
        cached = self._cached_places
        if cached is None or cached[0] != x.shape:
            self._cached_places = cached = x.shape, self._places(self._conv, x.shape)
        at, groups = cached[1], self._conv.group
        dense, each = np.ascontiguousarray(to_float32(x)), x.shape[1] // groups  # channels of a group
        step = max(1, _PART_BYTES // (each * at.size * dense.itemsize))
        for first in range(0, groups, step):
            yield kernels.windows(dense, at, range(first, min(first + step, groups)), each)

    def _places(self, conv: ops.Conv, shape: tuple[int, ...]) -> _Places:
        """See `intact.kernels.windows`."""
        kernel, sizes, rank = self._kernel, shape[2:], len(self._kernel)
        pads = conv.pads_of(kernel, sizes)
        assert pads is not None, "the sizes are known"
        strides, dilations = conv.strides_of(rank), conv.dilations_of(rank)
        around = list(zip(pads[:rank], pads[rank:], strict=True))
        counts = Window.of(kernel, rank, strides, around, dilations).positions(sizes)
        places = (shape[0], *counts)
        sample, *at = np.unravel_index(_even_positions(int(np.prod(places)), self._most), places)
        pixels, inside = np.zeros((len(sample), 1), np.intp), np.ones((len(sample), 1), bool)
        for axis, (size, k, stride, dilation) in enumerate(
            zip(sizes, kernel, strides, dilations, strict=True)
        ):
            read = at[axis][:, None] * stride + np.arange(k) * dilation - pads[axis]  # [positions, k]
            within = (read >= 0) & (read < size)
            pixels = (pixels[:, :, None] * size + np.clip(read, 0, size - 1)[:, None]).reshape(
                len(sample), -1
            )
            inside = (inside[:, :, None] & within[:, None]).reshape(len(sample), -1)
        first = sample[:, None] * int(np.prod(shape[1:]))
        return np.where(inside, first + pixels, -1).astype(np.int64)


_Places = NDArray[np.int64]
"""Positions of windows, [positions, taps]."""


def _even_positions(count: int, most: int) -> NDArray[np.intp]:
    return np.linspace(0, count - 1, min(count, most)).astype(np.intp)

"""Weighted layers as products: for each output, a row of the weight with a row of inputs that it meets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.graph import Node, ops


def as_rows(node: Node, weight: NDArray) -> NDArray | None:
    """The weight as [groups, outputs, columns], a view where it can be; None where `node` is no such product.

    Conv [O, C / groups, *kernel], Gemm and MatMul [K, O]; no Gemm with alpha, or of a transposed input.
    """
    said = ops.read(node)
    if isinstance(said, ops.Conv):
        return weight.reshape(said.group, weight.shape[0] // said.group, -1)
    if weight.ndim != 2 or (isinstance(said, ops.Gemm) and (said.alpha != 1 or said.transA)):
        return None
    if isinstance(said, ops.Gemm) and said.transB:
        return weight[None]
    return weight.T[None] if isinstance(said, ops.Gemm | ops.MatMul) else None


def from_rows(node: Node, rows: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The weight of `shape` whose `as_rows` is `rows`."""
    transposed = node.op_type == "MatMul" or (node.op_type == "Gemm" and not ops.Gemm.of(node).transB)
    return rows[0].T if transposed else rows.reshape(shape)


def inputs_met(node: Node, x: NDArray, kernel: tuple[int, ...], most: int) -> NDArray[np.float32]:
    """What rows of the weight meet in `x`: float32 [groups, positions, columns], `most` positions or fewer.

    Args:
        node: A layer that `as_rows` knows.
        x: Its input, not empty.
        kernel: Sizes of a convolution's window; () for others.
        most: Positions evenly spaced are taken where there are more.
    """
    if node.op_type != "Conv":
        flat = x.reshape(1, -1, x.shape[-1])
        return flat[:, _spaced(flat.shape[1], most)].astype(np.float32, copy=False)
    said = ops.Conv.of(node)
    pads = said.pads_of(kernel, x.shape[2:])
    assert pads is not None, "the sizes are known"
    around = zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)
    padded = np.pad(x, [(0, 0), (0, 0), *around])
    strides, dilations = said.strides_of(len(kernel)), said.dilations_of(len(kernel))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True)]
    taken = _spaced(len(x) * int(np.prod(counts)), most)
    sample, *at = np.unravel_index(taken, (len(x), *counts))
    taps = np.meshgrid(*(np.arange(k) * d for k, d in zip(kernel, dilations, strict=True)), indexing="ij")
    index = [p[:, None] * s + tap.reshape(-1) for p, s, tap in zip(at, strides, taps, strict=True)]
    here: tuple[NDArray | slice, ...] = (sample[:, None], slice(None), *index)
    windows = padded[here]  # [positions, taps, channels]
    by_group = windows.reshape(len(taken), -1, said.group, x.shape[1] // said.group)
    found = by_group.transpose(2, 0, 3, 1).reshape(said.group, len(taken), -1)
    return found.astype(np.float32, copy=False)


def _spaced(count: int, most: int) -> NDArray[np.intp]:
    return np.linspace(0, count - 1, min(count, most)).astype(np.intp)

"""Weighted layers as products: for each output, a row of the weight with a row of inputs that it meets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.graph import Node, ops
from intact.numerics.windows import Window


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
    rank = len(kernel)
    around = list(zip(pads[:rank], pads[rank:], strict=True))
    laid = Window.of(kernel, rank, said.strides_of(rank), around, said.dilations_of(rank))
    windows = laid.view(x, fill=0, beyond=0)
    places = (len(x), *windows.shape[2 : 2 + rank])
    sample, *at = np.unravel_index(_spaced(int(np.prod(places)), most), places)
    here: tuple[NDArray | slice, ...] = (sample, slice(None), *at)
    chosen = windows[here]  # [positions, channels, *kernel]
    found = chosen.reshape(len(sample), said.group, -1).transpose(1, 0, 2)
    return found.astype(np.float32, copy=False)


def _spaced(count: int, most: int) -> NDArray[np.intp]:
    return np.linspace(0, count - 1, min(count, most)).astype(np.intp)

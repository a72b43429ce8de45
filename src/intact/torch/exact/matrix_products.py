"""Compute linear layers, convolutions and matrix products: codes as integer sums, floats as chains of
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from intact import numerics
from intact.torch.exact.exact_operator import exact, register_torch
from intact.torch.exact.tensor_grids import TensorGrid, TensorGrids
from intact.torch.exact.volumes import convolve_volumes

__all__ = ["convolve", "linear", "matmul"]

_EXACT_IN_FLOAT32 = 2**24


def linear(grids: TensorGrids, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `F.linear`."""
    if weight.dim() != 2 or x.dim() == 0:
        return F.linear(x, weight, bias)
    a, b = grids.of_layer_input(x), _by_output(grids.of(weight), 0)
    if a is not None and b is not None and not a.scale.dim():
        product = _integer("linear", x, weight, a, b, a.scale * b.scale.reshape(-1))
        return product if bias is None else product + bias
    if bias is not None:
        rows = x if x.dim() > 1 else x[None]
        product = exact("linear", rows, weight, bias)
        return product if x.dim() > 1 else product[0]
    return _float_product(x, weight.t())


def matmul(grids: TensorGrids, a: Tensor, b: Tensor) -> Tensor:
    """Compute `torch.matmul`."""
    if not a.dim() or not b.dim():
        return torch.matmul(a, b)
    # A matrix that all rows share counts as weights.
    grid_a, grid_b = grids.of_layer_input(a) if b.dim() == 2 else grids.of(a), grids.of(b)
    if grid_a is not None and grid_b is not None:
        columns = _by_output(grid_b, b.dim() - 1) if b.dim() > 1 else _whole(grid_b)
        if columns is not None and not grid_a.scale.dim():
            per_output = columns.scale.reshape(-1) if b.dim() > 1 else columns.scale
            return _integer("matmul", a, b, grid_a, columns, grid_a.scale * per_output)
    return _float_product(a, b)


def _float_product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply floats; vectors become matrices of one row or column."""
    rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
    product = exact("product", rows, columns)
    product = product if b.dim() > 1 else product.squeeze(-1)
    return product if a.dim() > 1 else product.squeeze(-2 if b.dim() > 1 else -1)


def convolve(
    grids: TensorGrids,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    transposed: bool = False,
    output_padding: Sequence[int] = (),
) -> Tensor | None:
    """Compute `torch.convolution` of a batch; None where PyTorch's own order of sums stays."""
    attributes: dict[str, Any] = {
        "stride": list(stride), "padding": list(padding), "dilation": list(dilation), "groups": groups,
        "transposed": transposed, "output_padding": list(output_padding) or [0] * (x.dim() - 2),
    }  # fmt: skip
    volumes = x.dim() > 4
    a = grids.of(x) if transposed or volumes else grids.of_layer_input(x)
    b = _by_output(grids.of(weight), 1 if transposed else 0)
    if a is not None and b is not None and not a.scale.dim():
        per_output = b.scale.reshape(-1)
        if transposed and groups > 1 and per_output.numel() > 1:
            per_output = per_output.repeat(groups)
        step = (a.scale * per_output).reshape(-1, *[1] * (x.dim() - 2))
        sums = _integer("conv", x, weight, a, b, step, **attributes)
        return sums if bias is None else sums + bias.reshape(-1, *[1] * (x.dim() - 2))
    if volumes:
        geometry = {name: attributes[name] for name in ("stride", "padding", "dilation", "groups")}
        return None if transposed else convolve_volumes(x, weight, bias, **geometry)
    return exact("conv", x, weight, *([] if bias is None else [bias]), **attributes)


def _by_output(grid: TensorGrid | None, axis: int) -> TensorGrid | None:
    """Return a grid with one scale, or one for each index of an axis; None for others."""
    if grid is None or not grid.scale.dim():
        return grid
    sizes = [n for place, n in enumerate(grid.scale.shape) if place != axis]
    return grid if all(n == 1 for n in sizes) else None


def _whole(grid: TensorGrid) -> TensorGrid | None:
    """Return a grid with one scale; None for others."""
    return None if grid.scale.dim() else grid


# ---- integers ----


def _integer(
    kind: str, a: Tensor, b: Tensor, grid_a: TensorGrid, grid_b: TensorGrid, step: Tensor, **attributes: Any
) -> Tensor:
    """Compute ``fl32(fl32(sum) * step)``, with an exact sum of whole numbers (N19, N25), or rounded
    by N62.
    """
    scales = [grid_a.scale, grid_b.scale, step]
    return exact(f"integer_{kind}", a, b, *scales, reach=grid_a.reach, other=grid_b.reach, **attributes)


def _plain_conv(x: Tensor, weight: Tensor, *bias: Tensor, **attributes: Any) -> Tensor:
    return torch.convolution(
        x, weight, bias[0] if bias else None,
        attributes["stride"], attributes["padding"], attributes["dilation"],
        attributes["transposed"], attributes["output_padding"], attributes["groups"],
    )  # fmt: skip


_LAYERS: dict[str, Callable[..., Tensor]] = {
    "linear": F.linear, "matmul": torch.matmul, "conv": _plain_conv,
}  # fmt: skip


def _fits_float32(kind: str, a: Tensor, b: Tensor, reach: int, other: int, attributes: Any) -> bool:
    """Return whether sums and partial sums, in any order, are whole numbers that float32 holds."""
    if kind == "matmul":
        return reach * other * a.shape[-1] < _EXACT_IN_FLOAT32
    axis = 1 if attributes.get("transposed") else 0
    if reach * other * (b.numel() // max(b.shape[axis], 1)) < _EXACT_IN_FLOAT32:
        return True
    return reach * _largest_row(kind, b, attributes) < _EXACT_IN_FLOAT32


def _largest_row(kind: str, b: Tensor, attributes: Any) -> int:
    """Return the largest sum of magnitudes of the whole numbers that one output multiplies."""
    axis = b.dim() - 1 if kind == "matmul" else 1 if attributes.get("transposed") else 0
    axes = [i for i in range(b.dim()) if i != axis]
    return int(b.abs().sum(axes, dtype=torch.float64).max()) if b.numel() else 0


def _register(kind: str) -> None:
    layer = _LAYERS[kind]

    def like(a: Tensor, b: Tensor, *scales: Tensor, reach: int, other: int, **attributes: Any) -> Tensor:
        return layer(a, b, **attributes)

    def run(
        a: Tensor,
        b: Tensor,
        scale_a: Tensor,
        scale_b: Tensor,
        step: Tensor,
        *,
        reach: int,
        other: int,
        **attributes: Any,
    ) -> Tensor:
        a, b = (a / scale_a).round_(), (b / scale_b).round_()
        if _fits_float32(kind, a, b, reach, other, attributes):
            return layer(a, b, **attributes) * step
        total = layer(a.double(), b.double(), **attributes)
        if reach < 2**8:
            return total.float() * step
        unit = 2.0 ** numerics.shift_of_sums(reach * _largest_row(kind, b, attributes))
        return (total / unit + 0.5).floor_().float() * (step * unit)

    register_torch(f"integer_{kind}", like, run)


for _kind in _LAYERS:
    _register(_kind)

"""Track which tensors of a run hold multiples of a step: outputs of quantizers, and what only moved their
elements.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import version_of

__all__ = ["TensorGrid", "TensorGrids", "MOVES"]

_BYTES, _WORDS = 8, 16
"""Bits of codes that all integer steps read, and those that layers with weights read too (N62)."""


@dataclass(frozen=True)
class TensorGrid:
    """Says that the elements of a tensor are ``n * scale`` with whole n.

    Attributes:
        scale: float32 that broadcasts to the tensor: 0-D, or with as many axes.
        reach: The largest \\|n\\|.
    """

    scale: Tensor
    reach: int

    def numbers(self, x: Tensor) -> Tensor:
        """Return n of each element, float32."""
        return torch.round(x / self.scale)


def _grid_of(
    x: Tensor, amax: Tensor, amin: Tensor | None, format: str, axis: Any, narrow: bool
) -> TensorGrid | None:
    """Return the grid of a call of `intact::fake_quantize`; None where integer layers do not multiply such
    codes.
    """
    grid = ops._grid(x, amax, amin, format, axis, narrow)
    spec = grid.spec
    if spec.format.is_float or spec.format.bits > _WORDS:
        return None
    zero = grid.zero_point
    reach = int(max((spec.qmax - zero).max(), (zero - spec.qmin).max()))
    scale = torch.tensor(grid.scale)
    return TensorGrid(scale if scale.numel() == 1 and not spec.axes else scale.reshape(grid.keepdims), reach)


class TensorGrids:
    """Holds the grids of tensors while these live and are not written to."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Tensor], int, TensorGrid]] = {}

    def of(self, x: Any, bits: int = _BYTES) -> TensorGrid | None:
        """Return the grid of a tensor, if its codes have at most so many bits; None where it has none."""
        entry = self._entries.get(id(x))
        if entry is None or entry[0]() is not x or entry[1] != _version(x):  # type: ignore[arg-type]
            return None
        return entry[2] if entry[2].reach < 2**bits else None

    def of_layer_input(self, x: Any) -> TensorGrid | None:
        """Return the grid also where a quantizer made codes of 16 bits.

        A tensor that was moved since has none (N56).
        """
        return self.of(x, _WORDS)

    def put(self, x: Tensor, grid: TensorGrid | None) -> None:
        """Record that `x` holds multiples of a grid's step."""
        if grid is not None:
            key = id(x)
            self._entries[key] = weakref.ref(x, lambda _: self._entries.pop(key, None)), _version(x), grid

    def put_quantized(self, y: Tensor, args: tuple[Any, ...]) -> None:
        """Record the grid of `y`, which `intact::fake_quantize` computed from `args`."""
        if y.dtype == torch.float32:
            self.put(y, _grid_of(*args))

    def put_moved(
        self, name: str, result: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> None:
        """Record the grid of the results of `func`, which only moves elements of `args`."""
        grid = _common_grid([self.of(x) for x in args[0]]) if name in _JOINS else self.of(args[0])
        if grid is None or (name == "pad" and not _pads_zeros(*args[1:], **kwargs)):
            return
        if grid.scale.dim():
            if name == "unbind":
                self._put_unbound(result, grid, *args[1:], **kwargs)
                return
            if name not in _KEEPS_AXES:
                return
            grid = TensorGrid(func(grid.scale, *args[1:], **kwargs), grid.reach)
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(y, Tensor) and y.dtype == torch.float32:
                self.put(y, grid)

    def _put_unbound(self, parts_of_tensor: Any, grid: TensorGrid, dim: int = 0) -> None:
        """Record the grids of parts along an axis, which have its scales or share one."""
        parts = grid.scale.unbind(dim)
        for place, y in enumerate(parts_of_tensor):
            self.put(y, TensorGrid(parts[place % len(parts)], grid.reach))


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else version_of(x)


def _common_grid(grids: list[TensorGrid | None]) -> TensorGrid | None:
    first = grids[0] if grids else None
    alike = all(
        g is not None and first is not None and g.scale.shape == first.scale.shape == ()
        and torch.equal(g.scale, first.scale) for g in grids
    )  # fmt: skip
    if not alike or first is None:
        return None
    return TensorGrid(first.scale, max(g.reach for g in grids if g is not None))


def _pads_zeros(pad: Any = (), mode: str = "constant", value: float | None = None) -> bool:
    return mode != "constant" or not value


_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_KEEPS_AXES = frozenset({
    "transpose", "swapaxes", "swapdims", "permute", "t", "T", "mT", "movedim", "moveaxis", "unsqueeze",
    "detach", "clone", "contiguous",
})  # fmt: skip
MOVES = _JOINS | _KEEPS_AXES | frozenset({
    "H", "mH", "adaptive_max_pool1d", "adaptive_max_pool2d", "atleast_2d", "atleast_3d", "broadcast_to",
    "channel_shuffle", "chunk", "diagonal", "dropout", "expand", "expand_as", "flatten", "flip", "gather",
    "getitem", "index_select", "max_pool1d", "max_pool2d", "max_pool3d", "narrow", "pad", "pixel_shuffle",
    "pixel_unshuffle", "ravel", "relu", "repeat", "repeat_interleave", "reshape", "reshape_as", "roll",
    "rot90", "select", "split", "split_with_sizes", "squeeze", "take_along_dim", "tensor_split", "tile",
    "to", "unbind", "unflatten", "unfold", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_nearest_exact1d", "upsample_nearest_exact2d", "view", "view_as", "zero_pad", "float", "index",
})  # fmt: skip
"""Functions whose every result element is an operand's element, or 0, by the names of `function_of`."""

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

__all__ = ["MOVES", "CarriesGrid", "GridClaim", "TensorGrid", "TensorGrids", "grid_of"]

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

    def has_all(self, x: Tensor) -> bool:
        """Return whether all elements of a tensor are on the grid."""
        with torch.no_grad():
            numbers = self.numbers(x)
            return bool(((numbers * self.scale == x) & (numbers.abs() <= self.reach)).all())


def grid_of(
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


@dataclass(eq=False)
class GridClaim:
    """Describes what is known of the memory of tensors that carry a grid.

    Attributes:
        version: How often it had been written to.
        is_doubtful: Whether it may have been written to where PyTorch does not count.
    """

    version: int
    is_doubtful: bool = False

    @classmethod
    def of(cls, x: Tensor) -> GridClaim:
        """Return the claim of a tensor that a quantizer has just written."""
        return cls(_version(x))


class CarriesGrid(Tensor):
    """A tensor with a grid of its own: see `intact.torch.exact.grid_tensor`."""

    _claim: GridClaim
    _grid: TensorGrid

    def valid_grid(self, plain: Tensor) -> TensorGrid | None:
        """Return the grid; None where the elements are no longer on it.

        Args:
            plain: The same tensor as an ordinary one.
        """
        written = self._claim.is_doubtful or self._claim.version != _version(plain)
        return self._grid if not written or self._grid.has_all(plain) else None


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

    def take_in(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any, list[tuple[Tensor, CarriesGrid]]]:
        """Return the arguments of a call with ordinary tensors, and record the grids that these carried.

        Returns:
            Positional and named arguments; and each ordinary tensor with the one whose place it takes.
        """
        aliases: list[tuple[Tensor, CarriesGrid]] = []
        named = {name: self._take_in(x, aliases) for name, x in kwargs.items()}
        return self._take_in(args, aliases), named, aliases

    def _take_in(self, x: Any, aliases: list[tuple[Tensor, CarriesGrid]]) -> Any:
        if isinstance(x, CarriesGrid):
            plain = x.as_subclass(Tensor)
            self.put(plain, x.valid_grid(plain))
            aliases.append((plain, x))
            return plain
        return type(x)(self._take_in(part, aliases) for part in x) if type(x) in (tuple, list) else x

    def clear(self) -> None:
        """Forget all grids."""
        self._entries.clear()

    def put_quantized(self, y: Tensor, args: tuple[Any, ...]) -> None:
        """Record the grid of `y`, which `intact::fake_quantize` computed from `args`."""
        if y.dtype == torch.float32:
            self.put(y, grid_of(*args))

    def put_moved(
        self, name: str, result: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> None:
        """Record the grid of the results of `func`, which only moves elements of `args`."""
        joined = name in _JOINS
        grids = [self.of(x) for x in (args[0] if joined else args[:1])]
        reach = max((grid.reach for grid in grids if grid is not None), default=0)
        if not grids or None in grids or (name == "pad" and not _pads_zeros(*args[1:], **kwargs)):
            return
        scales = [grid.scale for grid in grids if grid is not None]
        if _is_one_scale(scales):
            moved: Any = scales[0]
        elif joined or name in _KEEPS_NUMBERS:
            tensors = args[0] if joined else args[:1]
            spread = [scale.expand(x.shape) for scale, x in zip(scales, tensors, strict=True)]
            moved = func(spread if joined else spread[0], *args[1:], **kwargs)
        else:
            return
        results = result if isinstance(result, (tuple, list)) else (result,)
        each = moved if isinstance(moved, (tuple, list)) else (moved,) * len(results)
        for y, scale in zip(results, each, strict=True):
            if isinstance(y, Tensor) and y.dtype == torch.float32:
                self.put(y, TensorGrid(_narrow_scales(scale), reach))


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else version_of(x)


def _is_one_scale(scales: list[Tensor]) -> bool:
    """Return whether tensors have one scale together, for all their elements."""
    return all(not scale.dim() and torch.equal(scale, scales[0]) for scale in scales)


def _narrow_scales(scales: Tensor) -> Tensor:
    """Return scales with a size of 1 along the axes on which they are the same; 0-D where all are."""
    for axis in range(scales.dim()):
        first = scales.narrow(axis, 0, 1)
        if scales.shape[axis] > 1 and bool((scales == first).all()):
            scales = first
    return scales.reshape(()) if scales.numel() == 1 else scales


def _pads_zeros(pad: Any = (), mode: str = "constant", value: float | None = None) -> bool:
    return mode != "constant" or not value


_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_KEEPS_NUMBERS = frozenset({
    "H", "T", "broadcast_to", "chunk", "clone", "contiguous", "detach", "expand", "expand_as", "flatten",
    "flip", "float", "getitem", "index_select", "mH", "mT", "moveaxis", "movedim", "narrow", "permute",
    "ravel", "repeat", "reshape", "reshape_as", "roll", "select", "split", "split_with_sizes", "squeeze",
    "swapaxes", "swapdims", "t", "tensor_split", "tile", "to", "transpose", "unbind", "unflatten",
    "unsqueeze", "view", "view_as",
})  # fmt: skip
"""Functions that move scales as they move the numbers that these multiply."""

MOVES = _JOINS | _KEEPS_NUMBERS | frozenset({
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "atleast_2d", "atleast_3d",
    "channel_shuffle", "diagonal",
    "dropout", "gather", "index", "max_pool1d", "max_pool2d", "max_pool3d", "pad", "pixel_shuffle",
    "pixel_unshuffle", "repeat_interleave", "rot90", "take_along_dim", "unfold", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "upsample_nearest_exact1d", "upsample_nearest_exact2d",
    "zero_pad",
})  # fmt: skip
"""Functions whose every result element is an operand's element, or 0, by the names of `function_of`."""

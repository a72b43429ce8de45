"""One evaluation of a plan in plain NumPy: the tensors so far, codes and floats read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.sizes import resolve_size
from intact.engine.steps.base.tensors import Codes, Tensor
from intact.errors import QuantValueError


class Run:
    """One evaluation.

    Attributes:
        tensors, constants: Of the plan.
        arrays: The tensors so far, by name.
        sizes: What the named dimensions turned out to be.
        loose: Tensors whose sizes may differ from what the plan says.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        constants: Mapping[str, NDArray[Any]],
        loose: frozenset[str] = frozenset(),
    ) -> None:
        self.tensors, self.constants, self.loose = tensors, constants, loose
        self.arrays: dict[str, NDArray[np.generic]] = {}
        self.sizes: dict[str, int] = {}

    def bind(self, name: str, array: NDArray[np.generic]) -> None:
        """Store a tensor, and learn the sizes of its named dimensions."""
        shape = self.tensors[name].shape
        fits = len(shape) == array.ndim
        for dim, size in zip(shape, array.shape, strict=False):
            want = resolve_size(dim, size, self.sizes) if isinstance(dim, str) else dim
            fits &= want == size or name in self.loose
        if not fits:
            raise QuantValueError(
                f"tensor '{name}'", f"shape {array.shape} with {self.sizes}", f"shape {shape}",
                "give inputs of the shapes that the model was made for",
            )  # fmt: skip
        self.arrays[name] = np.asarray(array)  # NumPy makes numbers of arrays without axes

    def partial_shape(self, name: str) -> tuple[int | None, ...]:
        """Return a tensor's shape by the plan; None where a named dimension is not known yet."""
        return self.tensors[name].partial_shape(self.sizes)

    def grid(self, name: str) -> Codes | None:
        """Return the grid of a tensor of codes; None for others and for constants."""
        tensor = self.tensors.get(name)
        return None if tensor is None else tensor.codes

    def codes(self, name: str) -> Codes:
        """Return the grid of a tensor that must hold codes."""
        grid = self.grid(name)
        assert grid is not None, f"the plan was checked: '{name}' has codes"
        return grid

    def array(self, name: str) -> NDArray[Any]:
        """Return a tensor, or a constant."""
        return self.arrays[name] if name in self.arrays else self.constants[name]

    def real(self, name: str) -> NDArray[Any]:
        """Return a tensor or constant in floats: codes are dequantized."""
        array, grid = self.array(name), self.grid(name)
        if grid is None:
            return array
        return numerics.dequantize(array, np.float32(grid.scale), grid.zero_point, grid.spec)

    def write_codes(self, name: str, codes: NDArray[np.int32]) -> None:
        """Store codes in the dtype of their grid."""
        grid = self.codes(name)
        assert codes.size == 0 or (codes.min() >= grid.low and codes.max() <= grid.high), name
        self.bind(name, codes.astype(np.int8 if grid.signed else np.uint8))

    def write_real(self, name: str, floats: NDArray[Any]) -> None:
        """Store floats, quantized where the tensor has codes; a NaN becomes the lowest of them (N16)."""
        grid = self.grid(name)
        if grid is None:
            self.bind(name, floats)
        else:
            scale = np.float32(grid.scale)
            is_nan = np.isnan(floats)
            numbers = np.where(is_nan, np.zeros((), floats.dtype), floats)
            codes = numerics.quantize(numbers, scale, grid.zero_point, grid.spec)
            self.write_codes(name, np.where(is_nan, np.int32(grid.low), codes))

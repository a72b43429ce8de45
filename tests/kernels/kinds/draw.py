"""Random operands of one step: floats and codes, with what is no number among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.one_step import Case, one_step

from intact.engine.steps import Codes, Step

SIGNED = Codes(0.05, -3, True, -128, 127)
UNSIGNED = Codes(0.03, 17, False, 0, 255)
POSITIVE = Codes(0.04, 0, False, 0, 127)
SPECIAL = np.array(
    [0, -0.0, 1e-45, -1e-45, 1e-39, -87.4, -103.9, -104, -105, 88.7, 88.73, 0.625, 0.9, 6, -6, 3e38, -3e38,
     65536, 65537, -1e9, 2.0**127, 0.7853982, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
"""Floats at the edges of functions, of codes and of float32."""


class Draw:
    """The tensors and constants of one step, as they are drawn.

    Attributes:
        rng: The source.
        feeds, grids, dtypes, constants: As `one_step` takes them.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.feeds: dict[str, NDArray[Any]] = {}
        self.grids: dict[str, Codes] = {}
        self.dtypes: dict[str, str] = {}
        self.constants: dict[str, NDArray[Any]] = {}

    def case(self, step: Step | Sequence[Step]) -> Case:
        """The plan of a step of these, evaluated."""
        return one_step(step, self.feeds, grids=self.grids, dtypes=self.dtypes, **self.constants)

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *choices: Any) -> Any:
        """One of them."""
        return choices[self.rng.integers(len(choices))]

    def chance(self, share: float = 0.5) -> bool:
        """Return whether something happens that happens so often."""
        return bool(self.rng.random() < share)

    def shape(self, least: int = 1, most: int = 4, size: int = 9) -> tuple[int, ...]:
        """Sizes of `least` to `most` axes; now and then one is long, or 0."""
        sizes = [self.integer(1, size) for _ in range(self.integer(least, most))]
        if sizes and self.chance(0.3):
            sizes[self.integer(0, len(sizes) - 1)] = self.pick(0, 15, 17, 33, 64, 130)
        return tuple(sizes)

    def smaller(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes that broadcast to `shape`."""
        start = self.integer(0, len(shape)) if self.chance(0.4) else 0
        return tuple(n if self.chance(0.7) else 1 for n in shape[start:])

    def grid(self) -> Codes:
        """A grid of which all codes occur, or those from 0 to 127."""
        scale = float(np.float32(self.pick(0.05, 1.0, 0.0390625, self.rng.uniform(0.01, 2))))
        signed = self.chance()
        low, high = (-128, 127) if signed else (0, self.pick(127, 255, 255))
        return Codes(scale, self.pick(low, high, 0, self.integer(low, high)), signed, low, high)

    def codes(self, name: str, shape: tuple[int, ...], grid: Codes | None = None) -> str:
        """An input of codes; one in four is at the ends of its grid."""
        grid = grid or self.grid()
        codes = self.rng.integers(grid.low, grid.high + 1, shape)
        if self.chance(0.25):
            codes = np.where(self.rng.random(shape) < 0.5, grid.low, grid.high)
        self.grids[name] = grid
        self.feeds[name] = codes.astype(np.int8 if grid.signed else np.uint8)
        return name

    def floats(self, name: str, shape: tuple[int, ...], spread: float = 3.0, special: float = 0.0) -> str:
        """An input of floats, of which a share is `SPECIAL`."""
        x = self.rng.standard_normal(shape) * spread
        x = np.where(self.rng.random(shape) < special, self.rng.choice(SPECIAL, shape), x)
        self.feeds[name] = x.astype(np.float32)
        return name

    def real(self, name: str, shape: tuple[int, ...], special: float = 0.05) -> str:
        """An input of floats or of codes, for a step that computes in floats."""
        return self.codes(name, shape) if self.chance() else self.floats(name, shape, special=special)

    def numbers(self, name: str, shape: tuple[int, ...], dtype: str) -> str:
        """An input of small numbers, so that some are equal, of any dtype."""
        x = self.rng.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype)
        if np.dtype(dtype).kind == "f":
            x = np.where(self.rng.random(shape) < 0.1, np.nan, x).astype(dtype)
        self.feeds[name] = x
        return name

    def index(self, name: str, shape: tuple[int, ...], size: int) -> str:
        """An input of places of an axis, some from its end."""
        low, high = (-size, size) if size else (0, 1)
        index = self.rng.integers(low, high, shape if size else (0,) * len(shape))
        self.feeds[name] = index.astype(self.pick(np.int32, np.int64))
        return name

    def output(self, name: str = "y", dtype: str | None = None) -> str:
        """Name the output of a step: of a dtype, or floats or codes."""
        if dtype is not None:
            self.dtypes[name] = dtype
        elif self.chance():
            grid = self.grid()
            self.grids[name] = Codes(
                grid.scale, grid.zero_point, grid.signed, grid.low, 127 if grid.signed else 255
            )
        return name

    def output_codes(self, name: str = "y", scale: float | None = None) -> str:
        """Codes that a step makes, of a grid of its own."""
        grid = self.grid()
        high = 127 if grid.signed else 255
        self.grids[name] = Codes(scale or grid.scale, grid.zero_point, grid.signed, grid.low, high)
        return name

    def constant(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        """A constant."""
        self.constants[name] = np.asarray(values, dtype)
        return name

    def window(self, most: int = 4) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int]]:
        """Strides, dilations and pads of a window; its kernel, and the size of an image that it fits."""
        kernel = self.integer(1, most), self.integer(1, most)
        dilations = self.pick((1, 1), (1, 1), (2, 1), (1, 3), (2, 2))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = tuple(self.integer(0, r - 1) if self.chance() else 0 for r in reach * 2)
        sizes = [max(1, r - pads[i] - pads[i + 2]) + self.integer(0, 9) for i, r in enumerate(reach)]
        strides = self.pick((1, 1), (1, 1), (2, 2), (1, 2), (3, 1))
        return (
            {"strides": strides, "dilations": dilations, "pads": pads},
            (kernel[0], kernel[1]),
            (sizes[0], sizes[1]),
        )

"""Convolutions of codes with any epilogue, for random cases and for those at the edges of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.one_step import Case, one_step

from intact.engine.steps import Codes, Conv, Epilogue
from intact.engine.steps.elements.split_quantize import split_codes

BYTES = Codes(1.0, 0, False, 0, 255)


@dataclass
class Layer:
    """A convolution of bytes, or of codes of 16 bits.

    Attributes:
        x: [n, c, h, w], uint8; uint16: its high and its low bytes are two inputs.
        weight: int8 [out, kernel_h, kernel_w, c / groups].
        zero, high: The code that means 0, and the largest code of the input.
        window: Strides, dilations, pads and groups.
        multiplier, bias, integer_bias: Constants of the epilogue: by default such that codes spread.
        channels: More constants of the epilogue by their field, a number for each channel.
        options: More fields of the epilogue.
        y: The grid of the output; None: floats.
        residual: Codes that are added, of the output's sizes.
        shift: Of joined sums of 16 bits.
    """

    x: NDArray[Any]
    weight: NDArray[np.int8]
    zero: int = 0
    high: int = 255
    window: dict[str, Any] = field(default_factory=dict)
    multiplier: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None
    integer_bias: NDArray[np.int32] | None = None
    channels: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    y: Codes | None = BYTES
    residual: NDArray[np.uint8] | None = None
    residual_zero: int = 0
    shift: int = 0

    def __post_init__(self) -> None:
        out = len(self.weight)
        spread = np.float32(1 / (64 * np.sqrt(self.weight[:1].size) * 40))
        if self.multiplier is None:
            self.multiplier = (spread * (1 + np.arange(out) % 3)).astype(np.float32)
        if self.bias is None:
            self.bias = np.linspace(-9, 40, out).astype(np.float32)
        if self.integer_bias is None:
            self.integer_bias = (np.arange(out) * 37 % 1001 - 500).astype(np.int32)

    def with_residual(self, rng: np.random.Generator, multiplier: float = 0.37, zero: int = 128) -> Layer:
        """The same plus random codes."""
        shape = self.case().want["y"].shape
        codes = rng.integers(0, 256, shape).astype(np.uint8)
        options = {**self.options, "residual_multiplier": float(np.float32(multiplier))}
        return replace(self, residual=codes, residual_zero=zero, options=options)

    def case(self) -> Case:
        """The plan of this layer alone, evaluated."""
        constants = {"w": self.weight, "m": self.multiplier, "b": self.bias, "ib": self.integer_bias}
        constants |= self.channels
        names = {name: name for name in self.channels}
        residual = "" if self.residual is None else "r"
        epilogue = Epilogue("m", "b", "ib", residual, **names, **self.options)
        low = "low" if self.x.dtype == np.uint16 else ""
        step = Conv("conv", (), "x", "y", "w", epilogue, **self.window, low=low, shift=self.shift)
        feeds = {"x": self.x}
        grids = {"x": Codes(0.05, self.zero, False, 0, self.high)}
        if low:
            feeds = {"x": (self.x >> 8).astype(np.uint8), "low": (self.x & 255).astype(np.uint8)}
            grids = dict(zip(("x", "low"), split_codes("uint16", 2.0**-10, self.zero), strict=True))
        if self.residual is not None:
            feeds["r"], grids["r"] = self.residual, Codes(1.0, self.residual_zero, False, 0, 255)
        if self.y is not None:
            grids["y"] = self.y
        return one_step(step, feeds, grids=grids, **constants)


WEIGHTS = {
    "random": lambda rng, shape: rng.integers(-127, 128, shape),
    "gaussian": lambda rng, shape: np.clip(np.rint(rng.normal(0, 32, shape)), -127, 127),
    "all 127": lambda rng, shape: np.full(shape, 127),
    "all -128": lambda rng, shape: np.full(shape, -128),
    "alternating": lambda rng, shape: np.where(np.indices(shape).sum(0) % 2, 127, -128),
    "zero": lambda rng, shape: np.zeros(shape),
    "small, large": lambda rng, shape: (
        np.where(np.arange(shape[0]) % 32 < 16, 9, 127)[:, None, None, None] * rng.integers(-1, 2, shape)
    ),
}


def layer(
    rng: np.random.Generator, *, n: int = 1, c: int = 8, h: int = 5, w: int = 6, out: int = 16,
    kernel: tuple[int, int] = (3, 3), high: int = 255, weights: str = "random", **more: Any,
) -> Layer:  # fmt: skip
    """A layer of random bytes, most the largest where weights are extreme; c and out are of a group."""
    groups = more.get("window", {}).get("groups", 1)
    x = rng.integers(0, high + 1, (n, c * groups, h, w)).astype(np.uint8)
    if weights.startswith("all") or weights == "alternating":
        x[:] = np.where(rng.random(x.shape) < 0.9, high, x)
    weight = WEIGHTS[weights](rng, (out * groups, *kernel, c)).astype(np.int8)
    return Layer(x, weight, high=high, **more)


def widen(narrow: Layer, rng: np.random.Generator, zero: int) -> Layer:
    """The same of codes of 16 bits: any, and weights as large as their sums in int32 let them be."""
    shape = narrow.x.shape
    ends = rng.choice(np.array([0, 255, 256, 65535], np.uint16), shape)
    x = np.where(rng.random(shape) < 0.3, ends, rng.integers(0, 65536, shape).astype(np.uint16))
    assert narrow.integer_bias is not None and narrow.multiplier is not None
    room = 2**31 - 1 - int(np.abs(narrow.integer_bias).max())
    sums = np.abs(narrow.weight.astype(np.int64)).sum(axis=(1, 2, 3)) * max(zero, 65535 - zero)
    shrink = np.maximum(sums / room, 1.0)[:, None, None, None]
    weight = np.trunc(narrow.weight / shrink).astype(np.int8)
    return replace(
        narrow, x=x, zero=zero, high=255, weight=weight, multiplier=narrow.multiplier / np.float32(256)
    )

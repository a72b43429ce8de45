"""Base of random graphs: values with their sizes, grids at their ends, odd weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper
from tests.engine.conftest import Qdq

T = TypeVar("T")
ENDS = {
    "int8": (-128, -127, -1, 0, 1, 126, 127), "uint8": (0, 1, 127, 128, 254, 255),
    "int16": (-32768, -32767, -129, -1, 0, 1, 32767), "uint16": (0, 1, 255, 32768, 65534, 65535),
}  # fmt: skip
WILD = (1e-38, 1e-30, 1e-12, 1e-6, 40.0, 1e4, 1e12, 1e30, 3e38)
"""Scales that no calibration gives: what they mean is exact in integers, and beyond float sums."""


@dataclass(frozen=True)
class Grid:
    """Parameters of a pair."""

    scale: float
    zero: int
    dtype: str


@dataclass(frozen=True)
class Real:
    """A float value of the graph.

    Attributes:
        name: Its name.
        sizes: For the main set of inputs; the first one is free where there is a batch.
        spread: About how far its elements reach.
        grid: Of the DequantizeLinear that makes it; None: it is computed.
    """

    name: str
    sizes: tuple[int, ...]
    spread: float = 1.0
    grid: Grid | None = None

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def empty(self) -> bool:
        return 0 in self.sizes


class Impossible(Exception):
    """A step that the values at hand do not allow."""


class Net(Qdq):
    """A graph that grows step by step; the numbers of a step depend on the seed and its index alone.

    Attributes:
        floats: The float values so far.
        wild: Whether scales may be of any size: then nothing is promised of float evaluations.
        off: Features that are left out.
        undeclared: Floats that operators make which ONNX does not know.
    """

    def __init__(self, opset: int, wild: bool, off: frozenset[str]) -> None:
        super().__init__(opset)
        self.wild, self.off = wild, off
        self.floats: list[Real] = []
        self.undeclared: list[str] = []

    # -- choices

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def upto(self, n: int) -> int:
        """0 to n, both included."""
        return int(self.rng.integers(n + 1))

    def real(self, *ranks: int, grid: bool = False) -> Real:
        """A value of one of these ranks, the last ones more often; with `grid` one that comes as codes."""
        candidates = [r for r in self.floats if (not ranks or r.rank in ranks) and (r.grid or not grid)]
        if not candidates:
            raise Impossible
        return candidates[-1 - min(int(self.rng.geometric(0.5)) - 1, len(candidates) - 1)]

    def like(self, sizes: tuple[int, ...], other: Real | None = None) -> Real:
        """A value of these sizes, not `other` where there is another one."""
        candidates = [r for r in self.floats if r.sizes == sizes]
        if not candidates:
            raise Impossible
        return self.pick([r for r in candidates if r is not other] or candidates)

    # -- nodes

    def add_value(self, name: str, sizes: Sequence[int], spread: float, grid: Grid | None = None) -> Real:
        """A value that a node has made; it is not offered to other steps yet."""
        return Real(name, tuple(int(n) for n in sizes), float(np.clip(spread, 1e-6, 1e6)), grid)

    def keep(self, real: Real) -> Real:
        """Offer a value to the steps that follow."""
        self.floats.append(real)
        return real

    def foreign_node(
        self, domain: str, op_type: str, *inputs: str, sizes: Sequence[Sequence[int]], **attributes: Any
    ) -> list[str]:
        """A node of another domain, whose outputs are floats of these sizes, the first one free.

        Shape inference of ONNX does not know it. Half of the time a Cast and a Reshape say what it makes.
        """
        self.domains[domain] = 1
        outputs = self.node(op_type, *inputs, outputs=len(sizes), domain=domain, **attributes)
        outputs = [outputs] if len(sizes) == 1 else outputs
        if self.chance(0.5):
            self.undeclared += outputs
            return [str(name) for name in outputs]
        casts = [self.node("Cast", name, to=TensorProto.FLOAT) for name in outputs]
        return [
            str(self.node("Reshape", name, self.ints(-1, *shape[1:])))
            for name, shape in zip(casts, sizes, strict=True)
        ]

    def value_info(self) -> list[onnx.ValueInfoProto]:
        """Return types of what operators make that ONNX does not know."""
        outputs = {name for node in self.nodes for name in node.output}
        names = [name for name in dict.fromkeys(self.undeclared) if name in outputs]
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]

    def number(self, value: float, rank: int = 0) -> str:
        return self.constant(np.full((1,) * rank, value, np.float32))

    def grid(self, spread: float) -> Grid:
        """A grid: its zero point at an end more often than not, its scale in proportion or at a tie."""
        dtype = self.pick(["int8", "int8", "uint8"])
        if self.opset >= 21 and self.chance(0.1):
            dtype = self.pick(["int16", "uint16"])
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        how = self.rng.random()
        zero = (
            0
            if how < 0.25
            else self.pick(ENDS[dtype])
            if how < 0.65
            else int(self.rng.integers(low, high + 1))
        )
        scale = spread * self.rng.uniform(0.7, 4.0) / max(high - zero, zero - low)
        if self.chance(0.2):
            scale = 2.0 ** np.round(np.log2(scale))
        if self.wild and self.chance(0.2):
            scale = self.pick(WILD)
        return Grid(float(np.float32(scale)), zero, dtype)

    def add_pair(self, real: Real, grid: Grid | None = None) -> Real:
        """A Q/DQ pair behind a value; seldom the DQ says something else than the Q."""
        grid = grid or (real.grid if real.grid and self.chance(0.3) else None) or self.grid(real.spread)
        codes = self.quantize(real.name, grid.scale, grid.zero, grid.dtype)
        if self.chance(0.03):
            zero = self.pick(ENDS[grid.dtype])
            grid = Grid(grid.scale * self.pick([0.5, 1.0, 1.25]), zero, grid.dtype)
        name = self.dequantize(codes, grid.scale, grid.zero, grid.dtype)
        limits = np.iinfo(grid.dtype)
        reach = (int(limits.max) - int(limits.min)) * grid.scale
        spread = min(real.spread, reach) if not self.wild else real.spread
        return self.add_value(name, real.sizes, spread, grid)

    def end(self, real: Real, p: float = 0.85) -> Real:
        """End a step: codes mostly, floats sometimes, now and then both, or two kinds of codes."""
        if not self.chance(p):
            return self.keep(real)
        if self.chance(0.05):
            self.keep(real)
        if self.chance(0.04):
            self.keep(self.add_pair(real))
        return self.keep(self.add_pair(real))

    # -- constants

    def weights(self, shape: Sequence[int], axis: int | None) -> tuple[str, float]:
        """A weight behind a DequantizeLinear, output channels along `axis`; and its typical magnitude."""
        per_channel = axis is not None and self.chance(0.6)
        dtype = self.pick(["int8", "int8", "int8", "uint8"])
        codes, zero = self._codes(shape, axis, dtype)
        count = (shape[axis],) if per_channel and axis is not None else ()
        scale = self.rng.uniform(0.002, 0.02, count).astype(np.float32)
        if self.chance(0.2):
            scale = np.full(count, 2.0**-7, np.float32)
        if self.wild and self.chance(0.15):
            scale = np.where(self.rng.random(count) < 0.5, scale, np.float32(self.pick(WILD))).astype(
                np.float32
            )
        along = {} if not per_channel else {"axis": axis if self.chance(0.7) else axis - len(shape)}
        points = np.full(count, zero, dtype)
        if self.chance(0.1):  # as exporters that quantize when they are asked to: a float weight, Q and DQ
            wide = [-1 if i == axis else 1 for i in range(len(shape))] if per_channel else [1] * len(shape)
            floats = (codes.astype(np.float32) - zero) * scale.reshape(wide if per_channel else ())
            names = self.constant(scale), self.constant(points)
            stored = str(
                self.node("QuantizeLinear", self.constant(floats.astype(np.float32)), *names, **along)
            )
        else:
            names, stored = (self.constant(scale), self.constant(points)), self.constant(codes)
        inputs = names if zero or dtype == "uint8" or self.chance(0.7) else names[:1]
        result = str(self.node("DequantizeLinear", stored, *inputs, **along))
        typical = float(np.abs(codes.astype(float) - zero).mean() if codes.size else 1.0) * float(
            np.median(scale) if scale.size else 1.0
        )
        return result, max(typical, 1e-4)

    def _codes(self, shape: Sequence[int], axis: int | None, dtype: str) -> tuple[np.ndarray, int]:
        """Codes of a weight and their zero point: random ones, and those at the ends."""
        limits = np.iinfo(dtype)
        low, high = limits.min, limits.max
        zero = 0 if dtype == "int8" else 128
        if self.chance(0.1):
            zero += self.pick([-1, 1, -100, 100] if self.chance(0.5) else [3])
            low, high = max(low, zero - 128), min(high, zero + 127)
        codes = self.rng.integers(low, high + 1, tuple(shape))
        how = self.rng.random()
        if how < 0.06:
            codes[...] = high
        elif how < 0.12:
            codes[...] = low
        elif how < 0.15:
            codes[...] = zero
        elif how < 0.25:
            codes = np.where(self.rng.random(codes.shape) < 0.5, low, high)
        elif how < 0.45:
            codes = np.clip(zero + np.round(self.rng.standard_normal(codes.shape) * 12), low, high)
        elif how < 0.6 and axis is not None and codes.size:
            dead = [slice(None)] * len(shape)
            dead[axis] = int(self.rng.integers(shape[axis]))
            codes[tuple(dead)] = zero
        return codes.astype(dtype), zero

    def bias(self, channels: int, x: Real, weight: str, spread: float) -> tuple[str, ...]:
        """The third input of a layer, or none: floats, or int32 codes in the scale of the sums."""
        how = self.rng.random()
        if how < 0.25:
            return ()
        if how < 0.75 or x.grid is None:
            return (self.floats_of((channels,), spread),)
        node = next(n for n in self.nodes if n.output[0] == weight)
        scale = next(c for c in self.constants if c.name == node.input[1])
        from onnx import numpy_helper

        scale_x = np.float32(x.grid.scale)
        sums = np.asarray(scale_x * numpy_helper.to_array(scale), np.float32)
        if sums.ndim and sums.size != channels:
            return ()  # a transposed convolution with groups
        reach = self.pick([100, 10_000, 2**24 + 1]) if self.chance(0.9) else 2**31 - 1
        codes = self.rng.integers(-reach, reach + 1, channels).astype(np.int32)
        if not self.wild:
            top = spread * 4 / max(float(sums.min()) if sums.size else 1.0, 1e-30)
            codes = np.clip(codes, -min(top, 2e9), min(top, 2e9)).astype(np.int32)
        along: dict[str, Any] = {"axis": 0} if sums.ndim else {}
        zero = () if self.chance(0.5) else (self.constant(np.zeros(sums.shape, np.int32)),)
        return (
            str(self.node("DequantizeLinear", self.constant(codes), self.constant(sums), *zero, **along)),
        )

    def floats_of(self, shape: Sequence[int], spread: float) -> str:
        """Random float constants."""
        return self.constant((self.rng.standard_normal(tuple(shape)) * spread * 0.5).astype(np.float32))

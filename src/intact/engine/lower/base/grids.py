"""The grids of Q/DQ nodes, as far as native steps know them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps import Codes
from intact.engine.steps.elements.fake_quantize import FORMATS
from intact.graph import Constants, Node, Value, is_op
from intact.numerics import Affine
from intact.spec import INT8, UINT8, QuantSpec

_FORMATS = {"INT8": True, "UINT8": False}
_WIDE = tuple(name.upper() for name in FORMATS)


@dataclass(frozen=True)
class Grid:
    """int8 or uint8 codes with one scale and one zero point."""

    scale: float
    zero_point: int
    signed: bool

    @property
    def spec(self) -> QuantSpec:
        """The grid as `numerics` wants it."""
        return QuantSpec(INT8 if self.signed else UINT8, symmetric=self.zero_point == 0)

    @property
    def affine(self) -> Affine:
        """(scale, zero_point)."""
        return np.float32(self.scale), self.zero_point

    def codes(self, low: int | None = None, high: int | None = None) -> Codes:
        """Return the codes of a tensor that stay within [low, high]."""
        least, most = int(self.spec.qmin), int(self.spec.qmax)
        return Codes(
            self.scale, self.zero_point, self.signed,
            least if low is None else max(low, least), most if high is None else min(high, most),
        )  # fmt: skip

    @classmethod
    def of(cls, codes: Codes) -> Grid:
        """Return the grid of a tensor of codes."""
        return cls(codes.scale, codes.zero_point, codes.signed)


@dataclass(frozen=True)
class FloatGrid:
    """A grid that floats are brought to: nothing computes with its codes (N56).

    Attributes:
        format: One of `FakeQuantize`'s.
        scale, zero_point: One of each.
    """

    format: str
    scale: float
    zero_point: int


class Grids:
    """The grids of a graph's Q/DQ nodes; None for those that are not native."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._known: dict[Node, Grid | FloatGrid | None] = {}

    def of(self, node: Node) -> Grid | None:
        """Return the grid of a QuantizeLinear or DequantizeLinear where kernels compute with its codes."""
        grid = self.any_of(node)
        return grid if isinstance(grid, Grid) else None

    def any_of(self, node: Node) -> Grid | FloatGrid | None:
        """Return the grid of a QuantizeLinear or DequantizeLinear, of codes or of floats that lie on it."""
        if node not in self._known:
            self._known[node] = self._read(node)
        return self._known[node]

    def float_pair(self, node: Node | None) -> tuple[Node, FloatGrid] | None:
        """Return the QuantizeLinear in front of a DequantizeLinear, and their grid, where floats are rounded
        to it.

        None where there is no such pair.
        """
        if node is None or not is_op(node, "DequantizeLinear") or node.inputs[0] is None:
            return None
        above, grid = node.inputs[0].producer(), self.any_of(node)
        if above is None or not is_op(above, "QuantizeLinear") or not isinstance(grid, FloatGrid):
            return None
        return (above, grid) if self.any_of(above) == grid else None

    def _read(self, node: Node) -> Grid | FloatGrid | None:
        codes = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
        dtype = codes.dtype.name if codes is not None and codes.dtype is not None else ""
        scale = self._one(node.inputs[1])
        zero = node.inputs[2] if len(node.inputs) > 2 else None
        zero_point = 0.0 if zero is None else self._one(zero)
        if scale is None or zero_point is None or not 0 < scale < np.inf:
            return None
        if dtype in _WIDE:
            return FloatGrid(dtype.lower(), scale, int(zero_point))
        return Grid(scale, int(zero_point), _FORMATS[dtype]) if dtype in _FORMATS else None

    def _one(self, value: Value | None) -> float | None:
        array = self._constants(value)
        return float(np.float32(array.reshape(-1)[0])) if array is not None and array.size == 1 else None

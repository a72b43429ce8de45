"""Records of operators that only move elements, so that codes pass through them as floats do.

Guards, `computes`, say under which attributes and constants one of them does more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.ops.record import Kind, Look, Operator
from intact.graph.ops.window import Windowed

_LOWEST = float(np.finfo(np.float32).min)


class Move(Operator, shared=True):
    """Passes elements of its first input on: all or some, once or often."""

    kind: ClassVar[Kind] = "move"
    exact: ClassVar[bool] = True


class Rearrangement(Move, shared=True):
    """Passes each element on exactly once."""

    keeps_all: ClassVar[bool] = True


@dataclass(frozen=True)
class Flatten(Rearrangement):
    axis: int = 1


class Identity(Rearrangement):
    pass


@dataclass(frozen=True)
class Reshape(Rearrangement):
    """Inputs: data, sizes."""

    allowzero: int = 0


@dataclass(frozen=True)
class Squeeze(Rearrangement):
    """Inputs: data, axes."""

    axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Unsqueeze(Rearrangement):
    """Inputs: data, axes."""

    axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Transpose(Rearrangement):
    perm: tuple[int, ...] | None = None

    def order(self, rank: int) -> tuple[int, ...]:
        """Return the axis of the input that each axis of the output is.

        Raises:
            FileFormatError: `perm` is not one of `rank` axes.
        """
        if self.perm is not None and sorted(self.perm) != list(range(rank)):
            raise FileFormatError("Transpose: attribute 'perm'", f"{self.perm}"[:80],
                                  f"{rank} axes, each once", "export the model again")  # fmt: skip
        return tuple(reversed(range(rank))) if self.perm is None else self.perm


@dataclass(frozen=True)
class DepthToSpace(Rearrangement):
    blocksize: int = 1
    mode: str = "DCR"


@dataclass(frozen=True)
class SpaceToDepth(Rearrangement):
    blocksize: int = 1
    mode: str = "DCR"


@dataclass(frozen=True)
class Concat(Move):
    """Joins all inputs side by side: they share one scale where codes pass."""

    data: ClassVar[tuple[int, ...] | None] = None
    axis: int = 0


@dataclass(frozen=True)
class Split(Move):
    """Inputs: data, sizes."""

    axis: int = 0
    num_outputs: int | None = None


class Slice(Move):
    """Inputs: data, starts, ends, axes, steps."""


@dataclass(frozen=True)
class Gather(Move):
    """Inputs: data, indices."""

    axis: int = 0


@dataclass(frozen=True)
class GatherElements(Move):
    """Inputs: data, indices."""

    axis: int = 0


@dataclass(frozen=True)
class GatherND(Move):
    """Inputs: data, indices."""

    batch_dims: int = 0


@dataclass(frozen=True)
class Scattered(Move, shared=True):
    """Inputs: data, indices, updates, which are written into the data: one scale where codes pass."""

    data: ClassVar[tuple[int, ...] | None] = (0, 2)
    reduction: str = "none"

    @property
    def is_exact(self) -> bool:
        """Sums and products of several updates have no order."""
        return self.reduction in ("none", "max", "min")

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why a scatter makes new values: it combines updates with the data."""
        return "" if self.reduction == "none" else f"it makes numbers of two ({self.reduction})"


@dataclass(frozen=True)
class ScatterElements(Scattered):
    axis: int = 0


class ScatterND(Scattered):
    pass


class Expand(Move):
    """Inputs: data, sizes."""


class Tile(Move):
    """Inputs: data, repeats."""


@dataclass(frozen=True)
class Pad(Move):
    """Inputs: data, pads, fill, axes. `value` is the fill before opset 11."""

    mode: str = "constant"
    value: float = 0.0
    pads: tuple[int, ...] | None = None

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why a Pad makes new values: its fill is no 0, which alone every grid has.

        Modes edge, reflect and wrap copy.

        What is below all numbers is not seen where MaxPools alone read it.
        """
        if self.mode != "constant":
            return ""
        fill = self.fill(node, constants)
        if fill is None:
            return "it pads with a value that is computed"
        if fill == 0 or (fill <= _LOWEST and _only_maxima(node.outputs[0])):
            return ""
        return f"it pads with {fill:g}, which is no code of every grid; 0 is"

    def fill(self, node: ir.Node, constants: Look) -> float | None:
        """Return the number that it fills with; None where that is computed, or the mode is another."""
        if self.mode != "constant":
            return None
        fill_value = node.inputs[2] if len(node.inputs) > 2 else None
        if fill_value is None:
            return self.value
        array = constants(fill_value)
        if array is None:
            return None
        return float(array.reshape(-1)[0]) if array.size else 0.0

    def sides(self, node: ir.Node, constants: Look, rank: int) -> list[tuple[int, int]] | None:
        """Return the elements added in front of and behind each of `rank` axes, from opset 13 on.

        Negative numbers are removed. None where the pads are computed, or are not two numbers for an axis.
        """
        _, pads_value, _, places = (*node.inputs, None, None)[:4]
        pads, axes = constants(pads_value), np.arange(rank) if places is None else constants(places)
        if pads is None or axes is None or pads.size != 2 * axes.size:
            return None
        all_sides = [(0, 0)] * rank
        for axis, before, behind in zip(axes.reshape(-1), *pads.reshape(2, -1), strict=True):
            if not -rank <= axis < rank:
                return None
            all_sides[int(axis)] = int(before), int(behind)
        return all_sides


def fills_below_all(node: ir.Node, constants: Look) -> bool:
    """Return whether a Pad fills with minus infinity or the lowest number, which is no maximum of
    anything."""
    fill = Pad.of(node).fill(node, constants)
    return fill is not None and fill <= _LOWEST


def _only_maxima(value: ir.Value) -> bool:
    readers = [use.node for use in value.uses()]
    return bool(readers) and not value.is_graph_output() and all(n.op_type == "MaxPool" for n in readers)


@dataclass(frozen=True)
class Resize(Move):
    """Inputs: data, region, scales, sizes; of `axes`, or of all."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    antialias: int = 0
    axes: tuple[int, ...] | None = None
    keep_aspect_ratio_policy: str = "stretch"

    @property
    def is_exact(self) -> bool:
        """The nearest element is a copy."""
        return self.mode == "nearest"

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why a Resize makes new values: it does not take the nearest element."""
        return _interpolates(self.mode)


@dataclass(frozen=True)
class Upsample(Move):
    """The form of Resize before opset 10. Inputs: data, scales."""

    mode: str = "nearest"

    @property
    def is_exact(self) -> bool:
        """The nearest element is a copy."""
        return self.mode == "nearest"

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why an Upsample makes new values: it does not take the nearest element."""
        return _interpolates(self.mode)


def _interpolates(mode: str) -> str:
    return "" if mode == "nearest" else f"it interpolates ({mode}): new values between the codes"


class Dropout(Move):
    """Inputs: data, ratio, whether it trains. Outputs: data, mask."""

    def computes(self, node: ir.Node, constants: Look) -> str:
        """Return why a Dropout makes new values: it trains, or might."""
        fill_value = node.inputs[2] if len(node.inputs) > 2 else None
        trains = np.False_ if fill_value is None else constants(fill_value)
        return "" if trains is not None and not np.any(trains) else "it drops at random"


@dataclass(frozen=True)
class MaxPool(Windowed, Move):
    """The largest element of each window. Outputs: data, indices."""

    picks: ClassVar[bool] = True
    ceil_mode: int = 0
    storage_order: int = 0


class GlobalMaxPool(Move):
    """The largest element of each plane."""

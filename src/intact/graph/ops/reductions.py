"""Records of reductions, comparisons, sorts and Fourier transforms along axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from intact.graph.ops.record import Kind, Look, Operator


@dataclass(frozen=True)
class Reduction(Operator, shared=True):
    """Base of reductions. Inputs: data, axes. Older opsets have `axes` as an attribute."""

    kind: ClassVar[Kind] = "reduction"
    axes: tuple[int, ...] | None = None
    keepdims: int = 1
    noop_with_empty_axes: int = 0

    def axes_of(self, node: ir.Node, constants: Look) -> tuple[int, ...] | None:
        """Return the axes that `node` names, () for none; None where they are computed."""
        axes_value = node.inputs[1] if len(node.inputs) > 1 else None
        if axes_value is None:
            return self.axes or ()
        array = constants(axes_value)
        return None if array is None else tuple(int(axis) for axis in array.reshape(-1))


class ReduceMax(Reduction):
    exact: ClassVar[bool] = True


class ReduceMin(Reduction):
    exact: ClassVar[bool] = True


class ReduceProd(Reduction):
    pass


class ReduceMean(Reduction):
    pass


class ReduceSum(Reduction):
    pass


class ReduceL1(Reduction):
    pass


class ReduceL2(Reduction):
    pass


class ReduceLogSum(Reduction):
    pass


class ReduceLogSumExp(Reduction):
    pass


class ReduceSumSquare(Reduction):
    pass


class Order(Operator, shared=True):
    kind: ClassVar[Kind] = "order"
    exact: ClassVar[bool] = True


@dataclass(frozen=True)
class ArgMax(Order):
    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0


@dataclass(frozen=True)
class ArgMin(Order):
    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0


@dataclass(frozen=True)
class CumSum(Order):
    """Inputs: data, axis."""

    exact: ClassVar[bool] = False
    exclusive: int = 0
    reverse: int = 0


@dataclass(frozen=True)
class TopK(Order):
    """The TopK record. Inputs: data, k. Outputs: the elements, their indices."""

    axis: int = -1
    largest: int = 1
    sorted: int = 1


class NonMaxSuppression(Order):
    """Inputs: boxes, scores, and limits."""

    data: ClassVar[tuple[int, ...] | None] = (0, 1)


class NonZero(Order):
    pass


class Transform(Operator, shared=True):
    kind: ClassVar[Kind] = "reduction"
    data: ClassVar[tuple[int, ...] | None] = None


@dataclass(frozen=True)
class DFT(Transform):
    """Inputs: data, length, axis."""

    inverse: int = 0
    onesided: int = 0


@dataclass(frozen=True)
class STFT(Transform):
    """Inputs: signal, step between frames, window, length of a frame."""

    onesided: int = 1

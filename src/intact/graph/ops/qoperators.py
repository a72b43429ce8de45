"""Records of operators on codes, ONNX's and ONNX Runtime's: each is a float operator between DQ and Q.

Scale and zero point follow each input that holds codes, the output's stand at `written`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from intact.graph.ops.record import Kind, Operator

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class QOperator(Operator, shared=True):
    """Base of all QOperator records.

    Attributes:
        real: The float operator.
        written: Where the scale of the output stands.
        bias: Where int32 codes stand that have the product of the two input scales; None: nowhere.
        plain: Inputs in front of the others that hold no codes.
    """

    kind: ClassVar[Kind] = "quantized"
    domain: ClassVar[str] = MICROSOFT
    real: ClassVar[str]
    written: ClassVar[int] = 3
    bias: ClassVar[int | None] = None
    plain: ClassVar[tuple[int, ...]] = ()
    channels_last: int = 0

    @property
    def factor(self) -> float:
        """By which the product is multiplied."""
        return 1.0

    def scale_axis(self, rank: int) -> int:
        """Return the axis of a weight of `rank` axes along which a vector of scales lies."""
        return rank - 1


class QLinearConv(QOperator):
    domain: ClassVar[str] = ""
    real: ClassVar[str] = "Conv"
    data: ClassVar[tuple[int, ...] | None] = (0, 3)
    written: ClassVar[int] = 6
    bias: ClassVar[int | None] = 8

    def scale_axis(self, rank: int) -> int:
        """Return the axis of the output channels."""
        return 0


class QLinearMatMul(QOperator):
    domain: ClassVar[str] = ""
    real: ClassVar[str] = "MatMul"
    data: ClassVar[tuple[int, ...] | None] = (0, 3)
    written: ClassVar[int] = 6


@dataclass(frozen=True)
class QGemm(QOperator):
    real: ClassVar[str] = "Gemm"
    data: ClassVar[tuple[int, ...] | None] = (0, 3)
    written: ClassVar[int] = 7
    bias: ClassVar[int | None] = 6
    alpha: float = 1.0
    transA: int = 0
    transB: int = 0

    @property
    def factor(self) -> float:
        """By which the product is multiplied."""
        return self.alpha

    def scale_axis(self, rank: int) -> int:
        """Return the axis of the output channels."""
        return 0 if self.transB else rank - 1


class QLinearAdd(QOperator):
    real: ClassVar[str] = "Add"
    data: ClassVar[tuple[int, ...] | None] = (0, 3)
    written: ClassVar[int] = 6


class QLinearMul(QOperator):
    real: ClassVar[str] = "Mul"
    data: ClassVar[tuple[int, ...] | None] = (0, 3)
    written: ClassVar[int] = 6


class QLinearSigmoid(QOperator):
    real: ClassVar[str] = "Sigmoid"


class QLinearLeakyRelu(QOperator):
    real: ClassVar[str] = "LeakyRelu"


@dataclass(frozen=True)
class QLinearSoftmax(QOperator):
    """`opset` says which Softmax of ONNX it is: before 13 over all axes from `axis`, by default 1, on."""

    real: ClassVar[str] = "Softmax"
    opset: int = 0
    axis: int | None = None

    def is_along_last(self, rank: int | None) -> bool:
        """Return whether it is over the last axis alone; for an unknown rank only where the axis is -1."""
        axis = self.axis if self.axis is not None else 1 if self.opset < 13 else -1
        return axis == -1 or axis + 1 == rank


class QLinearWhere(QOperator):
    """Inputs: condition, then the two, scale and zero point behind each."""

    real: ClassVar[str] = "Where"
    data: ClassVar[tuple[int, ...] | None] = (1, 4)
    written: ClassVar[int] = 7
    plain: ClassVar[tuple[int, ...]] = (0,)


class QLinearAveragePool(QOperator):
    real: ClassVar[str] = "AveragePool"


class QLinearGlobalAveragePool(QOperator):
    real: ClassVar[str] = "GlobalAveragePool"


class QLinearConcat(QOperator):
    """Scale and zero point of the output come first."""

    real: ClassVar[str] = "Concat"
    written: ClassVar[int] = 0

    def data_inputs(self, node: ir.Node) -> tuple[int, ...]:
        """Return every third input behind the output's scale and zero point."""
        return tuple(range(2, len(node.inputs), 3))

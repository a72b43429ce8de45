"""Descriptions of tensors that functions of ``tensorrt.plugin`` get: sizes to compute with, types, memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from intact.errors import UnsupportedError
from intact.trt.base.enums import DataType, TensorFormat
from intact.trt.base.operation_enums import DimensionOperation
from intact.trt.plugins.plugin_interfaces import IDimensionExpr, IExprBuilder

_BUILDER = IExprBuilder()


class ShapeExpr:
    """A size, or an expression of sizes, which may not be known before a run."""

    is_fake = is_size_tensor = False

    def __init__(self, value: int | IDimensionExpr | ShapeExpr | None = None) -> None:
        if isinstance(value, ShapeExpr):
            value = value._expr
        self._expr: IDimensionExpr = value if isinstance(value, IDimensionExpr) else IDimensionExpr(value)

    @property
    def is_constant(self) -> bool:
        """Return whether the size is known."""
        return self._expr.is_constant()

    def constant_value(self) -> int:
        """Return the size, where it is known."""
        return self._expr.get_constant_value()

    def _operation(self, op: DimensionOperation, first: Any, second: Any) -> ShapeExpr:
        a, b = ShapeExpr(first), ShapeExpr(second)
        return ShapeExpr(_BUILDER.operation(op, a._expr, b._expr))

    def __add__(self, other: int | ShapeExpr) -> ShapeExpr:
        return self._operation(DimensionOperation.SUM, self, other)

    def __sub__(self, other: int | ShapeExpr) -> ShapeExpr:
        return self._operation(DimensionOperation.SUB, self, other)

    def __mul__(self, other: int | ShapeExpr) -> ShapeExpr:
        return self._operation(DimensionOperation.PROD, self, other)

    def __floordiv__(self, other: int | ShapeExpr) -> ShapeExpr:
        return self._operation(DimensionOperation.FLOOR_DIV, self, other)

    def __lt__(self, other: int | ShapeExpr) -> ShapeExpr:
        return self._operation(DimensionOperation.LESS, self, other)

    def __eq__(self, other: object) -> ShapeExpr:  # type: ignore[override]
        return self._operation(DimensionOperation.EQUAL, self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.constant_value())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._expr._value})"


def cdiv(first: int | ShapeExpr, second: int | ShapeExpr) -> ShapeExpr:
    """Return the quotient of two sizes, rounded up."""
    return ShapeExpr(0)._operation(DimensionOperation.CEIL_DIV, first, second)


def larger(first: int | ShapeExpr, second: int | ShapeExpr) -> ShapeExpr:
    """Return the larger of two sizes."""
    return ShapeExpr(0)._operation(DimensionOperation.MAX, first, second)


def smaller(first: int | ShapeExpr, second: int | ShapeExpr) -> ShapeExpr:
    """Return the smaller of two sizes."""
    return ShapeExpr(0)._operation(DimensionOperation.MIN, first, second)


class ShapeExprs(list[Any]):
    """The sizes of a tensor."""

    def __init__(self, sizes: int | Iterable[Any] = ()) -> None:
        values: Iterable[Any] = [None] * sizes if isinstance(sizes, int) else sizes
        super().__init__(ShapeExpr(size) for size in values)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, ShapeExpr(value))

    @classmethod
    def from_tuple(cls, shape_exprs: Iterable[Any]) -> Self:
        """Build sizes from numbers and expressions."""
        return cls(shape_exprs)

    def numel(self) -> ShapeExpr:
        """Return the number of elements."""
        total = ShapeExpr(1)
        for size in self:
            total = total * size
        return total


class Shape(tuple[int, ...]):
    """Sizes of one run."""

    is_dynamic = False
    min = opt = max = property(lambda self: tuple(self))

    def numel(self) -> int:
        """Return the number of elements."""
        return prod(self)


class TensorDesc:
    """Sizes, type and format of a tensor; `like` and `aliased` describe an output by an input.

    Attributes:
        shape_expr: Sizes to compute with.
        is_aliased: Whether the output begins as a copy of the input: memory is not shared here.
    """

    format, scale = TensorFormat.LINEAR, 1.0
    is_size_tensor = False

    def __init__(self, shape_expr: Iterable[Any] = (), dtype: DataType = DataType.FLOAT) -> None:
        self.shape_expr, self.dtype = ShapeExprs(shape_expr), dtype
        self._aliases: TensorDesc | None = None

    ndim = property(lambda self: len(self.shape_expr))
    has_shape_expr = property(lambda self: True)
    is_aliased = property(lambda self: self._aliases is not None)

    @property
    def has_shape(self) -> bool:
        """Return whether every size is known."""
        return all(size.is_constant for size in self.shape_expr)

    @property
    def shape(self) -> Shape:
        """Sizes, where all are known."""
        return Shape(size.constant_value() for size in self.shape_expr)

    def numel(self) -> int:
        """Return the number of elements, where all sizes are known."""
        return self.shape.numel()

    def like(self) -> TensorDesc:
        """Describe a tensor of the same sizes and type."""
        return TensorDesc(self.shape_expr, self.dtype)

    def aliased(self) -> TensorDesc:
        """Describe an output that is written where this input lies."""
        output = self.like()
        output._aliases = self
        return output

    def get_aliased(self) -> TensorDesc | None:
        """Return the input of an aliased output; None for others."""
        return self._aliases


def from_shape_expr(shape_expr: Iterable[Any], dtype: DataType) -> TensorDesc:
    """Describe a tensor by sizes and a type."""
    return TensorDesc(shape_expr, dtype)


def size_tensor(opt: ShapeExpr, upper_bound: ShapeExpr) -> TensorDesc:
    """Refuse: sizes that an output tells are not known when the plan is made.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(
        "tensorrt.plugin.size_tensor", "a size that a run tells", "sizes computed from those of the inputs",
        "give the output its upper bound, and a second output that counts",
    )  # fmt: skip


class HostTensor(TensorDesc):
    """A tensor of one run, in host memory: NumPy and anything with DLPack read it."""

    def __init__(self, array: NDArray, dtype: DataType) -> None:
        super().__init__(array.shape, dtype)
        self._array = array

    data_ptr = property(lambda self: self._array.ctypes.data)
    strides = property(lambda self: tuple(s // self._array.itemsize for s in self._array.strides))

    @property
    def __array_interface__(self) -> Any:
        return self._array.__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return self._array if dtype is None else self._array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def numpy(self) -> np.ndarray:
        """Return the memory as an array."""
        return self._array

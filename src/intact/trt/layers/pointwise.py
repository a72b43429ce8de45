"""Layers that compute each element by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import DTYPES, TypedComposer
from intact.trt.base.enums import DataType, NetworkDefinitionCreationFlag
from intact.trt.base.itensor import ITensor, Sizes, Weights, array_of
from intact.trt.base.operation_enums import (
    UNARY_NODES,
    ActivationType,
    ElementWiseOperation,
    LayerType,
    ScaleMode,
    UnaryOperation,
)
from intact.trt.layers.base import ILayer, Nodes, sizes_in

ACTIVATIONS: dict[ActivationType, tuple[str, ...]] = {
    ActivationType.RELU: ("Relu",), ActivationType.SIGMOID: ("Sigmoid",), ActivationType.TANH: ("Tanh",),
    ActivationType.LEAKY_RELU: ("LeakyRelu", "alpha"), ActivationType.ELU: ("Elu", "alpha"),
    ActivationType.SELU: ("Selu", "alpha", "gamma"), ActivationType.SOFTSIGN: ("Softsign",),
    ActivationType.SOFTPLUS: ("Softplus",), ActivationType.CLIP: ("Clip", "min", "max"),
    ActivationType.HARD_SIGMOID: ("HardSigmoid", "alpha", "beta"),
    ActivationType.SCALED_TANH: ("ScaledTanh",),
    ActivationType.THRESHOLDED_RELU: ("ThresholdedRelu", "alpha"), ActivationType.GELU_ERF: ("Gelu",),
    ActivationType.GELU_TANH: ("GeluTanh",),
}  # fmt: skip
"""The ONNX operator, then the attributes that alpha and beta are."""
ELEMENTWISE = {
    ElementWiseOperation.SUM: "Add", ElementWiseOperation.PROD: "Mul", ElementWiseOperation.MAX: "Max",
    ElementWiseOperation.MIN: "Min", ElementWiseOperation.SUB: "Sub", ElementWiseOperation.DIV: "Div",
    ElementWiseOperation.POW: "Pow", ElementWiseOperation.AND: "And", ElementWiseOperation.OR: "Or",
    ElementWiseOperation.XOR: "Xor", ElementWiseOperation.EQUAL: "Equal",
    ElementWiseOperation.GREATER: "Greater", ElementWiseOperation.LESS: "Less",
}  # fmt: skip
INTEGERS = (DataType.INT32, DataType.INT64)
FLOATS = (DataType.FLOAT, DataType.HALF, DataType.BF16)
PACKED = (DataType.INT4, DataType.FP4, DataType.E8M0)


def onnx_type(dtype: DataType) -> int:
    """Return the ONNX number of an element type."""
    return DTYPES[dtype.numpy.name]


class IActivationLayer(ILayer):
    """An activation function; `alpha` and `beta` are its parameters, where it has some."""

    TYPE = LayerType.ACTIVATION
    _activation = ActivationType.RELU
    alpha: float = 0.0
    beta: float = 0.0

    @property  # type: ignore[override]
    def type(self) -> ActivationType:
        """Return the activation function."""
        return self._activation

    @type.setter
    def type(self, activation: ActivationType) -> None:
        self._activation = ActivationType(activation)
        self._network.touch()

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        op_type, *names = ACTIVATIONS[self._activation]
        if op_type in _COMPOSED:
            return _COMPOSED[op_type](self, c, x[0], y[0])
        if op_type == "Clip":
            bounds = [c.constant(f"{self.name}.{n}", np.float32(v)) for n, v in self._parameters(names)]
            return c.node("Clip", [x[0], *bounds], y, name=self.name)
        data = self.get_input(0)
        dtype = self._network.dtype_after_inference(data) if data is not None else None
        if op_type == "Relu" and dtype in INTEGERS:  # ONNX Runtime has no Relu of int64
            zero = c.constant(f"{self.name}.zero", np.zeros((), dtype.numpy))
            return c.node("Max", [x[0], zero], y, name=self.name)
        return c.node(op_type, x[:1], y, name=self.name, **dict(self._parameters(names)))

    def _parameters(self, names: list[str]) -> list[tuple[str, Any]]:
        return list(zip(names, (float(self.alpha), float(self.beta)), strict=False))

    def _times(self, c: TypedComposer, x: str, factor: float, y: str, part: str) -> None:
        c.node(
            "Mul", [x, c.constant(f"{self.name}.{part}", np.float32(factor))], [y], name=f"{self.name}.{part}"
        )

    def _emit_scaled(self, c: TypedComposer, x: str, y: str, op_type: str) -> None:
        """Emit ``alpha * op(beta * x)``."""
        inner, outer = c.fresh(f"{self.name}.inner"), c.fresh(f"{self.name}.outer")
        self._times(c, x, self.beta, inner, "beta")
        c.node(op_type, [inner], [outer], name=self.name)
        self._times(c, outer, self.alpha, y, "alpha")


_COMPOSED: dict[str, Callable[[IActivationLayer, TypedComposer, str, str], None]] = {
    "ScaledTanh": lambda layer, c, x, y: layer._emit_scaled(c, x, y, "Tanh"),
    "Softplus": lambda layer, c, x, y: layer._emit_scaled(c, x, y, "Softplus"),
    "GeluTanh": lambda layer, c, x, y: c.node("Gelu", [x], [y], name=layer.name, approximate="tanh"),
}


class IElementWiseLayer(ILayer):
    """A function of two tensors that broadcast."""

    TYPE = LayerType.ELEMENTWISE
    TITLE = "ElementWise"
    op = ElementWiseOperation.SUM

    def check(self) -> list[str]:
        """Check that both inputs have one type, and as many axes."""
        a, b = self.get_input(0), self.get_input(1)
        if a is None or b is None or a.dtype == b.dtype:
            return []
        message = f"operation {self.op.name} has incompatible input types {a.dtype.name} and {b.dtype.name}"
        if a.dtype in INTEGERS and b.dtype in INTEGERS:  # of 8.x, where shapes are int32 as constants are
            return self._refuse_in("10.x", message)
        strongly = self._network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        return [message] if strongly or {a.dtype, b.dtype} - set(FLOATS) else []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        if self.op is not ElementWiseOperation.FLOOR_DIV:
            return c.node(ELEMENTWISE[self.op], x[:2], y, name=self.name)
        n, tensor = Nodes(c, self.name), self.get_input(0)
        if tensor is not None and tensor.dtype in INTEGERS:  # Mod has the divisor's sign
            n("Div", n("Sub", x[0], n("Mod", x[0], x[1])), x[1], to=y[0])
        else:
            n("Floor", n("Div", x[0], x[1]), to=y[0])
        return None


class IUnaryLayer(ILayer):
    """A function of one tensor."""

    TYPE = LayerType.UNARY
    op = UnaryOperation.EXP

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node(UNARY_NODES[self.op], x[:1], y, name=self.name)


class IScaleLayer(ILayer):
    """``(x * scale + shift) ** power``, with one number, one for each channel, or one for each element."""

    TYPE = LayerType.SCALE
    mode = ScaleMode.UNIFORM
    shift: Weights | NDArray | None = None
    scale: Weights | NDArray | None = None
    power: Weights | NDArray | None = None
    channel_axis: int = 1

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        parts = [("Mul", "scale", self.scale), ("Add", "shift", self.shift), ("Pow", "power", self.power)]
        operations = [(op, n, array) for op, n, weights in parts if (array := array_of(weights)) is not None]
        current = x[0]
        for i, (op_type, name, array) in enumerate(operations):
            target = y[0] if i == len(operations) - 1 else c.fresh(f"{self.name}.{name}")
            values = c.constant(f"{self.name}.{name}.values", self._to_broadcast_shape(array))
            c.node(op_type, [current, values], [target], name=f"{self.name}.{name}" if i else self.name)
            current = target
        if not operations:
            c.node("Identity", x[:1], y, name=self.name)

    def _to_broadcast_shape(self, array: NDArray) -> NDArray:
        if self.mode == ScaleMode.UNIFORM:
            return array.reshape(())
        tensor = self.get_input(0)
        shape = tensor.shape if tensor is not None else ()
        if self.mode == ScaleMode.CHANNEL and self._network.has_implicit_batch_dimension:
            return array.reshape(-1, *[1] * min(2, len(shape) - 1))
        if self.mode == ScaleMode.CHANNEL:
            return array.reshape(-1, *[1] * (len(shape) - 1 - self.channel_axis % max(len(shape), 1)))
        return array.reshape(shape[1:] if array.size == np.prod(shape[1:]) else shape)


class ISelectLayer(ILayer):
    """Selects elements of the first input where the condition holds, else of the second."""

    TYPE = LayerType.SELECT
    SAME_TYPE = (1, 2)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Where", x[:3], y, name=self.name)


class ICastLayer(ILayer):
    """The same values in another type."""

    TYPE = LayerType.CAST
    to_type = DataType.FLOAT

    def check(self) -> list[str]:
        """Check the type: codes of 4 bits, and scales of blocks, are made by Quantize layers alone."""
        return [f"a cast to {self.to_type.name} is not supported"] if self.to_type in PACKED else []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        ranged = self.to_type is DataType.INT8 and self._outputs[0].dynamic_range is not None
        to, data, current = DataType.FLOAT if ranged else self.to_type, self.get_input(0), x[0]
        if to is DataType.UINT8 and data is not None and data.dtype in FLOATS:
            n = Nodes(c, self.name)  # as CUDA converts: negative ones to 0, others by their lowest bits
            wide = n.cast(n("Max", n.floats(x[0]), n.array(np.float32(0))), "int64")
            current = n("Mod", wide, n.ints(256, shape=()))
        c.node("Cast", [current], y, name=self.name, to=onnx_type(to))

    def _cast_to(self, index: int) -> int | None:
        if self.to_type is DataType.INT8 and self._outputs[0].dynamic_range is not None:
            return DTYPES["int8"]
        return super()._cast_to(index)

    def _numbers(self) -> Sizes | None:
        return sizes_in(self.get_input(0))


class IIdentityLayer(ILayer):
    """The same tensor; where a type is set on its output, converted to it."""

    TYPE = LayerType.IDENTITY

    def _cast_to(self, index: int) -> int | None:
        output_type = self._types.get(index) or self._outputs[index]._dtype
        return None if output_type is None else onnx_type(output_type)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Identity", x[:1], y, name=self.name)

    def _numbers(self) -> Sizes | None:
        return sizes_in(self.get_input(0))


class IParametricReLULayer(ILayer):
    """``x`` where it is positive, ``slope * x`` elsewhere; input 1 is the slope."""

    TYPE = LayerType.PARAMETRIC_RELU
    SAME_TYPE = (0, 1)
    TITLE = "Parametric ReLU"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("PRelu", x[:2], y, name=self.name)


class IAssertionLayer(ILayer):
    """Asserts a condition: a constant one at build time, else in each run."""

    TYPE = LayerType.ASSERTION
    message: str = ""
    num_outputs = property(lambda self: 0)

    def get_output(self, index: int) -> None:
        """Return None: an assertion has no outputs."""
        return

    @property
    def condition(self) -> ITensor:
        """Return the condition that must hold, under a name of its own."""
        return self._outputs[0]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node("Identity", x[:1], y, name=self.name)

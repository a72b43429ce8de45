"""Quantize and Dequantize layers, with TensorRT's rules and its messages where one is broken.

Source of the rules: the operator pages of TensorRT 10 and the header of 11.1 (IQuantizeLayer), the messages
of its ONNX parser, and for the dialect 8.x the listings of its cookbook. Codes are those of `numerics`, but
for one thing: data that come from outside the network are multiplied by the rounded reciprocal of the scale
(N35), as TensorRT does.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact.graph import DTYPES, TypedComposer, round_to_type
from intact.trt.base.enums import DataType, NetworkDefinitionCreationFlag, dtype_of
from intact.trt.base.itensor import ITensor, Sizes
from intact.trt.base.operation_enums import LayerType
from intact.trt.layers.base import ILayer, Nodes
from intact.trt.layers.data_movement import IConstantLayer
from intact.trt.layers.dynamic_quantize import (
    blocks_that_fill,
    dequantize_blocks,
    dynamic_behind,
)
from intact.trt.layers.pointwise import ICastLayer, IIdentityLayer

MAX_VOLUME = 2**31 - 1
FORMATS = (DataType.INT8, DataType.FP8, DataType.INT4, DataType.FP4)
FLOATS = (DataType.FLOAT, DataType.HALF, DataType.BF16)
MOST_BLOCKED = 2
HALF_BYTES = (DataType.INT4, DataType.FP4)


def constant_behind(tensor: ITensor | None) -> NDArray | None:
    """Return the constant that `tensor` is; None where it is none.

    It may stand behind one Identity or Cast, or be scales of a constant that a Dequantize layer multiplies by
    their own scale, as NVFP4's are.
    """
    producer = tensor._producer if tensor is not None else None
    if isinstance(producer, IDequantizeLayer):
        return producer.constant_value()
    if isinstance(producer, (ICastLayer, IIdentityLayer)):
        inner = producer.get_input(0)
        producer = inner._producer if inner is not None else None
    return producer.array if isinstance(producer, IConstantLayer) else None


class _Grid(ILayer):
    """Base of both layers: data, scale and zero point as inputs 0 to 2, an axis, and the shape of blocks."""

    DATA: ClassVar[tuple[DataType, ...]] = FLOATS
    axis: int = -1
    block_shape: Sizes = ()
    to_type = DataType.INT8

    @property
    def _scale(self) -> NDArray | None:
        return constant_behind(self.get_input(1))

    @property
    def _zero_point(self) -> NDArray | None:
        return constant_behind(self.get_input(2))

    def _codes_type(self) -> DataType:
        return self.to_type

    def check(self) -> list[str]:
        """Return TensorRT's refusals, in its words where they are known."""
        data, scale = self.get_input(0), self._scale
        if data is None or scale is None:
            return ["the scale must be a build-time constant"]
        if self.DATA and data.dtype not in self.DATA:
            names = ", ".join(dtype.name for dtype in self.DATA)
            return [f"the input has the type {data.dtype.name}, which is none of {names}"]
        errors = [*self._scale_errors(scale), *self._zero_point_errors(scale)]
        shape = data.shape
        return [*errors, *self._shape_errors(shape, scale, data)]

    def _scale_errors(self, scale: NDArray) -> list[str]:
        dtype = dtype_of(scale.dtype.name)
        if dtype is DataType.E8M0 and self._codes_type() is not DataType.FP8:
            return [f"a scale of E8M0 belongs to codes of FP8, and these are {self._codes_type().name}"]
        if dtype not in (*FLOATS, DataType.E8M0):
            return [f"the scale has the type {scale.dtype}: it must be FLOAT, HALF or BF16"]
        if not scale.size:
            return ["Cannot have scale with no coefficients."]
        values = scale.astype(np.float32)
        if not (np.isfinite(values).all() and (values > 0).all()):
            return ["Scale coefficients must all be positive"]
        return []

    def _zero_point_errors(self, scale: NDArray) -> list[str]:
        if self.get_input(2) is None:
            return []
        points = self._zero_point
        if points is None:
            return ["the zero point must be a build-time constant"]
        if points.shape != scale.shape and points.size != scale.size:
            return ["The scale and zero point must have the same volume"]
        if not (points != 0).any():
            return []
        message = "TensorRT only supports symmetric quantization. The zero point must be all zeros."
        return self._refuse_in("10.x", message)

    def _shape_errors(self, shape: tuple[int, ...], scale: NDArray, data: ITensor) -> list[str]:
        if np.prod([abs(n) for n in shape], dtype=float) > MAX_VOLUME:
            return [f"volume of the input exceeds {MAX_VOLUME}"]
        if self._codes_type() not in FORMATS:
            return ["TensorRT only allows FP8, INT8, and INT4 quantization"]
        if self._codes_type() in HALF_BYTES and shape and shape[-1] % 2 == 1:
            return ["Quantization to INT4 is not supported for tensors with an odd last dimension"]
        if self.block_shape or (scale.ndim > 1 and scale.size > 1):
            return self._block_errors(shape, scale)
        if self.axis < 0 and (self._network.dialect == "8.x" or scale.size > 1):
            return self._no_axis(scale, data)
        return self._channel_errors(shape, scale, data) if scale.size > 1 else []

    def _no_axis(self, scale: NDArray, data: ITensor) -> list[str]:
        if scale.size > 1:
            return ["unexpected negative axis"]
        if isinstance(data._producer, IConstantLayer):  # TensorRT 8 takes codes of a constant so
            return []
        return self._refuse_in("8.x", "unexpected negative axis")

    def _channel_errors(self, shape: tuple[int, ...], scale: NDArray, data: ITensor) -> list[str]:
        if self.axis >= len(shape):
            return [f"axis {self.axis} is out of range for a tensor of {len(shape)} dimensions"]
        if shape[self.axis] not in (-1, scale.size):
            return [
                "The number of scales is not equal to the number of output channels: "
                f"{scale.size} scales, and axis {self.axis} has {shape[self.axis]} channels"
            ]
        if self._data_of(data) is None:
            message = (
                "Activations cannot be quantized per-channel: per-channel quantization is supported only "
                "for weight inputs, rooted at an IConstantLayer"
            )
            return self._refuse_in("10.x", message)
        return []

    def _data_of(self, data: ITensor) -> NDArray | None:
        producer = data._producer
        if isinstance(producer, IQuantizeLayer):
            return constant_behind(producer.get_input(0))
        return constant_behind(data)

    def _block_errors(self, shape: tuple[int, ...], scale: NDArray) -> list[str]:
        if scale.ndim != len(shape):
            return ["Invalid rank for the scale tensor"]
        if self.block_shape:
            return self._block_shape_errors(shape, scale)
        blocked = [i for i, (n, s) in enumerate(zip(shape, scale.shape, strict=True)) if n != s]
        if len(blocked) > 1:
            return ["Only a single blocking dimension is allowed"]
        if any(shape[i] % scale.shape[i] for i in blocked):
            return ["Inferred block size is not an integer"]
        return []

    def _block_shape_errors(self, shape: tuple[int, ...], scale: NDArray) -> list[str]:
        blocks = tuple(self.block_shape)
        if len(blocks) == 1 < len(shape):
            return self._block_size_errors(shape, scale, blocks[0])
        if len(blocks) != len(shape) or any(b < 1 and b != -1 for b in blocks):
            return [
                f"block_shape {tuple(blocks)} does not fit the data: a size or -1 for each of {len(shape)}"
            ]
        if self._codes_type() is DataType.INT8:
            return ["block quantization is supported for FP4, FP8 and INT4"]
        sizes = self._blocks(shape, scale)
        if any(n < 0 or n % b for n, b in zip(shape, sizes, strict=True)):
            return [f"blocks of {sizes} do not fill a tensor of {tuple(shape)}"]
        if sum(b > 1 for b in sizes) > MOST_BLOCKED:
            return [f"block_shape {tuple(blocks)}: blocks extend along at most {MOST_BLOCKED} axes"]
        wanted = tuple(n // b for n, b in zip(shape, sizes, strict=True))
        if scale.shape != wanted:
            return [f"blocks of {sizes} need scales of {wanted}, and these are {scale.shape}"]
        return []

    def _block_size_errors(self, shape: tuple[int, ...], scale: NDArray, size: int) -> list[str]:
        """Check a block shape of one number, along the axis of which there are fewer scales."""
        if any(n % s for n, s in zip(shape, scale.shape, strict=True)):
            return ["Inferred block size is not an integer"]
        sizes = [n // s for n, s in zip(shape, scale.shape, strict=True) if n != s]
        if sizes != [size if size > 0 else max(sizes, default=1)]:
            return [f"blocks of {size} along one axis of {shape} need other scales than {scale.shape}"]
        return []

    def _blocks(self, shape: Sizes, scale: NDArray) -> Sizes:
        """Return how many elements of each axis share a scale: `block_shape`, or what its sizes say."""
        if len(self.block_shape) == len(shape):
            return blocks_that_fill(shape, self.block_shape)
        return tuple(n // s if n >= 0 else 1 for n, s in zip(shape, scale.shape, strict=True))

    def _per_element(self, scale: NDArray, shape: Sizes, but: int | None = None) -> NDArray:
        """Return scales repeated along every axis of their blocks, except for axis `but`."""
        for axis, block in enumerate(self._blocks(shape, scale)):
            if block > 1 and axis != but:
                scale = np.repeat(scale, block, axis)
        return scale

    def _factors(self, n: Nodes, scale: NDArray, shape: Sizes) -> str:
        """Return the scales as a constant of float32 that broadcasts to data of `shape`."""
        return n.array(self._broadcast(scale, shape).astype(np.float32))

    def _broadcast(self, scale: NDArray, shape: Sizes) -> NDArray:
        if scale.size == 1:
            return scale.reshape(())
        if scale.ndim == 1:
            return scale.reshape(-1, *[1] * (len(shape) - 1 - self.axis))
        return self._per_element(scale, shape)

    def _parameters(self, c: TypedComposer, scale: NDArray) -> tuple[list[str], dict[str, Any]]:
        """Return names of scale and zero point, and the attributes axis and block_size.

        ONNX has blocks along one axis; scales of a second axis are repeated.
        """
        data, attributes = self.get_input(0), dict[str, Any]()
        assert data is not None  # checked before
        if scale.size == 1:
            scale = scale.reshape(())
        elif scale.ndim == 1:
            attributes["axis"] = self.axis
        else:
            blocks = self._blocks(data.shape, scale)
            axis = max((i for i, block in enumerate(blocks) if block > 1), default=len(blocks) - 1)
            scale = self._per_element(scale, data.shape, but=axis)
            attributes = {"axis": axis, "block_size": blocks[axis]}
        points = np.zeros(scale.shape, self._codes_type().numpy)
        names = [c.constant(f"{self.name}.scale", scale), c.constant(f"{self.name}.zero_point", points)]
        return names, attributes


class IQuantizeLayer(_Grid):
    """Reals to codes: ``clamp(round(x * (1 / scale)))``, ties to even; input 2 is a zero point of zeros.

    Attributes:
        axis: The channel axis of a scale with several values; ignored for a single one.
        block_shape: How many elements of each axis share a scale, along one or two axes; -1: as many as there
            are. One number is that of the one axis with fewer scales. Empty: as many as the sizes of a scale
            with the data's rank say.
        to_type: Type of the codes.
    """

    TYPE = LayerType.QUANTIZE

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        scale, data = self._scale, self.get_input(0)
        assert scale is not None and data is not None  # checked before
        self._warn()
        n, scale = Nodes(c, self.name), scale.astype(np.float32)
        x = [n.floats(x[0])]
        if self.to_type is DataType.FP4:  # the operators of ONNX have it from opset 23 on
            steps = n("Div", x[0], self._factors(n, scale, data.shape))
            codes = round_to_type(n, steps, DataType.FP4.numpy.name)
            n("Identity", codes, to=y[0])
            return c.set_type(y[0], self.to_type.numpy.name)
        outside = data.is_network_input and self.to_type is DataType.INT8 and scale.ndim < 2
        if outside:
            with np.errstate(divide="ignore"):  # a scale of 0 is refused at the build
                factors = np.float32(1) / scale
            if scale.size > 1:
                factors = factors.reshape(-1, *[1] * (len(data.shape) - 1 - self.axis))
            floats = c.fresh(f"{self.name}.steps")
            factor = c.constant(f"{self.name}.reciprocal", factors if scale.size > 1 else factors.reshape(()))
            c.node("Mul", [x[0], factor], [floats], name=f"{self.name}.multiply")
            x, scale = [floats], np.ones((), np.float32)
        names, attributes = self._parameters(c, scale)
        return c.node("QuantizeLinear", [x[0], *names], y, name=self.name, **attributes)

    def type_errors(self) -> list[str]:
        """Return the refusal of a scale of 16 bits that has another type than the data."""
        strongly = self._network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        data, scale = self.get_input(0), self.get_input(1)
        if not strongly or data is None or scale is None or scale.dtype not in (DataType.HALF, DataType.BF16):
            return []
        if scale.dtype is data.dtype:
            return []
        return [f"the scale has the type {scale.dtype.name} and the input {data.dtype.name}: they must match"]

    def _warn(self) -> None:
        points = self._zero_point
        if points is not None and (points != 0).any():
            self._network.warn(
                f"{self.name}: the zero point has no effect, as in TensorRT 8; write a model with "
                "QuantizeLinear nodes for asymmetric quantization"
            )


class IDequantizeLayer(_Grid):
    """Codes to floats: ``(q - zero_point) * scale``; input 2 is a zero point of zeros.

    Attributes:
        axis: The channel axis of a scale with several values; ignored for a single one.
        block_shape: How many elements of each axis share a scale, as `IQuantizeLayer` has it.
        to_type: Type of the floats; they are float32 inside, whatever it is.
    """

    TYPE = LayerType.DEQUANTIZE
    DATA = ()
    to_type = DataType.FLOAT

    def constant_value(self) -> NDArray | None:
        """Return the products, where codes and scales are constants; None where they are not.

        Each is a float32 product, rounded once more where `to_type` is HALF or BF16.
        """
        data, codes, scale = self.get_input(0), constant_behind(self.get_input(0)), self._scale
        if data is None or codes is None or scale is None or self.check():
            return None
        factors = self._broadcast(scale, codes.shape).astype(np.float32)
        products: NDArray = (codes.astype(np.float32) * factors).astype(self.to_type.numpy)
        return products

    def _codes_type(self) -> DataType:
        data = self.get_input(0)
        producer = data._producer if data is not None else None
        if isinstance(producer, IQuantizeLayer):
            return producer.to_type
        return data.dtype if data is not None else DataType.INT8

    def check(self) -> list[str]:
        """Check the layer as a Quantize layer.

        Scales that a run finds belong to the layer that found them.
        """
        layer, scales = dynamic_behind(self.get_input(0)), self.get_input(1)
        if self.to_type not in FLOATS:
            return [f"to_type {self.to_type}: codes become FLOAT, HALF or BF16"]
        if layer is None:
            return super().check()
        if scales is None or (self._is_scales() and self._scale is None):
            return ["the scale of scales must be a build-time constant"]
        if not self._is_scales() and tuple(scales.shape) != tuple(layer._outputs[1].shape):
            return [
                f"scales of {scales.shape} where the layer in front has those of {layer._outputs[1].shape}"
            ]
        return []

    def _is_scales(self) -> bool:
        """Return whether its data are the scales of dynamic quantization, and not the codes."""
        layer, data = dynamic_behind(self.get_input(0)), self.get_input(0)
        return layer is not None and data is layer._outputs[1]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        layer, scale = dynamic_behind(self.get_input(0)), self._scale
        n, data = Nodes(c, self.name), self.get_input(0)
        assert data is not None  # checked before
        target = y[0] if self.to_type is DataType.FLOAT else c.fresh(f"{self.name}.float32")
        if layer is not None and self._is_scales():
            n("Mul", x[0], n.floats(n.scalar(x[1])), to=target)
        elif layer is not None:
            dequantize_blocks(n, layer, x[0], n.floats(x[1]), target)
        else:
            assert scale is not None  # checked before
            self._emit_constant_scale(c, x[0], scale, target)
        if target != y[0]:
            to = DTYPES[self.to_type.numpy.name]
            c.node("Cast", [target], y, name=f"{self.name}.{self.to_type.name}", to=to)

    def _emit_constant_scale(self, c: TypedComposer, codes: str, scale: NDArray, target: str) -> None:
        n, data = Nodes(c, self.name), self.get_input(0)
        assert data is not None  # checked before
        if c.type_of(codes) == DataType.FP4.numpy.name:
            n("Mul", n.cast(codes, "float32"), self._factors(n, scale, data.shape), to=target)
        else:
            names, attributes = self._parameters(c, scale.astype(np.float32))
            c.node("DequantizeLinear", [codes, *names], [target], name=self.name, **attributes)

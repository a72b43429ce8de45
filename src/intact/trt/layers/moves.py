"""Layers that only move data, and constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.graph import Composer
from intact.trt.enums import GatherMode, LayerType, SampleMode
from intact.trt.layers.base import ILayer, int64
from intact.trt.tensors import Dims, Weights, array_of


class IConstantLayer(ILayer):
    """A tensor whose values are known when the network is built."""

    TYPE = LayerType.CONSTANT
    shape: Dims = ()
    weights: Weights | NDArray | None = None

    @property
    def array(self) -> NDArray:
        """Its values."""
        values = array_of(self.weights)
        return np.zeros(self.shape, np.float32) if values is None else values.reshape(tuple(self.shape))

    def emit(self, c: Composer) -> None:
        """A constant under the tensor's name, no node."""
        name = self._outputs[0].name
        if c.constant(name, self.array) != name:
            raise ValueError(f"two tensors are called '{name}'")


class IConcatenationLayer(ILayer):
    """Tensors behind each other along one axis."""

    TYPE = LayerType.CONCATENATION
    axis: int | None = None

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        rank = len(tensor.shape) if tensor is not None else 1
        axis = max(rank - 3, 0) if self.axis is None else self.axis  # TensorRT's default
        c.node("Concat", x, y, name=self.name, axis=axis)


class IShuffleLayer(ILayer):
    """Transpose, reshape, transpose: each where it was asked for."""

    TYPE = LayerType.SHUFFLE
    first_transpose: tuple[int, ...] = ()
    reshape_dims: Dims | None = None
    second_transpose: tuple[int, ...] = ()
    zero_is_placeholder: bool = True

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        parts: list[str] = []
        if tuple(self.first_transpose):
            parts.append("first_transpose")
        if self.reshape_dims is not None or (len(x) > 1 and x[1]):
            parts.append("reshape")
        if tuple(self.second_transpose):
            parts.append("second_transpose")
        current = x[0]
        for part in parts:
            target = y[0] if part == parts[-1] else c.fresh(f"{self.name}.{part}")
            name = self.name if part == parts[-1] else f"{self.name}.{part}"
            if part == "reshape":
                self._reshape(c, current, x, target, name)
            else:
                c.node("Transpose", [current], [target], name=name, perm=list(getattr(self, part)))
            current = target
        if not parts:
            c.node("Identity", x[:1], y, name=self.name)

    def _reshape(self, c: Composer, source: str, x: list[str], target: str, name: str) -> None:
        if len(x) > 1 and x[1]:
            sizes = c.fresh(f"{self.name}.sizes")
            c.node("Cast", [x[1]], [sizes], name=f"{self.name}.sizes", to=7)
        else:
            sizes = c.constant(f"{self.name}.sizes", int64(list(self.reshape_dims or ())))
        allow = None if self.zero_is_placeholder else 1
        c.node("Reshape", [source, sizes], [target], name=name, allowzero=allow)


class ISliceLayer(ILayer):
    """`shape` elements of each axis from `start` on, every `stride`-th; all within bounds."""

    TYPE = LayerType.SLICE
    start: Dims = ()
    shape: Dims = ()
    stride: Dims = ()
    mode = SampleMode.STRICT_BOUNDS

    def check(self) -> list[str]:
        """Other modes than strict bounds are refused."""
        if self.mode == SampleMode.STRICT_BOUNDS:
            return []
        return [f"slice mode {SampleMode(self.mode).name} is not supported: only STRICT_BOUNDS is"]

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        start, size, stride = (np.asarray(v, np.int64) for v in (self.start, self.shape, self.stride))
        end = start + size * stride
        end[(stride < 0) & (end < 0)] = np.iinfo(np.int64).min  # before the first element
        parts = {"starts": start, "ends": end, "axes": np.arange(start.size, dtype=np.int64), "steps": stride}
        inputs = [c.constant(f"{self.name}.{key}", value) for key, value in parts.items()]
        c.node("Slice", [x[0], *inputs], y, name=self.name)


class IGatherLayer(ILayer):
    """Elements, slices or N-D indices out of a tensor."""

    TYPE = LayerType.GATHER
    axis: int = 0
    mode = GatherMode.DEFAULT
    num_elementwise_dims: int = 0

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        if self.mode is GatherMode.ND:
            return c.node("GatherND", x[:2], y, name=self.name, batch_dims=self.num_elementwise_dims)
        return c.node(self.mode.value, x[:2], y, name=self.name, axis=self.axis)


class IShapeLayer(ILayer):
    """The sizes of a tensor, int64."""

    TYPE = LayerType.SHAPE

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        c.node("Shape", x[:1], y, name=self.name)

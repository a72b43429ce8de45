"""Layers that only move data, and constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.graph import TypedComposer
from intact.trt.base.itensor import Sizes, Weights, array_of
from intact.trt.base.operation_enums import LayerType
from intact.trt.layers.base import CODES_AS_FLOATS, ILayer, Nodes, int64, rank_of, sizes_in


class IConstantLayer(ILayer):
    """A tensor whose values are known when the network is built."""

    TYPE = LayerType.CONSTANT
    shape: Sizes = ()
    weights: Weights | NDArray | None = None

    @property
    def array(self) -> NDArray:
        """Its values."""
        values = array_of(self.weights)
        if values is not None:
            return values.reshape(tuple(self.shape))
        weights = self.weights.numpy() if isinstance(self.weights, Weights) else self.weights
        return np.zeros(self.shape, np.float32 if weights is None else weights.dtype)

    def _numbers(self) -> Sizes:
        return tuple(int(n) for n in self.array.reshape(-1))

    def emit(self, c: TypedComposer) -> None:
        """Emit a constant under the tensor's name; an output of the network needs a node."""
        tensor = self._outputs[0]
        if tensor.is_network_output:
            value = c.constant(f"{tensor.name}.value", self.array)
            c.node("Identity", [value], [tensor.name], name=self.name)
        elif c.constant(tensor.name, self.array, keeps_type=True) != tensor.name:
            raise ValueError(f"two tensors are called '{tensor.name}'")


class IConcatenationLayer(ILayer):
    """Joins tensors along one axis."""

    TYPE = LayerType.CONCATENATION
    CARRIERS = CODES_AS_FLOATS
    SAME_TYPE = ()
    axis: int | None = None

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        axis = max(rank_of(self.get_input(0), 1) - 3, 0) if self.axis is None else self.axis  # its default
        c.node("Concat", x, y, name=self.name, axis=axis)

    def _numbers(self) -> Sizes | None:
        parts = [sizes_in(tensor) for tensor in self._inputs]
        return None if None in parts else tuple(n for part in parts for n in part or ())


class IShuffleLayer(ILayer):
    """Transposes, reshapes and transposes again, each where it is set."""

    TYPE = LayerType.SHUFFLE
    VALUES = (1,)
    first_transpose: tuple[int, ...] = ()
    reshape_dims: Sizes | None = None
    second_transpose: tuple[int, ...] = ()
    zero_is_placeholder: bool = True

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
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

    def _output_sizes(self, index: int) -> Sizes | None:
        if self.get_input(1) is None or tuple(self.second_transpose):
            return None
        new_sizes, data = sizes_in(self.get_input(1)), self.get_input(0)
        if new_sizes is None or data is None:
            return None
        shape = [data.shape[axis] for axis in self.first_transpose] or list(data.shape)
        copied_sizes = [shape[i] if i < len(shape) else -1 for i in range(len(new_sizes))]
        return tuple(
            copied_sizes[i] if n == 0 and self.zero_is_placeholder else n for i, n in enumerate(new_sizes)
        )

    def _numbers(self) -> Sizes | None:
        return sizes_in(self.get_input(0))  # of a vector: its order stays

    def _reshape(self, c: TypedComposer, source: str, x: list[str], target: str, name: str) -> None:
        if len(x) > 1 and x[1]:
            sizes = self._vector(Nodes(c, self.name), 1)
        else:
            sizes = c.constant(f"{self.name}.sizes", int64(list(self.reshape_dims or ())))
        allow = None if self.zero_is_placeholder else 1
        c.node("Reshape", [source, sizes], [target], name=name, allowzero=allow)


class IShapeLayer(ILayer):
    """Returns the sizes of a tensor: int64, and int32 in the dialect 8.x."""

    TYPE = LayerType.SHAPE
    OF_SHAPES = True

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        if self._network.dialect == "8.x":
            c.node("Cast", [n.sizes(x[0])], y, name=self.name, to=6)
        else:
            n("Shape", x[0], to=y[0])

    def _numbers(self) -> Sizes | None:
        data = self.get_input(0)
        return data.shape if data is not None else None


class ISqueezeLayer(ILayer):
    """Removes the axes that input 1 names, whose size is one."""

    TYPE = LayerType.SQUEEZE
    CARRIERS = CODES_AS_FLOATS
    VALUES = (1,)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        n("Squeeze", x[0], self._vector(n, 1), to=y[0])


class IUnsqueezeLayer(ILayer):
    """Adds axes of size one, where input 1 says."""

    TYPE = LayerType.UNSQUEEZE
    CARRIERS = CODES_AS_FLOATS
    VALUES = (1,)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        n("Unsqueeze", x[0], self._vector(n, 1), to=y[0])


class IReverseSequenceLayer(ILayer):
    """Reverses the first elements of each sequence, as many as input 1 says."""

    TYPE = LayerType.REVERSE_SEQUENCE
    batch_axis: int = 1
    sequence_axis: int = 0

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        n(
            "ReverseSequence", x[0], n.cast(x[1], "int64"), to=y[0],
            batch_axis=int(self.batch_axis), time_axis=int(self.sequence_axis),
        )  # fmt: skip


class IDistCollectiveLayer(ILayer):
    """A collective of several devices; none is made, as there is one: `add_dist_collective` says so."""

    TYPE = LayerType.DIST_COLLECTIVE
    TITLE = "DistCollective"

"""Layers over images and axes: pools, padding, resizing, normalization, reductions, Softmax, TopK."""

from __future__ import annotations

import numpy as np

from intact.graph import Composer
from intact.trt.enums import (
    InterpolationMode,
    LayerType,
    PaddingMode,
    PoolingType,
    ReduceOperation,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    TopKOperation,
)
from intact.trt.layers.base import ILayer, axes_of, int64
from intact.trt.layers.weighted import WindowLayer
from intact.trt.tensors import Dims


class IPoolingLayer(WindowLayer):
    """Largest value or mean of each window; `blend_factor` mixes the two: b of
    the mean and 1 - b of the largest.
    """

    TYPE = LayerType.POOLING
    pooling_type = PoolingType.MAX
    window_size_nd: Dims = ()
    blend_factor: float = 0.0
    average_count_excludes_padding: bool = True

    window_size = property(
        lambda self: self.window_size_nd, lambda self, v: setattr(self, "window_size_nd", tuple(v))
    )

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        if self.pooling_type is not PoolingType.MAX_AVERAGE_BLEND:
            return self._pool(c, self.pooling_type, x[0], y[0], self.name)
        scaled = []
        for kind, factor in (
            (PoolingType.AVERAGE, self.blend_factor),
            (PoolingType.MAX, 1 - self.blend_factor),
        ):
            pooled, part = c.fresh(f"{self.name}.pooled"), c.fresh(f"{self.name}.part")
            self._pool(c, kind, x[0], pooled, f"{self.name}.{kind.name.lower()}")
            weight = c.constant(f"{self.name}.weight", np.float32(factor))
            c.node("Mul", [pooled, weight], [part], name=f"{self.name}.weigh_{kind.name.lower()}")
            scaled.append(part)
        return c.node("Add", scaled, y, name=self.name)

    def _pool(self, c: Composer, kind: PoolingType, x: str, y: str, name: str) -> None:
        average = kind is PoolingType.AVERAGE
        c.node(
            kind.value, [x], [y], name=name,
            kernel_shape=list(self.window_size_nd),
            ceil_mode=1 if self.padding_mode == PaddingMode.EXPLICIT_ROUND_UP else None,
            count_include_pad=int(not self.average_count_excludes_padding) if average else None,
            **self._window(len(self.window_size_nd)),
        )  # fmt: skip


class IPaddingLayer(ILayer):
    """Zeros around the two last axes; negative numbers cut off."""

    TYPE = LayerType.PADDING
    pre_padding_nd: Dims = (0, 0)
    post_padding_nd: Dims = (0, 0)

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        rank = len(tensor.shape) if tensor is not None else 4
        outer = [0] * (rank - 2)
        pads = [*outer, *self.pre_padding_nd, *outer, *self.post_padding_nd]
        c.node("Pad", [x[0], c.constant(f"{self.name}.pads", int64(pads))], y, name=self.name)


class IResizeLayer(ILayer):
    """Another size by interpolation: `shape`, or `scales`, or input 1 with the shape."""

    TYPE = LayerType.RESIZE
    shape: Dims = ()
    scales: tuple[float, ...] = ()
    resize_mode = InterpolationMode.NEAREST
    coordinate_transformation = ResizeCoordinateTransformation.ASYMMETRIC
    nearest_rounding = ResizeRoundMode.FLOOR
    cubic_coeff: float = -0.75
    exclude_outside: bool = False

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        if len(x) > 1 and x[1]:
            sizes = c.fresh(f"{self.name}.sizes")
            c.node("Cast", [x[1]], [sizes], name=f"{self.name}.sizes", to=7)
            inputs = [x[0], "", "", sizes]
        elif self.scales:
            inputs = [x[0], "", c.constant(f"{self.name}.scales", np.asarray(self.scales, np.float32))]
        else:
            inputs = [x[0], "", "", c.constant(f"{self.name}.sizes", int64(self.shape))]
        cubic = self.resize_mode is InterpolationMode.CUBIC
        c.node(
            "Resize", inputs, y, name=self.name, mode=self.resize_mode.value,
            coordinate_transformation_mode=self.coordinate_transformation.value,
            nearest_mode=self.nearest_rounding.value,
            cubic_coeff_a=self.cubic_coeff if cubic else None,
            exclude_outside=int(self.exclude_outside) or None,
        )  # fmt: skip


class ISoftMaxLayer(ILayer):
    """Softmax over the one axis whose bit is set in `axes`."""

    TYPE = LayerType.SOFTMAX
    axes: int = 0

    def _title(self) -> str:
        return "SoftMax"

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        rank = len(tensor.shape) if tensor is not None else 1
        axes = axes_of(self.axes, rank) if self.axes else (max(rank - 3, 0),)  # TensorRT's default
        c.node("Softmax", x[:1], y, name=self.name, axis=axes[0])


class IReduceLayer(ILayer):
    """Sum, mean, ... over the axes whose bits are set."""

    TYPE = LayerType.REDUCE
    op = ReduceOperation.SUM
    axes: int = 0
    keep_dims: bool = False

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        axes = axes_of(self.axes, len(tensor.shape) if tensor is not None else 0)
        inputs = [x[0], c.constant(f"{self.name}.axes", int64(axes))]
        c.node(self.op.value, inputs, y, name=self.name, keepdims=int(self.keep_dims))


class ITopKLayer(ILayer):
    """The k largest or smallest along one axis, and their indices (int32)."""

    TYPE = LayerType.TOPK
    OUTPUTS = 2
    op = TopKOperation.MAX
    k: int = 1
    axes: int = 0

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        axis = axes_of(self.axes, len(tensor.shape) if tensor is not None else 1)[0]
        count = c.constant(f"{self.name}.k", int64([self.k]))
        wide = c.fresh(f"{y[1]}.int64")
        largest = int(self.op == TopKOperation.MAX)
        c.node("TopK", [x[0], count], [y[0], wide], name=self.name, axis=axis, largest=largest)
        c.node("Cast", [wide], [y[1]], name=f"{self.name}.indices", to=6)


class INormalizationLayer(ILayer):
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` over the axes whose bits are set, or in groups."""

    TYPE = LayerType.NORMALIZATION
    axes: int = 0
    epsilon: float = 1e-5
    num_groups: int = 1
    compute_precision = None

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        tensor = self.get_input(0)
        rank = len(tensor.shape) if tensor is not None else 0
        axes = axes_of(self.axes, rank)
        if self.num_groups != 1:
            return self._in_groups(c, x, y)
        if axes == tuple(range(axes[0], rank)):
            flat = [x[0], *(self._trailing(c, name, i + 1, len(axes)) for i, name in enumerate(x[1:3]))]
            return c.node("LayerNormalization", flat, y, name=self.name, axis=axes[0], epsilon=self.epsilon)
        return self._decomposed(c, x, y, axes)

    def _trailing(self, c: Composer, name: str, index: int, rank: int) -> str:
        """Scale or bias without its leading axes of size one."""
        tensor = self.get_input(index)
        shape = tensor.shape if tensor is not None else ()
        if len(shape) <= rank:
            return name
        target = c.fresh(f"{name}.trailing")
        sizes = c.constant(f"{self.name}.shape{index}", int64(shape[-rank:]))
        c.node("Reshape", [name, sizes], [target], name=f"{self.name}.reshape{index}")
        return target

    def _in_groups(self, c: Composer, x: list[str], y: list[str]) -> None:
        flat = [x[0]]
        for i, name in enumerate(x[1:3]):
            target = c.fresh(f"{name}.flat")
            sizes = c.constant(f"{self.name}.flat{i}", int64([-1]))
            c.node("Reshape", [name, sizes], [target], name=f"{self.name}.flatten{i}")
            flat.append(target)
        c.node(
            "GroupNormalization", flat, y, name=self.name, epsilon=self.epsilon, num_groups=self.num_groups
        )

    def _decomposed(self, c: Composer, x: list[str], y: list[str], axes: tuple[int, ...]) -> None:
        over = c.constant(f"{self.name}.axes", int64(axes))
        epsilon = c.constant(f"{self.name}.epsilon", np.float32(self.epsilon))
        current = {"x": x[0], "scale": x[1], "bias": x[2], "axes": over, "epsilon": epsilon}
        rows = (
            ("ReduceMean", ("x", "axes"), "mean"), ("Sub", ("x", "mean"), "centred"),
            ("Mul", ("centred", "centred"), "square"), ("ReduceMean", ("square", "axes"), "variance"),
            ("Add", ("variance", "epsilon"), "raised"), ("Sqrt", ("raised",), "deviation"),
            ("Div", ("centred", "deviation"), "normal"), ("Mul", ("normal", "scale"), "scaled"),
        )  # fmt: skip
        for op_type, inputs, output in rows:
            current[output] = c.fresh(f"{self.name}.{output}")
            c.node(op_type, [current[i] for i in inputs], [current[output]], name=f"{self.name}.{output}")
        c.node("Add", [current["scaled"], current["bias"]], y, name=self.name)

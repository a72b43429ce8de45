"""Layers over images: pools, padding, resizing, local normalization, sampling at a grid."""

from __future__ import annotations

import numpy as np

from intact.graph import TypedComposer
from intact.trt.base.itensor import Sizes
from intact.trt.base.operation_enums import (
    InterpolationMode,
    LayerType,
    PaddingMode,
    PoolingType,
    ResizeCoordinateTransformation,
    ResizeRoundMode,
    ResizeSelector,
    SampleMode,
)
from intact.trt.base.removed_members import hide_removed
from intact.trt.layers.base import ILayer, Nodes, int64, rank_of
from intact.trt.layers.convolution_and_matmul import WindowLayer, sizes_property

POOLS = {PoolingType.MAX: "MaxPool", PoolingType.AVERAGE: "AveragePool"}
MODES = {
    InterpolationMode.NEAREST: "nearest", InterpolationMode.LINEAR: "linear",
    InterpolationMode.CUBIC: "cubic",
}  # fmt: skip
COORDINATES = {
    ResizeCoordinateTransformation.ALIGN_CORNERS: "align_corners",
    ResizeCoordinateTransformation.ASYMMETRIC: "asymmetric",
    ResizeCoordinateTransformation.HALF_PIXEL: "half_pixel",
}
ROUNDINGS = {
    ResizeRoundMode.HALF_UP: "round_prefer_ceil", ResizeRoundMode.HALF_DOWN: "round_prefer_floor",
    ResizeRoundMode.FLOOR: "floor", ResizeRoundMode.CEIL: "ceil",
}  # fmt: skip
OUTSIDE = {SampleMode.FILL: "zeros", SampleMode.CLAMP: "border", SampleMode.REFLECT: "reflection"}


class IPoolingLayer(WindowLayer):
    """Largest value or mean of each window; `blend_factor` mixes the two: b of
    the mean and 1 - b of the largest.

    Attributes:
        window_size: TensorRT 8's name of `window_size_nd`.
    """

    TYPE = LayerType.POOLING
    _pooling = PoolingType.MAX
    window_size_nd: Sizes = ()
    blend_factor: float = 0.0
    average_count_excludes_padding: bool = True
    window_size = sizes_property("window_size_nd")
    dilation_nd = property(lambda self: ())
    dilation = property(lambda self: ())

    @property  # type: ignore[override]
    def type(self) -> PoolingType:
        """Return the reduction of each window."""
        return self._pooling

    @type.setter
    def type(self, pooling: PoolingType) -> None:
        self._pooling = PoolingType(pooling)
        self._network.touch()

    def _kernel(self) -> Sizes:
        return tuple(self.window_size_nd)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        if self._pooling is not PoolingType.MAX_AVERAGE_BLEND:
            return self._pool(c, self._pooling, x[0], y[0], self.name)
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

    def _pool(self, c: TypedComposer, kind: PoolingType, x: str, y: str, name: str) -> None:
        average = kind is PoolingType.AVERAGE
        up = self.padding_mode in (PaddingMode.EXPLICIT_ROUND_UP, PaddingMode.CAFFE_ROUND_UP)
        self._on_images(
            c, POOLS[kind], [x], y, name,
            kernel_shape=list(self.window_size_nd),
            ceil_mode=1 if up else None,
            count_include_pad=int(not self.average_count_excludes_padding) if average else None,
            **self._window(),
        )  # fmt: skip


class IPaddingLayer(ILayer):
    """Zeros around the two last axes; negative numbers cut off.

    Attributes:
        pre_padding, post_padding: TensorRT 8's names of those with ``_nd``.
    """

    TYPE = LayerType.PADDING
    pre_padding_nd: Sizes = (0, 0)
    post_padding_nd: Sizes = (0, 0)
    pre_padding = sizes_property("pre_padding_nd")
    post_padding = sizes_property("post_padding_nd")

    def check(self) -> list[str]:
        """Check for two numbers on each side, and an input with as many axes."""
        sides = len(self.pre_padding_nd), len(self.post_padding_nd)
        if sides != (2, 2) or rank_of(self.get_input(0)) < 2:
            return [f"padding has {sides[0]} and {sides[1]} numbers: two are needed, for the two last axes"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        outer = [0] * (rank_of(self.get_input(0)) - 2)
        pads = [*outer, *self.pre_padding_nd, *outer, *self.post_padding_nd]
        c.node("Pad", [x[0], c.constant(f"{self.name}.pads", int64(pads))], y, name=self.name)


class IResizeLayer(ILayer):
    """Another size by interpolation: `shape`, or `scales`, or input 1 with the shape.

    Attributes:
        align_corners: TensorRT 8's name of the coordinate transformation ALIGN_CORNERS.
    """

    TYPE = LayerType.RESIZE
    VALUES = (1,)
    shape: Sizes = ()
    scales: tuple[float, ...] = ()
    resize_mode = InterpolationMode.NEAREST
    coordinate_transformation = ResizeCoordinateTransformation.ASYMMETRIC
    selector_for_single_pixel = ResizeSelector.FORMULA
    nearest_rounding = ResizeRoundMode.FLOOR
    cubic_coeff: float = -0.75
    exclude_outside: bool = False

    @property
    def align_corners(self) -> bool:
        """Return whether corners are aligned."""
        return self.coordinate_transformation is ResizeCoordinateTransformation.ALIGN_CORNERS

    @align_corners.setter
    def align_corners(self, aligned: bool) -> None:
        self.coordinate_transformation = ResizeCoordinateTransformation(0 if aligned else 1)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        if len(x) > 1 and x[1]:
            inputs = [x[0], "", "", self._vector(n, 1)]
        elif len(self.scales):
            inputs = [x[0], "", n.array(np.asarray(self.scales, np.float32))]
        else:
            inputs = [x[0], "", "", n.ints(*self.shape) if len(self.shape) else n.sizes(x[0])]
        cubic = self.resize_mode is InterpolationMode.CUBIC
        c.node(
            "Resize", inputs, y, name=self.name, mode=MODES[self.resize_mode],
            coordinate_transformation_mode=self._coordinates(),
            nearest_mode=ROUNDINGS[self.nearest_rounding],
            cubic_coeff_a=self.cubic_coeff if cubic else None,
            exclude_outside=int(self.exclude_outside) or None,
        )  # fmt: skip

    def _coordinates(self) -> str:
        upper = self.selector_for_single_pixel is ResizeSelector.UPPER
        if upper and self.coordinate_transformation is ResizeCoordinateTransformation.HALF_PIXEL:
            return "pytorch_half_pixel"  # which differs for a size of one only: its upper left pixel
        return COORDINATES[self.coordinate_transformation]


class ILRNLayer(ILayer):
    """``x / (k + alpha / window_size * sum of squares over neighbouring channels) ** beta``."""

    TYPE = LayerType.LRN
    TITLE = "LRN"
    window_size: int = 5
    alpha: float = 1.0
    beta: float = 0.75
    k: float = 1.0

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        self._on_images(
            c, "LRN", x[:1], y[0], self.name, size=int(self.window_size), alpha=float(self.alpha),
            beta=float(self.beta), bias=float(self.k),
        )  # fmt: skip


class IGridSampleLayer(ILayer):
    """The input at the places that input 1 says, in [-1, 1]; see ONNX GridSample."""

    TYPE = LayerType.GRID_SAMPLE
    interpolation_mode = InterpolationMode.LINEAR
    align_corners: bool = False
    sample_mode = SampleMode.FILL

    def check(self) -> list[str]:
        """Check that the sample mode is one of three."""
        if self.sample_mode not in OUTSIDE:
            return [f"{self.sample_mode} is not supported: FILL, CLAMP and REFLECT are"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        c.node(
            "GridSample", x[:2], y, name=self.name, mode=MODES[self.interpolation_mode],
            padding_mode=OUTSIDE[self.sample_mode], align_corners=int(self.align_corners),
        )  # fmt: skip


for _kind in (IPoolingLayer, IPaddingLayer):
    hide_removed(_kind)

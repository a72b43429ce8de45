"""Layers that read or write elements by index: slices, gathers, scatters, NonZero, NMS."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.graph import TypedComposer
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import Sizes
from intact.trt.base.operation_enums import BoundingBoxFormat, GatherMode, LayerType, SampleMode, ScatterMode
from intact.trt.layers.base import CODES_AS_FLOATS, ILayer, Nodes, rank_of, sizes_in
from intact.trt.layers.data_movement import IConstantLayer

FARTHEST = np.iinfo(np.int64).min
"""End of a slice that runs backwards and takes the first element too."""


Parts = tuple[tuple[str, NDArray | None], tuple[str, NDArray | None], tuple[str, NDArray | None]]
"""Start, shape and stride of a slice: the name of each, and its values where they are known."""


class ISliceLayer(ILayer):
    """Selects `shape` elements of each axis from `start` on, every `stride`-th.

    Attributes:
        start, shape, stride: One number for each axis; inputs 1 to 3 take their places.
        axes: The axes that they are for; None: all. Input 5 takes its place.
        mode: What lies beyond the bounds; with FILL it is input 4, or zero.
    """

    TYPE = LayerType.SLICE
    CARRIERS = CODES_AS_FLOATS
    VALUES = (1, 2, 3, 5)
    start: Sizes = ()
    shape: Sizes = ()
    stride: Sizes = ()
    axes: Sizes | None = None
    mode = SampleMode.STRICT_BOUNDS

    def check(self) -> list[str]:
        """Check that nothing lies outside strict bounds, as far as it is known."""
        data = self.get_input(0)
        if self.mode != SampleMode.STRICT_BOUNDS or data is None or self._has_input(5):
            return []
        parts = [getattr(self, name) for name in ("start", "shape", "stride")]
        if any(self._has_input(i) for i in (1, 2, 3)) or len({len(part) for part in parts}) != 1:
            return []
        errors = []
        for axis, start, size, step in zip(self._axes(len(data.shape)), *parts, strict=False):
            last, there = start + (size - 1) * step, data.shape[axis]
            if there >= 0 and size > 0 and not (0 <= start < there and 0 <= last < there):
                errors.append(f"ISliceLayer has out of bounds access on axis {axis}")
        return errors

    def _has_input(self, index: int) -> bool:
        return self.get_input(index) is not None

    def _axes(self, rank: int) -> list[int]:
        axes = range(rank) if self.axes is None else self.axes
        return [int(axis) % rank for axis in axes]

    def _constant_values(self, index: int) -> NDArray | None:
        tensor = self.get_input(index)
        layer = tensor._producer if tensor is not None else None
        if isinstance(layer, IConstantLayer):
            return layer.array.reshape(-1).astype(np.int64)
        return None

    def _part(self, n: Nodes, x: list[str], index: int, value: Sizes) -> tuple[str, NDArray | None]:
        """Start, shape or stride: its name, and its values where they are known."""
        if index < len(x) and x[index]:
            values = self._constant_values(index)
            return self._vector(n, index), values
        return n.ints(*value), np.asarray(value, np.int64)

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, rank = Nodes(c, self.name), rank_of(self.get_input(0))
        start, size, stride = (
            self._part(n, x, i + 1, value) for i, value in enumerate((self.start, self.shape, self.stride))
        )
        axes = self._vector(n, 5) if self._has_input(5) else n.ints(*self._axes(rank))
        if self.mode == SampleMode.STRICT_BOUNDS and (stride[1] is None or not stride[1].all()):
            self._emit_repeated(n, x[0], y[0], (start, size, stride), axes)
        elif self.mode == SampleMode.STRICT_BOUNDS:
            self._emit_slice(n, x[0], y[0], (start, size, stride), axes)
        elif self._has_input(5):
            raise ValueError(f"axes from a tensor are not supported with {self.mode}")
        else:
            self._emit_sampled(n, x, y[0], (start, size, stride))

    def _emit_slice(self, n: Nodes, x: str, y: str | None, parts: Parts, axes: str) -> str:
        """Emit ONNX's Slice, which has no steps of 0."""
        start, size, stride = parts
        if start[1] is not None and size[1] is not None and stride[1] is not None:
            end = start[1] + size[1] * stride[1]
            end[(stride[1] < 0) & (end < 0)] = FARTHEST
            ends = n.array(end)
        else:
            plain = n("Add", start[0], n("Mul", size[0], stride[0]))
            ends = n("Where", n("Less", plain, n.ints(0)), n.ints(FARTHEST), plain)
        return n("Slice", x, start[0], ends, axes, stride[0], to=y)

    def _emit_repeated(self, n: Nodes, x: str, y: str, parts: Parts, axes: str) -> None:
        """Emit a slice where a stride is, or may be, 0: one element, as often as `shape` says."""
        start, size, stride = parts
        still = n("Equal", stride[0], n.ints(0)) if stride[1] is None else n.array(stride[1] == 0)

        def one_where_still(part: tuple[str, NDArray | None]) -> tuple[str, NDArray | None]:
            if part[1] is None or stride[1] is None:
                return n("Where", still, n.ints(1), part[0]), None
            values = np.where(stride[1] == 0, 1, part[1])
            return n.array(values), values

        selection = self._emit_slice(
            n, x, None, (start, one_where_still(size), one_where_still(stride)), axes
        )
        rank = rank_of(self.get_input(0))
        whole = size[0]
        if self.axes is not None or self._has_input(5):
            whole = n("ScatterElements", n.ints(*[1] * rank), axes, size[0])
        n("Expand", selection, whole, to=y)

    def _output_sizes(self, index: int) -> Sizes | None:
        if self.get_input(2) is None or self.axes is not None or self._has_input(5):
            return None
        return sizes_in(self.get_input(2))

    def _numbers(self) -> Sizes | None:
        whole, parts = sizes_in(self.get_input(0)), (self.start, self.shape, self.stride)
        if whole is None or any(map(self._has_input, (1, 2, 3, 5))) or any(len(part) != 1 for part in parts):
            return None
        places = [self.start[0] + i * self.stride[0] for i in range(self.shape[0])]
        return tuple(whole[i] for i in places) if all(0 <= i < len(whole) for i in places) else None

    def _emit_sampled(
        self, n: Nodes, x: list[str], y: str, parts: tuple[tuple[str, NDArray | None], ...]
    ) -> None:
        """Emit a slice axis by axis at places that `mode` moves inside.

        With FILL, then fill what was outside.
        """
        tensor = self.get_input(0)
        shape = tensor.shape if tensor is not None else ()
        current, inside = x[0], ""
        axes = self._axes(len(shape))
        for i, axis in enumerate(axes):
            places, within = self._places(n, x[0], axis, shape[axis], [(p, v, i) for p, v in parts])
            current = n("Gather", current, places, axis=axis)
            if self.mode == SampleMode.FILL:
                mask = n("Unsqueeze", within, n.ints(*(a for a in range(len(shape)) if a != axis)))
                inside = n("And", inside, mask) if inside else mask
        if self.mode == SampleMode.FILL:
            n("Where", inside, current, self._filling(n, x), to=y)
        else:
            n("Identity", current, to=y)

    def _filling(self, n: Nodes, x: list[str]) -> str:
        if self._has_input(4):
            return n("Reshape", x[4], n.ints(1))
        tensor = self.get_input(0)
        dtype = tensor.dtype if tensor is not None else DataType.FLOAT
        return n.array(np.zeros(1, self.CARRIERS.get(dtype, dtype.numpy)))

    def _places(self, n: Nodes, x: str, axis: int, there: int, parts: list[Any]) -> tuple[str, str]:
        """Write the positions of an axis that are taken, moved inside, and a mask of those that were
        inside."""
        if there >= 0 and all(v is not None for _, v, _ in parts):
            first, count, step = (int(v[i]) for _, v, i in parts)
            places = first + step * np.arange(count, dtype=np.int64)
            return n.array(self._move_inside(places, there)), n.array((places >= 0) & (places < there))
        start, size, stride = (n("Slice", p, n.ints(i), n.ints(i + 1)) for p, _, i in parts)
        turns = n("Range", n.ints(0, shape=()), n.scalar(size), n.ints(1, shape=()))
        indices, length = n("Add", start, n("Mul", turns, stride)), n.size(x, axis)
        within = n("And", n("GreaterOrEqual", indices, n.ints(0)), n("Less", indices, length))
        last = n("Sub", length, n.ints(1))
        if self.mode == SampleMode.WRAP:
            return n("Mod", indices, length), within
        if self.mode == SampleMode.REFLECT:
            period = n("Max", n("Mul", last, n.ints(2)), n.ints(1))
            there_and_back = n("Mod", indices, period)
            return n("Min", there_and_back, n("Sub", n("Mul", last, n.ints(2)), there_and_back)), within
        return n("Max", n("Min", indices, last), n.ints(0)), within

    def _move_inside(self, places: NDArray, there: int) -> NDArray:
        """Move `places` inside [0, there)."""
        last = there - 1
        if self.mode == SampleMode.WRAP:
            return places % there
        if self.mode == SampleMode.REFLECT:
            folded: NDArray = places % max(2 * last, 1)
            mirrored: NDArray = np.minimum(folded, 2 * last - folded)
            return mirrored
        return places.clip(0, last)


class IGatherLayer(ILayer):
    """Selects elements, slices or N-D indices of a tensor.

    Attributes:
        num_elementwise_dims: As many first axes of both inputs belong together: a gather for each of them.
    """

    TYPE = LayerType.GATHER
    CARRIERS = CODES_AS_FLOATS
    axis: int = 0
    mode = GatherMode.DEFAULT
    num_elementwise_dims: int = 0

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        places = n.cast(x[1], "int64")
        if self.mode is GatherMode.ND:
            n("GatherND", x[0], places, to=y[0], batch_dims=int(self.num_elementwise_dims))
        elif self.mode is GatherMode.ELEMENT:
            n("GatherElements", x[0], places, to=y[0], axis=int(self.axis))
        elif not self.num_elementwise_dims:
            n("Gather", x[0], x[1], to=y[0], axis=int(self.axis))
        else:
            self._elementwise(n, x[0], places, y[0])

    def _elementwise(self, n: Nodes, x: str, places: str, y: str) -> None:
        """Emit GatherND, which gathers along the first axis behind the shared ones: axes are moved there."""
        rank, index_rank = rank_of(self.get_input(0)), rank_of(self.get_input(1))
        shared = int(self.num_elementwise_dims)
        axis = int(self.axis) % rank
        if axis < shared:
            raise ValueError(f"axis {axis} is one of the {shared} elementwise dimensions")
        before = list(range(shared, axis))
        gather_axis_first = n("Transpose", x, perm=[*range(shared), axis, *before, *range(axis + 1, rank)])
        gathered = n("GatherND", gather_axis_first, n("Unsqueeze", places, n.ints(-1)), batch_dims=shared)
        new = index_rank - shared
        perm = [
            *range(shared), *range(shared + new, shared + new + len(before)), *range(shared, shared + new),
            *range(shared + new + len(before), rank - 1 + new),
        ]  # fmt: skip
        n("Transpose", gathered, to=y, perm=perm)


class IScatterLayer(ILayer):
    """Writes updates into the data at the indices."""

    TYPE = LayerType.SCATTER
    CARRIERS = CODES_AS_FLOATS
    SAME_TYPE = (0, 2)
    axis: int = 0
    mode = ScatterMode.ELEMENT

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        places = n.cast(x[1], "int64")
        if self.mode is ScatterMode.ND:
            n("ScatterND", x[0], places, x[2], to=y[0])
        else:
            n("ScatterElements", x[0], places, x[2], to=y[0], axis=int(self.axis))


class INonZeroLayer(ILayer):
    """Returns the indices of all elements that are not zero: [rank, as many as there are].

    Attributes:
        indices_type: Type of the indices: int32 or int64.
    """

    TYPE = LayerType.NON_ZERO
    TITLE = "NonZero"
    indices_type = DataType.INT32
    DATA_DEPENDENT = True

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        to = 7 if self.indices_type == DataType.INT64 else 6
        c.node("Cast", [n("NonZero", x[0])], y, name=self.name, to=to)


class IOneHotLayer(ILayer):
    """Inputs: indices, the two values (off, on), and how many there are; a new axis for them."""

    TYPE = LayerType.ONE_HOT
    TITLE = "OneHot"
    VALUES = (2,)
    MOVED_INPUT = 1
    CARRIERS = {DataType.INT32: "int64", DataType.BOOL: "int64", **CODES_AS_FLOATS}
    axis: int = -1

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        depth = self._vector(n, 2)
        n("OneHot", n.cast(x[0], "int64"), depth, x[1], to=y[0], axis=int(self.axis))


class INMSLayer(ILayer):
    """Suppresses boxes: of two that overlap, the one with the lower score goes.

    Inputs: boxes [N, boxes, 4], scores [N, boxes, classes], how many of a class; then the overlap and the
    score to exceed, 0 where they are not given. Outputs: [kept, 3] of batch, class, box, the best of a batch
    first; and how many.

    Attributes:
        topk_box_limit: As many boxes of each class, those with the highest scores, are looked at; -1: all.
        indices_type: Type of the first output: int32 or int64.
    """

    TYPE = LayerType.NMS
    TITLE = "NMS"
    OUTPUTS = 2
    DATA_DEPENDENT = True
    bounding_box_format = BoundingBoxFormat.CORNER_PAIRS
    topk_box_limit: int = -1
    indices_type = DataType.INT32

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, inputs = Nodes(c, self.name), [*x, "", ""][:5]
        boxes, scores = n.floats(x[0]), n("Transpose", n.floats(x[1]), perm=[0, 2, 1])  # ONNX has no other
        none = n.array(np.zeros(1, np.float32))
        if self.topk_box_limit > 0:
            count = n("Min", n.size(scores, 2), n.ints(self.topk_box_limit))
            best, places = c.fresh(f"{self.name}.best"), c.fresh(f"{self.name}.places")
            c.node("TopK", [scores, count], [best, places], name=best, axis=2)
            worst = n("ReduceMin", best, n.ints(2), keepdims=1)
            scores = n("Where", n("Less", scores, worst), n.array(np.float32(-np.inf)), scores)
        most = self._vector(n, 2)
        overlap = n("Reshape", inputs[3], n.ints(1)) if inputs[3] else none
        least = n("Reshape", inputs[4], n.ints(1)) if inputs[4] else none
        centred = int(self.bounding_box_format is BoundingBoxFormat.CENTER_SIZES)
        selected = n("NonMaxSuppression", boxes, scores, most, overlap, least, center_point_box=centred)
        to = 7 if self.indices_type == DataType.INT64 else 6
        c.node("Cast", [self._sort_by_batch_and_score(n, selected, scores)], [y[0]], name=self.name, to=to)
        c.node("Cast", [n.scalar(n.size(selected, 0))], [y[1]], name=f"{self.name}.count", to=6)

    def _sort_by_batch_and_score(self, n: Nodes, selected: str, scores: str) -> str:
        """Batch by batch, the highest score first: ONNX goes class by class."""
        count = n.size(selected, 0)
        by_score = self._order(n, n("GatherND", scores, selected), count, largest=1)
        batches = n("Gather", n("Gather", selected, by_score), n.ints(0, shape=()), axis=1)
        places = n("Range", n.ints(0, shape=()), n.scalar(count), n.ints(1, shape=()))
        by_batch = self._order(n, n("Add", n("Mul", batches, count), places), count, largest=0)
        return n("Gather", selected, n("Gather", by_score, by_batch))

    def _order(self, n: Nodes, keys: str, count: str, largest: int) -> str:
        values, places = (n.c.fresh(f"{self.name}.{part}") for part in ("values", "order"))
        n.c.node("TopK", [keys, count], [values, places], name=values, axis=0, largest=largest)
        return places

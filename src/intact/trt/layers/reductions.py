"""Layers along axes: reductions, Softmax, TopK, running sums, normalization."""

from __future__ import annotations

import numpy as np

from intact.graph import TypedComposer
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import Sizes
from intact.trt.base.operation_enums import (
    REDUCE_NODES,
    CumulativeOperation,
    LayerType,
    ReduceOperation,
    TopKOperation,
)
from intact.trt.base.removed_members import hide_removed
from intact.trt.layers.base import ILayer, Nodes, axes_of, int64, rank_of, sizes_in


class ISoftMaxLayer(ILayer):
    """Softmax over the one axis whose bit is set in `axes`."""

    TYPE = LayerType.SOFTMAX
    axes: int = 0

    def check(self) -> list[str]:
        """Check that one axis is set, where any is."""
        if bin(int(self.axes)).count("1") > 1:
            return [f"axes {bin(int(self.axes))}: Softmax is over one axis"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        rank = rank_of(self.get_input(0), 1)
        axes = axes_of(self.axes, rank) if self.axes else (max(rank - 3, 0),)  # TensorRT's default
        c.node("Softmax", x[:1], y, name=self.name, axis=axes[0])


class IRaggedSoftMaxLayer(ILayer):
    """Softmax over as many first elements of each row as input 1 says; zero behind them."""

    TYPE = LayerType.RAGGED_SOFTMAX
    TITLE = "Ragged SoftMax"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        zero, unit = n.ints(0, shape=()), n.ints(1, shape=())
        places = n("Range", zero, n.scalar(n.size(x[0], rank_of(self.get_input(0)) - 1)), unit)
        inside = n("Less", places, n.cast(x[1], "int64"))
        lowest = n.array(np.float32(np.finfo(np.float32).min))
        soft = n("Softmax", n("Where", inside, x[0], lowest), axis=-1)
        n("Where", inside, soft, n.array(np.float32(0)), to=y[0])


class IReduceLayer(ILayer):
    """Sum, mean, ... over the axes whose bits are set."""

    TYPE = LayerType.REDUCE
    op = ReduceOperation.SUM
    axes: int = 0
    keep_dims: bool = False

    def check(self) -> list[str]:
        """Check that there is an axis, and an operation."""
        if not int(self.axes):
            return ["at least one dimension is required for reduction"]
        return [] if self.op in REDUCE_NODES else [f"{self.op} reduces nothing"]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        axes = axes_of(self.axes, rank_of(self.get_input(0)))
        inputs = [x[0], c.constant(f"{self.name}.axes", int64(axes))]
        c.node(REDUCE_NODES[self.op], inputs, y, name=self.name, keepdims=int(self.keep_dims))


class ITopKLayer(ILayer):
    """The k largest or smallest along one axis, and their indices; `k`, or input 1.

    Attributes:
        indices_type: Type of the indices: int32 or int64.
    """

    TYPE = LayerType.TOPK
    TITLE = "TopK"
    OUTPUTS = 2
    VALUES = (1,)
    op = TopKOperation.MAX
    k: int = 1
    axes: int = 0
    indices_type = DataType.INT32
    is_strict: bool = False

    def check(self) -> list[str]:
        """Check that there is one axis, and that indices are integers."""
        if bin(int(self.axes)).count("1") != 1:
            return [f"reduceAxes {bin(int(self.axes))}: TopK is over one axis"]
        if self.indices_type not in (DataType.INT32, DataType.INT64):
            return [f"indices_type {self.indices_type}: indices are INT32 or INT64"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        axis = axes_of(self.axes, rank_of(self.get_input(0), 1))[0]
        dynamic = len(x) > 1 and x[1]
        count = self._vector(n, 1) if dynamic else n.ints(self.k)
        largest = int(self.op == TopKOperation.MAX)
        wide = c.fresh(f"{y[1]}.int64")
        c.node("TopK", [x[0], count], [y[0], wide], name=self.name, axis=axis, largest=largest)
        to = 6 if self.indices_type == DataType.INT32 else 7
        c.node("Cast", [wide], [y[1]], name=f"{self.name}.indices", to=to)

    def _output_sizes(self, index: int) -> Sizes | None:
        data, count = self.get_input(0), self.get_input(1)
        counts = (int(self.k),) if count is None else sizes_in(count)
        if data is None or counts is None:
            return None
        axis = axes_of(self.axes, len(data.shape))[0]
        return tuple(counts[0] if i == axis else size for i, size in enumerate(data.shape))


class ICumulativeLayer(ILayer):
    """Running sums along the axis that input 1 says."""

    TYPE = LayerType.CUMULATIVE
    op = CumulativeOperation.SUM
    exclusive: bool = False
    reverse: bool = False

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        if self.op is not CumulativeOperation.SUM:
            raise ValueError(f"{self.op} is no running operation")
        n = Nodes(c, self.name)
        axis = n.scalar(n.cast(x[1], "int64"))
        n("CumSum", x[0], axis, to=y[0], exclusive=int(self.exclusive), reverse=int(self.reverse))


class INormalizationLayer(ILayer):
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` over the axes whose bits are set, or in groups.

    Attributes:
        is_v2: Whether scale and bias of groups have one number for each channel, not for each group.
        compute_precision: Accepted; float32 always.
    """

    TYPE = LayerType.NORMALIZATION
    SAME_TYPE = (0, 1, 2)
    axes: int = 0
    epsilon: float = 1e-5
    num_groups: int = 1
    compute_precision = DataType.FLOAT
    _per_channel: bool = False
    is_v2 = property(lambda self: self._per_channel)

    def _title(self) -> str:
        return "NormalizationV2" if self._per_channel else "Normalization"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        rank = rank_of(self.get_input(0))
        axes = axes_of(self.axes, rank)
        if not axes:
            raise ValueError("axesMask has no bit: there is nothing to normalize over")
        n = Nodes(c, self.name)
        if self.num_groups != 1:
            return self._in_groups(n, x, y[0], rank)
        if axes == tuple(range(axes[0], rank)) and self._trails(axes):
            flat = [x[0], *(self._trailing(n, name, i + 1, len(axes)) for i, name in enumerate(x[1:3]))]
            return c.node("LayerNormalization", flat, y, name=self.name, axis=axes[0], epsilon=self.epsilon)
        scaled = n("Mul", self._normal(n, x[0], axes), x[1])
        n("Add", scaled, x[2], to=y[0])
        return None

    def _trails(self, axes: tuple[int, ...]) -> bool:
        """Return whether scale and bias vary along the normalized axes alone, and along all of them."""
        data = self.get_input(0)
        sizes = data.shape[axes[0] :] if data is not None else ()
        shapes = [t.shape for i in (1, 2) if (t := self.get_input(i)) is not None]
        return all(s[-len(axes) :] == sizes and all(d == 1 for d in s[: -len(axes)]) for s in shapes)

    def _trailing(self, n: Nodes, name: str, index: int, rank: int) -> str:
        """Scale or bias without its leading axes of size one."""
        tensor = self.get_input(index)
        shape = tensor.shape if tensor is not None else ()
        return name if len(shape) <= rank else n("Reshape", name, n.ints(*shape[-rank:]))

    def _normal(self, n: Nodes, x: str, axes: tuple[int, ...]) -> str:
        """Normalize `x` to mean 0 and variance 1 over `axes`."""
        over = n.ints(*axes)
        centred = n("Sub", x, n("ReduceMean", x, over))
        variance = n("ReduceMean", n("Mul", centred, centred), over)
        return n("Div", centred, n("Sqrt", n("Add", variance, n.array(np.float32(self.epsilon)))))

    def _in_groups(self, n: Nodes, x: list[str], y: str, rank: int) -> None:
        """Normalize groups of channels, each over its channels and everything behind them.

        Scale and bias have one number for each group, or one for each channel.
        """
        shape = n.sizes(x[0])
        channels = n("Slice", shape, n.ints(1), n.ints(2))
        rest = n("Slice", shape, n.ints(2), n.ints(rank))
        each = n("Div", channels, n.ints(self.num_groups))
        first = n("Slice", shape, n.ints(0), n.ints(1))
        split = n("Concat", first, n.ints(self.num_groups), each, rest, axis=0)
        normal = self._normal(n, n("Reshape", x[0], split), tuple(range(2, rank + 1)))
        factors = [self._spread(n, name, i + 1, rank) for i, name in enumerate(x[1:3])]
        n("Reshape", n("Add", n("Mul", normal, factors[0]), factors[1]), shape, to=y)

    def _spread(self, n: Nodes, name: str, index: int, rank: int) -> str:
        """Scale or bias in the shape (1, groups, channels of a group or 1, 1, ...)."""
        return n("Reshape", name, n.ints(1, self.num_groups, -1, *[1] * (rank - 2)))


hide_removed(INormalizationLayer)

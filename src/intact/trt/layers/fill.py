"""Layers that make data: straight lines, noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from intact.graph import TypedComposer
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import Sizes
from intact.trt.base.operation_enums import FillOperation, LayerType
from intact.trt.layers.base import ILayer, Nodes, sizes_in

DEFAULTS = {
    FillOperation.LINSPACE: (0.0, 1.0), FillOperation.RANDOM_UNIFORM: (0.0, 1.0),
    FillOperation.RANDOM_NORMAL: (0.0, 1.0),
}  # fmt: skip


class IFillLayer(ILayer):
    """Makes a tensor of `shape` (or of input 0's values): a line, or noise.

    Attributes:
        operation: LINSPACE: ``alpha + beta * index``, with a number of input 2 for each axis;
            RANDOM_UNIFORM in [alpha, beta); RANDOM_NORMAL with mean alpha and deviation beta.
        alpha, beta: Numbers; inputs 1 and 2 take their places.
        to_type: Element type.
    """

    TYPE = LayerType.FILL
    VALUES = (0,)
    shape: Sizes = ()
    operation = FillOperation.LINSPACE
    to_type = DataType.FLOAT
    alpha: Any = None
    beta: Any = None

    def __setattr__(self, key: str, value: Any) -> None:
        if key in ("alpha", "beta") and np.ndim(value) and self._network.dialect != "8.x":
            return self._network.warn(
                f"{self.name}: {key} takes one number; {value} is ignored, as in TensorRT 10"
            )
        return super().__setattr__(key, value)

    def is_alpha_beta_int64(self) -> bool:
        """Return whether alpha and beta are integers of 64 bits."""
        return self.to_type == DataType.INT64 and isinstance(self.alpha, int)

    def check(self) -> list[str]:
        """Check that a line through several axes has a step for each of them."""
        has_one_step = self.get_input(2) is None
        if self.operation is FillOperation.LINSPACE and has_one_step and self.get_input(0) is None:
            return [] if len(self.shape) == 1 else ["a line through several axes needs its steps as input 2"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, inputs = Nodes(c, self.name), [*x, "", "", ""][:3]
        if inputs[0]:
            sizes, rank = self._vector(n, 0), self._rank()
        else:
            sizes, rank = n.ints(*self.shape), len(self.shape)
        alpha, beta = (self._number(n, inputs[i + 1], i) for i in (0, 1))
        if self.operation is FillOperation.LINSPACE:
            values = self._line(n, sizes, rank, alpha, beta)
        else:
            values = self._noise(n, sizes, alpha, beta)
            if self.to_type is not DataType.FLOAT:  # numbers are drawn in float32
                values = n.cast(values, self.to_type.numpy.name)
        n("Identity", values, to=y[0])

    def _output_sizes(self, index: int) -> Sizes | None:
        return sizes_in(self.get_input(0))

    def _rank(self) -> int:
        tensor = self.get_input(0)
        return tensor.shape[0] if tensor is not None and tensor.shape else 1

    def _number(self, n: Nodes, wired: str, index: int) -> str:
        if wired:
            return n.cast(wired, self.to_type.numpy.name)
        number = (self.alpha, self.beta)[index]
        value = DEFAULTS[self.operation][index] if number is None else float(np.ravel(number)[0])
        return n.array(np.asarray(value, self.to_type.numpy))

    def _line(self, n: Nodes, sizes: str, rank: int, start: str, steps: str) -> str:
        line = n("Reshape", start, n.ints(*[1] * rank)) if rank else n.scalar(start)
        steps = n("Reshape", steps, n.ints(-1))
        for axis in range(rank):
            size = n.scalar(n("Slice", sizes, n.ints(axis), n.ints(axis + 1)))
            places = n.cast(
                n("Range", n.ints(0, shape=()), size, n.ints(1, shape=())), self.to_type.numpy.name
            )
            step = n("Slice", steps, n.ints(axis), n.ints(axis + 1))
            shape = [1] * rank
            shape[axis] = -1
            line = n("Add", line, n("Reshape", n("Mul", places, step), n.ints(*shape)))
        return n("Reshape", line, sizes) if rank and self.get_input(0) is None else line

    def _noise(self, n: Nodes, sizes: str, alpha: str, beta: str) -> str:
        blank = n("ConstantOfShape", sizes)
        if self.operation is FillOperation.RANDOM_NORMAL:
            noise = n("RandomNormalLike", blank, dtype=1)
            return n("Add", n("Mul", noise, beta), alpha)
        return n("Add", n("Mul", n("RandomUniformLike", blank, dtype=1), n("Sub", beta, alpha)), alpha)

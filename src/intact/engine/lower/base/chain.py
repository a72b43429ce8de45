"""Write several steps for one node, from tensor to tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.steps import Binary, Function, LayerNorm, Reduce, Reshape, Step
from intact.engine.steps.base.dims import Dim
from intact.graph import Node

Shape = tuple[Dim, ...]


class StepChain:
    """The steps of one node, from tensor to tensor; the last one of them writes its output.

    Each method returns the tensor that its step makes: `into`, or one of `shape` that the graph does not
    have.
    """

    def __init__(self, builder: PlanBuilder, node: Node) -> None:
        self._builder, self._node = builder, node
        self.value = node.outputs[0]
        self._who = node.name or "", (node.name or "",)
        self.output = builder.output(self.value)
        self.y = builder.write(self.output, self.value)

    def number(self, key: str, number: float) -> str:
        """Store a constant without axes."""
        return self.hold(key, np.array(number, np.float32))

    def hold(self, key: str, array: NDArray[np.float32]) -> str:
        """Store a constant."""
        return self._builder.hold(f"{self._node.name}.{key}", array)

    def binary(self, function: str, a: str, b: str, shape: Shape, into: str = "") -> str:
        return self._add(lambda y: Binary(*self._who, function, a, b, y), shape, into)

    def function(self, function: str, x: str, shape: Shape, into: str = "") -> str:
        return self._add(lambda y: Function(*self._who, x, y, function), shape, into)

    def reduce(
        self, function: str, x: str, axes: Sequence[int], keepdims: bool, shape: Shape, into: str = ""
    ) -> str:
        return self._add(lambda y: Reduce(*self._who, x, y, function, tuple(axes), keepdims), shape, into)

    def reshape(self, x: str, shape: Shape, into: str = "") -> str:
        return self._add(lambda y: Reshape(*self._who, x, y), shape, into)

    def layer_norm(self, x: str, epsilon: float, shape: Shape, *, last: bool) -> str:
        """Write a layer normalization; the `last` step writes codes where these are asked for."""
        grid = self.output.grid if last else None
        name, codes = f"{self.value.name}.part", None if grid is None else grid.codes()
        y = self._builder.scratch(name, "float32" if codes is None else "codes", shape, codes)
        return self._add(lambda y: LayerNorm(*self._who, x, y, "", "", epsilon), shape, y)

    def _add(self, step: Callable[[str], Step], shape: Shape, into: str) -> str:
        y = into or self._builder.scratch(f"{self.value.name}.part", "float32", shape)
        self._builder.add(step(y), *[self._node] * (y == self.y))
        return y

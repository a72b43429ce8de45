"""Base of every kind of step: its names, and the four functions that its home defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import reads

Halo = tuple[int, int, int, int]
"""Pixels above, left of, below and right of every image of a tensor."""


@dataclass(frozen=True)
class Traits:
    """Describes which memory layouts a kind of step accepts, so that a backend may choose.

    Attributes:
        images: It walks over pixels: its tensors of rank 4 lie channels last.
        follows: It takes and makes any order of axes, the same for all its tensors: channels last where its
            neighbours want that.
        by_image: Element i along the first axis of what it makes depends on elements i of what it reads
            alone, wherever all of these have as many.
        strided: It reads and writes tensors with any strides, at no cost worth a copy.
        writes_parts: What it makes may be a part of a larger tensor.
        in_place: Fields whose tensor the output may overwrite, when nobody reads it later: each of its
            elements is read before that element is written, in the same piece of work.
    """

    images: bool = False
    follows: bool = False
    by_image: bool = False
    strided: bool = False
    writes_parts: bool = False
    in_place: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One kernel call, with no shape fixed.

    Attributes:
        name: The layer's name: its first node.
        nodes: Names of all nodes of the graph that it does.
    """

    kind: ClassVar[str]
    traits: ClassVar[Traits] = Traits()
    native: ClassVar[bool] = True
    """True where kernels run the step, rather than Python or ONNX Runtime."""

    name: str
    nodes: tuple[str, ...]

    def check(self, checker: Checker) -> None:
        """Refuse contents that no lowering writes, beyond what the types of the fields exclude.

        Raises:
            FileFormatError: Names the step.
        """

    def output_shape(self, sizes: Sizes) -> Shape:
        """Return the sizes of the one output; by default those of the first input.

        Raises:
            QuantValueError: The sizes that it reads do not fit each other.
        """
        return sizes.of(reads(self)[0])

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        """Return the sizes of all outputs, in the order of the fields.

        Raises:
            QuantValueError: As for `output_shape`.
        """
        return (self.output_shape(sizes),)

    def evaluate(self, run: Run) -> None:
        """Compute it as `numerics` says: its meaning, which every backend equals. NORMATIVE."""
        raise NotImplementedError(self.kind)

    def halo(self, constants: Mapping[str, NDArray[Any]]) -> dict[str, Halo]:
        """Return by how much the step reads beyond the edges of each tensor."""
        return {}

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        """Count multiply-accumulates; `shape_of` tensor or constant."""
        return 0

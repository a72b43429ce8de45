"""Define the record that every kind of step extends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.rules import check_sizes, sizes_by_rules
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import reads


@dataclass(frozen=True)
class Step:
    """One kernel call, with no shape fixed.

    Attributes:
        name: The layer's name: its first node.
        nodes: Names of all nodes of the graph that it does.
    """

    kind: ClassVar[str]
    native: ClassVar[bool] = True
    """True where kernels run the step, rather than Python or ONNX Runtime."""

    rules: ClassVar[str] = ""
    """Demands on plans, and the sizes of the outputs, as text (`base.rules`)."""

    name: str
    nodes: tuple[str, ...]

    def check(self, checker: Checker) -> None:
        """Refuse contents that no lowering writes, beyond what rules and the types of fields exclude.

        Raises:
            FileFormatError: Names the step.
        """

    def output_shape(self, sizes: Sizes) -> Shape:
        """Return the sizes of the one output where no rule says them; by default those of the first input.

        Raises:
            QuantValueError: The sizes that it reads do not fit each other.
        """
        return sizes.of(reads(self)[0])

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        """Return the sizes of all outputs, in the order of the fields.

        Raises:
            QuantValueError: As for `output_shape`.
        """
        check_sizes(self, sizes)
        return sizes_by_rules(self, sizes) or (self.output_shape(sizes),)

    def evaluate(self, run: Run) -> None:
        """Compute it as `numerics` says: its meaning, which every backend equals. NORMATIVE."""
        raise NotImplementedError(self.kind)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        """Count multiply-accumulates; `shape_of` tensor or constant."""
        return 0

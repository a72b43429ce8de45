"""Records of LSTM, GRU and RNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph.ops.record import Kind, Operator


@dataclass(frozen=True)
class Recurrent(Operator, shared=True):
    """Inputs: data [steps, batch, in], weights of inputs [directions, gates * hidden, in], weights of states
    [directions, gates * hidden, hidden], biases [directions, 2 * gates * hidden], lengths [batch], states
    [directions, batch, hidden]. With `layout` 1 the batch comes first, in data and states.

    Outputs: all states [steps, directions, batch, hidden], and the last ones; any may be left out.

    Attributes:
        gates: Rows of weights for each element of the state, as many times; their order is ONNX's.
        usual: What `activations` are for one direction where they are left out.
    """

    kind: ClassVar[Kind] = "recurrent"
    gates: ClassVar[int] = 1
    usual: ClassVar[tuple[str, ...]] = ()
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0
    activations: tuple[str, ...] | None = None
    clip: float | None = None

    @property
    def weight_axis(self) -> int:
        """The axis of the weights along which gates lie."""
        return 1

    @property
    def reverse_flags(self) -> tuple[bool, ...]:
        """Of each direction, whether it begins at the last step.

        Raises:
            FileFormatError: There is no such direction.
        """
        both = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if self.direction not in both:
            got, want = f"{self.direction!r}"[:60], f"one of {', '.join(both)}"
            raise FileFormatError("attribute 'direction'", got, want, "export the model again")
        return both[self.direction]

    def unusual(self, node: ir.Node) -> str:
        """Return an unusual setting of `node` that no kernel supports; "" where there is none."""
        if self.clip is not None:
            return f"it clips what goes into its gates to {self.clip:g}"
        return self._unusual_functions()

    def _unusual_functions(self) -> str:
        functions = self.activations or ()
        usual = [name.lower() for name in self.usual] * len(self.reverse_flags)
        if not functions or [name.lower() for name in functions] == usual:
            return ""
        return f"its functions are {', '.join(functions)}"


@dataclass(frozen=True)
class GRU(Recurrent):
    """Gates: update, reset, candidate."""

    gates: ClassVar[int] = 3
    usual: ClassVar[tuple[str, ...]] = ("Sigmoid", "Tanh")
    linear_before_reset: int = 0


@dataclass(frozen=True)
class LSTM(Recurrent):
    """Gates: input, output, forget, candidate. Inputs behind the states: cells, and peepholes."""

    gates: ClassVar[int] = 4
    usual: ClassVar[tuple[str, ...]] = ("Sigmoid", "Tanh", "Tanh")
    input_forget: int = 0

    def unusual(self, node: ir.Node) -> str:
        """Return an unusual setting, as `Recurrent` does."""
        if self.input_forget:
            return "it couples its input and forget gates"
        if len(node.inputs) > 7 and node.inputs[7] is not None:
            return "it has peepholes: weights from its cells to its gates"
        return super().unusual(node)


class RNN(Recurrent):
    """No gates: the function itself."""

    usual: ClassVar[tuple[str, ...]] = ("Tanh",)

    @property
    def rectifies(self) -> bool:
        """Return whether its function is Relu."""
        return {name.lower() for name in self.activations or ()} == {"relu"}

    def _unusual_functions(self) -> str:
        return "" if self.rectifies else super()._unusual_functions()

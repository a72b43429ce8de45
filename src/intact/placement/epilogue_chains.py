"""Match what one kernel does after its products: affine nodes, one residual Add, one activation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from intact.graph import Value
from intact.graph.ops import CONVOLUTIONS, BatchNormalization
from intact.placement.activations import Activation, activation_behind
from intact.placement.placement_graph import Op, Reader, View, shape_of
from intact.placement.profiles import Profile
from intact.placement.records import Fusion

_SCALES = frozenset({"Mul", "Div"})
_OFFSETS = frozenset({"Add", "Sub"})


@dataclass(frozen=True)
class Chain:
    """Ops that become one kernel, in the graph's order, by what each does there.

    Attributes:
        root: What computes.
        affine: BatchNorms, biases and factors by constants behind it.
        residual: The edge over which the Add behind those reads its other branch; None where there is none.
        activation: The one function at the end.
    """

    root: Op
    affine: tuple[Op, ...] = ()
    residual: Reader | None = None
    activation: Activation | None = None

    @property
    def ops(self) -> tuple[Op, ...]:
        """All of them."""
        add = () if self.residual is None else (self.residual[0],)
        return (self.root, *self.affine, *add, *(self.activation.ops if self.activation is not None else ()))

    @property
    def output(self) -> Value:
        """Return the output of the last operator."""
        return self.ops[-1].outputs[0] if self.activation is None else self.activation.output

    @property
    def fusion(self) -> Fusion:
        """The same by the names of nodes, which hold in any copy of the graph."""
        return Fusion(
            self.root.display_name,
            self.root.name,
            tuple((op.display_name, op.name) for op in self.affine),
            "" if self.residual is None else self.residual[0].name,
            "" if self.activation is None else self.activation.label,
            () if self.activation is None else tuple(op.name for op in self.activation.ops),
        )


def linear_tail(view: View, root: Op, barred: Callable[[Op], bool], cut: Callable[[Reader], bool]) -> Chain:
    """Return `root` and the operators behind it that only change its multipliers and bias.

    Before: ``Conv -> BatchNormalization -> Add(constant per channel)``.  After: one kernel.

    Guards: nobody else reads the values in between; `cut` says of an edge that a pair stands on it.
    """
    affine, value = list[Op](), root.outputs[0]
    while (reader := view.only_reader(value)) is not None:
        op, index = reader
        if cut(reader) or barred(op) or not _is_linear(view, root, op, index):
            break
        affine.append(op)
        value = op.outputs[0]
    return Chain(root, tuple(affine))


def with_activation(
    view: View, profile: Profile, chain: Chain, barred: Callable[[Op], bool], cut: Callable[[Reader], bool]
) -> Chain:
    """Extend `chain` by the one activation behind it that `profile` fuses."""
    activation: Activation | None = activation_behind(view, profile, chain.output)
    if activation is None or any(map(barred, activation.ops)):
        return chain
    if any(cut((op, i)) for op in activation.ops for i, v in enumerate(op.inputs) if not view.is_constant(v)):
        return chain
    return replace(chain, activation=activation)


def _is_linear(view: View, root: Op, op: Op, index: int) -> bool:
    if op.domain:
        return False
    if op.op_type == "BatchNormalization":
        constant = all(map(view.is_constant, op.inputs[1:]))
        return index == 0 and constant and not BatchNormalization.of(op.node).training_mode
    if op.op_type in _OFFSETS | _SCALES and (index == 0 or op.op_type in ("Add", "Mul")):
        return _is_per_channel(view, root, op.inputs[1 - index])
    return False


def _is_per_channel(view: View, root: Op, value: Value | None) -> bool:
    """Return whether a constant has one number, or one for each channel that `root` makes."""
    if value is None or not view.is_constant(value):
        return False
    shape, rank = shape_of(value), shape_of(root.outputs[0])
    if shape is None or None in shape:
        array = view.constants(value)
        shape = list(array.shape) if array is not None else []
    wide = [i - len(shape) for i, size in enumerate(shape) if size != 1]
    if root.op_type in CONVOLUTIONS:
        axis = 1 - len(rank) if rank is not None else 1 - len(shape)
        return not wide or (wide == [axis] and len(shape) > 1)
    return not wide or wide == [-1]

"""What one kernel does behind its products: BatchNorm, bias, scaling, one residual Add, one activation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from intact.graph import Value
from intact.graph.ops import CONVOLUTIONS, BatchNormalization
from intact.placement.activations import Activation, activation_behind
from intact.placement.profiles import Profile
from intact.placement.view import Op, Reader, View, shape_of

_SCALES = frozenset({"Mul", "Div"})
_OFFSETS = frozenset({"Add", "Sub"})


@dataclass(frozen=True)
class Chain:
    """Ops that become one kernel.

    Attributes:
        ops: In the graph's order, the root first.
        label: "Conv+Add+Relu".
        output: What the last of them makes.
        residual: The edge over which a residual Add reads its other branch.
    """

    ops: tuple[Op, ...]
    label: str
    output: Value
    residual: Reader | None = None


def linear_tail(view: View, root: Op, barred: Callable[[Op], bool], cut: Callable[[Reader], bool]) -> Chain:
    """`root` and the operators behind it that only change its multipliers and bias.

    Before: ``Conv -> BatchNormalization -> Add(constant per channel)``.  After: one kernel.

    Guards: nobody else reads the values in between; `cut` says of an edge that a pair stands on it.
    """
    ops, value = [root], root.outputs[0]
    while (reader := view.only_reader(value)) is not None:
        op, index = reader
        if cut(reader) or barred(op) or not _is_linear(view, root, op, index):
            break
        ops.append(op)
        value = op.outputs[0]
    return Chain(tuple(ops), "+".join(op.op_type for op in ops), value)


def extend(
    chain: Chain, ops: tuple[Op, ...], label: str, output: Value, residual: Reader | None = None
) -> Chain:
    """`chain` with further ops at its end."""
    return Chain((*chain.ops, *ops), f"{chain.label}+{label}", output, residual or chain.residual)


def with_activation(
    view: View, profile: Profile, chain: Chain, barred: Callable[[Op], bool], cut: Callable[[Reader], bool]
) -> Chain:
    """`chain` and the one activation behind it that `profile` fuses."""
    found: Activation | None = activation_behind(view, profile, chain.output)
    if found is None or any(map(barred, found.ops)):
        return chain
    if any(cut((op, i)) for op in found.ops for i, v in enumerate(op.inputs) if not view.is_constant(v)):
        return chain
    return extend(chain, found.ops, found.label, found.output)


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
    """Whether a constant has one number, or one for each channel that `root` makes."""
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

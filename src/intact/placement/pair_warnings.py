"""Warnings about pairs of a file that cost speed or accuracy: one function for each, all in one table.

`read_placement` puts them into the reasons of layers, `check` reports them as warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from intact.graph import Value, is_op
from intact.graph.ops import CONVOLUTIONS, PRODUCTS
from intact.placement.activations import activation_behind
from intact.placement.epilogue_chains import linear_tail
from intact.placement.pairs import Pairs, same_scale
from intact.placement.placement_graph import Op, Reader, View
from intact.placement.profiles import Profile


@dataclass(frozen=True)
class Remark:
    """Something about the pairs around one node.

    Attributes:
        op: The node.
        rule: Name of the remark's kind.
        message: What is so.
        fix: What to do about it.
    """

    op: Op
    rule: str
    message: str
    fix: str


@dataclass(frozen=True)
class Read:
    """A Q/DQ graph, as the remarks ask about it.

    Attributes:
        view, pairs, profile: The graph, its pairs, and what fuses.
        stems: The end of each weighted layer's linear tail -> that layer.
    """

    view: View
    pairs: Pairs
    profile: Profile
    stems: dict[Value, Op]

    def stem(self, add: Op, index: int) -> Op | None:
        """Return the weighted layer that ends in an input of `add` and has no other reader."""
        value = add.inputs[index]
        if value is None or self.view.only_reader(value) != (add, index):
            return None
        return self.stems.get(value)


def pair_before_activation(read: Read) -> Iterator[Remark]:
    """Warn of a pair between a layer and its activation.

    Before: ``Conv -> Q/DQ -> Relu``.  Better: ``Conv -> Relu -> Q/DQ``: one kernel, and half the range."""
    for value, op in read.stems.items():
        activation = activation_behind(read.view, read.profile, value)
        if activation is not None and any(
            reader[0] in activation.ops for reader, _ in read.pairs.readers(value)
        ):
            yield Remark(
                op, "pair-before-activation",
                f"a pair stands between {op} and its {activation.label}, which keeps them from being one "
                "kernel",
                f"remove the pair behind {op.op_type} and let it stand behind {activation.label}",
            )  # fmt: skip


def pairs_on_both_branches(read: Read) -> Iterator[Remark]:
    """Warn of pairs on both operands of a residual Add.

    Before: ``Conv -> Q/DQ -> Add <- Q/DQ(x)``.  Better: ``Conv -> Add <- Q/DQ(x)``: one kernel."""
    for op in _adds(read.view):
        root = read.stem(op, 0) or read.stem(op, 1)
        if root is not None and all((op, i) in read.view.marks for i in (0, 1)):
            yield Remark(
                op, "pairs-on-both-branches",
                f"Q/DQ on both inputs of {op} keep {root} from taking it in",
                f"remove the pair between {root.name} and {op.name}",
            )  # fmt: skip


def no_pair_on_identity(read: Read) -> Iterator[Remark]:
    """Warn of a residual Add whose identity operand has no pair.

    Before: ``Conv -> Add <- x``.  Better: ``Conv -> Add <- Q/DQ(x)``: one kernel, else both leave int8."""
    for op in _adds(read.view):
        main = 0 if read.stem(op, 0) is not None else 1
        root = read.stem(op, main)
        if root is None or (root, 0) not in read.view.marks or not _is_quantized(read, op):
            continue
        if (op, main) not in read.view.marks and read.pairs.above((op, 1 - main)) is None:
            yield Remark(
                op, "no-pair-on-identity",
                f"the identity branch of {op} has no Q/DQ: {root} and it run in float",
                f"put a pair on input {1 - main} of {op.name}",
            )  # fmt: skip


def _adds(view: View) -> Iterator[Op]:
    for op in view.ops:
        if op.domain == "" and op.op_type == "Add" and not any(map(view.is_constant, op.inputs)):
            yield op


def _is_quantized(read: Read, op: Op) -> bool:
    """Return whether a pair stands behind `op` or its activation."""
    activation = activation_behind(read.view, read.profile, op.outputs[0])
    return any(True for _ in read.pairs.readers(op.outputs[0] if activation is None else activation.output))


def different_scales_at_concat(read: Read) -> Iterator[Remark]:
    """Warn of a Concat whose inputs have different scales.

    Before: ``Q/DQ(a, s1), Q/DQ(b, s2) -> Concat``.  Better: one scale for both: codes are copied.

    Where the engine rescales, a part that others read too is better on a grid of its own.
    """
    for op in read.view.ops:
        if op.domain or op.op_type != "Concat":
            continue
        parts: list[Reader] = [(op, i) for i in range(len(op.inputs))]
        if read.profile.rescales:
            parts = [part for part in parts if read.pairs.alone(part)]
        views = [read.pairs.above(part) for part in parts]
        known_views = [view for view in views if view is not None]
        if (
            known_views
            and len(known_views) == len(views)
            and any(not same_scale(view, known_views[0]) for view in known_views)
        ):
            yield Remark(
                op, "different-scales-at-concat",
                f"the inputs of {op} have different scales: each is rescaled before it is copied",
                "give all its inputs one scale",
            )  # fmt: skip


def different_scales_of_one_tensor(read: Read) -> Iterator[Remark]:
    """Warn of one tensor quantized with several scales.

    Before: ``x -> Q/DQ(s1) -> a``, ``x -> Q/DQ(s2) -> b``.  Better: one pair that both read."""
    for value in read.pairs.tensors:
        readers = list(read.pairs.readers(value))
        other = next((r for r, view in readers if not same_scale(view, readers[0][1])), None)
        if other is not None and not read.view.is_constant(value):
            yield Remark(
                other[0], "different-scales-of-one-tensor",
                f"'{value.name}' is quantized with other scales for {readers[0][0][0]} than for {other[0]}",
                "quantize the tensor once and let all its readers read that",
            )  # fmt: skip


def redundant_pairs(read: Read) -> Iterator[Remark]:
    """Warn of pairs that follow each other.

    Before: ``Q -> DQ -> Q -> DQ``.  Better: one pair; with other scales it rounds twice."""
    for (op, index), mark in read.view.marks.items():
        source = mark.q.inputs[0] if mark.q is not None else None
        above = source.producer() if source is not None else None
        if is_op(above, "DequantizeLinear") and not read.view.is_constant(source):
            yield Remark(
                op, "redundant-pairs",
                f"two pairs stand one behind the other on input {index} of {op}",
                "remove one of them",
            )  # fmt: skip


def pair_behind_pad(read: Read) -> Iterator[Remark]:
    """Warn of a pair behind a Pad.

    Before: ``x -> Pad -> Q/DQ -> Conv``.  Better: ``x -> Q/DQ -> Pad -> Conv``: codes are padded."""
    for op in read.view.ops:
        is_pad = op.domain == "" and op.op_type == "Pad" and read.pairs.above((op, 0)) is None
        if is_pad and any(True for _ in read.pairs.readers(op.outputs[0])):
            yield Remark(
                    op, "pair-behind-pad",
                    f"{op} pads floats that are quantized behind it",
                    f"put the pair in front of {op.name}",
                )  # fmt: skip


REMARKS: tuple[Callable[[Read], Iterator[Remark]], ...] = (
    pair_before_activation,
    pairs_on_both_branches,
    no_pair_on_identity,
    different_scales_at_concat,
    different_scales_of_one_tensor,
    redundant_pairs,
    pair_behind_pad,
)
"""Each says one thing; a new one is a function and a line here."""


def remarks_on(view: View, pairs: Pairs, profile: Profile) -> list[Remark]:
    """Return all remarks on a graph and its pairs, in the order of the table and of the graph."""
    stems = {
        linear_tail(view, op, lambda op: False, view.marks.__contains__).output: op
        for op in view.ops
        if op.domain == "" and op.op_type in CONVOLUTIONS | PRODUCTS
    }
    read = Read(view, pairs, profile, stems)
    return [remark for say in REMARKS for remark in say(read)]

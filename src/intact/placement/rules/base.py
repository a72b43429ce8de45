"""`Rule` and `Context`: what a placement rule is, and what it may read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from intact.graph import Value, ops
from intact.graph.ops import CONVOLUTIONS, RECURRENT, may_move
from intact.placement.activations import activation_behind
from intact.placement.placement_graph import Op, Reader, View, may_be_float
from intact.placement.profiles import Profile
from intact.placement.records import Kept
from intact.processes import cached_property

Kind = Literal["multiplies", "projects", "joins", "computes", "moves"]


WIDE = (
    "it reads float64, for which ONNX Runtime has no such layer: make model and data float32, as "
    "`module.float()` does"
)
"""Reason for convolutions and recurrent layers in float64; products of float64 run everywhere."""


@dataclass(frozen=True)
class Int8:
    """Result of a rule that applies: inputs to quantize, and the reason."""

    inputs: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Rule:
    """Describes how one kind of node takes part in int8.

    Attributes:
        name: Short, for tables and documents.
        op_types: The ONNX operators that it is asked about.
        kind: "multiplies": int8 in is enough, the output may stay float.
            "projects": so it is, and no operator behind it is part of its layer.
            "computes": int8 in and out, or float.
            "moves": hands codes on as they are, so that Q moves up through it and DQ down.
            "joins": belongs to the layer of one of its inputs, or reads the codes of it.
        reads: The inputs that come quantized when it runs in int8; or what rules the node out in any file.
        wants: Whether a float graph gets pairs there; asked after every reader of its outputs was.
    """

    name: str
    op_types: frozenset[str]
    kind: Kind
    reads: Callable[[View, Op], tuple[int, ...] | Kept]
    wants: Callable[[Context, Op, tuple[int, ...]], Int8 | Kept]


@dataclass
class Context:
    """State of the walk over the graph from its outputs to its inputs.

    Attributes:
        view, profile: The graph, and whose engine it is for.
        wanted: Edges that were decided to come quantized.
        roots: Layers with a weight, or with two activations multiplied, that will run in int8.
        stems: The end of each root's linear tail, before a residual Add or an activation -> that root.
        fused: Operators that another one's layer takes in: biases, BatchNorms, activations.
    """

    view: View
    profile: Profile
    wanted: set[Reader] = field(default_factory=set)
    roots: set[Op] = field(default_factory=set)
    stems: dict[Value, Op] = field(default_factory=dict)
    fused: set[Op] = field(default_factory=set)

    @cached_property
    def in_logarithms(self) -> frozenset[Op]:
        """Operators whose results become a logarithm as they are."""
        return before_logarithms(self.view)

    def float_reader(self, value: Value) -> str | None:
        """Return the name of a reader that takes `value` in float; None where all its readers quantize it."""
        if self.view.is_output(value):
            return "a graph output"
        if value in self.view.read_by_subgraphs:
            return f"'{self.view.read_by_subgraphs[value]}' in a subgraph"
        readers = self.view.readers(value)
        if not readers:
            return "nobody"
        return next((str(reader[0]) for reader in readers if reader not in self.wanted), None)

    def has_int8_reader(self, value: Value) -> bool:
        """Return whether some reader of `value` reads it quantized."""
        return any(reader in self.wanted for reader in self.view.readers(value))

    def behind_activation(self, value: Value) -> Value:
        """Return `value`, or the output of the activation that fuses behind it."""
        activation = activation_behind(self.view, self.profile, value)
        return value if activation is None else activation.output

    def float_outputs(self, op: Op) -> Kept | None:
        """Return why the outputs of `op`, its activation included, cannot all be written in int8."""
        for output in op.outputs:
            if len(op.outputs) > 1 and not self.view.readers(output) and not self.view.is_output(output):
                continue
            if (reader := self.float_reader(self.behind_activation(output))) is not None:
                return Kept(f"its output is read in float, by {reader}: int8 inside would only add error")
        return None


def not_float(op: Op, inputs: tuple[int, ...]) -> Kept | None:
    """Return why integers are not quantized, and what no runtime has in float64."""
    for index in inputs:
        value = op.inputs[index]
        if not may_be_float(value):
            kind = value.dtype.name.lower() if value is not None and value.dtype is not None else "nothing"
            return Kept(f"input {index} holds {kind}, not floats")
        is_double = value is not None and value.dtype is not None and value.dtype.name == "DOUBLE"
        if is_double and op.op_type in CONVOLUTIONS | RECURRENT:
            return Kept(WIDE)
    return None


_WRITES_INT8 = frozenset({"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "ReduceMean"})


def float_source(ctx: Context, value: Value | None) -> str | None:
    """Return the operator that makes `value` in float; None where it can write int8.

    Looks up through the operators that only move data. The makers are not decided yet, for the graph is
    walked upwards: this asks what they could do.
    """
    while value is not None:
        if value in ctx.stems:
            return None
        op = ctx.view.producer(value)
        if op is None:
            return "a graph input"
        if op in ctx.fused or (op.domain == "" and op.op_type in _WRITES_INT8 | ctx.profile.tables):
            return None
        if not may_move(op.node):
            return str(op)
        value = op.inputs[0]
    return "nothing"


_SCALED = frozenset({
    "Abs", "Add", "Cast", "Clip", "Conv", "ConvTranspose", "Div", "Gemm", "MatMul", "Max", "Mean", "Mul",
    "Neg", "Pow", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare",
    "Sqrt", "Sub", "Sum", "Where",
})  # fmt: skip
"""Operators through which a factor of the data reaches a Log, which magnifies the smallest results.

Not so behind an activation, a normalization or an exponential, where a network has begun, or ended.
"""


TAKES_LOGARITHM = "the logarithm of its results is taken: even steps have no codes for the small ones"


def before_logarithms(view: View) -> frozenset[Op]:
    """Find operators whose results reach a Log with their magnitude preserved, as in spectrograms.

    Codes stand at even distances: what lies below half a step becomes 0. A logarithm makes large numbers of
    such small ones: a spectrogram, whose bins are 60 dB apart and more, becomes noise.
    """
    products: set[Op] = set()
    ahead: list[Value | None] = [op.inputs[0] for op in view.ops if op.op_type == "Log" and op.inputs]
    while ahead:
        op = view.producer(ahead.pop())
        if op is None or op in products or op.domain:
            continue
        if ops.may_move(op.node) or op.op_type in _SCALED:
            products.add(op)
            ahead += [op.inputs[i] for i in ops.data_inputs(op.node) if i < len(op.inputs)]
    return frozenset(products)

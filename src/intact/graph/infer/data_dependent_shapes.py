"""Finds sizes that values of the inputs decide: of a Reshape to input numbers, of NonZero's results.

What a file declares of them holds for the run that its exporter saw, where it holds at all.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from intact.errors import FileFormatError
from intact.graph import ops
from intact.graph.core.scene import Note
from intact.graph.core.without_weights import to_proto_without_weights
from intact.graph.infer.inference import infer_proto_shapes, without_declared_shapes
from intact.graph.ops.attributes import subgraphs

_DECIDE: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1,), "Compress": (1,),
    "ConstantOfShape": (0,), "DFT": (1,), "Expand": (1,), "HammingWindow": (0,), "HannWindow": (0,),
    "MaxUnpool": (2,), "MelWeightMatrix": (0, 1), "NonMaxSuppression": (0, 1, 2, 3, 4), "NonZero": (0,),
    "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unique": (0,),
    "Unsqueeze": (1,), "Upsample": (1,),
    **{f"Reduce{kind}": (1,)
       for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")},
}  # fmt: skip
"""Operator -> the inputs whose values say how large its outputs are."""

_OF_SIZES = frozenset({"Shape", "Size"})


@dataclass
class DataDependent:
    """Nodes and values of the main graph whose sizes depend on values of the inputs.

    Attributes:
        nodes: Those of which an input that says how large they are follows values of the graph's inputs.
        values: Whose sizes may follow such values: made by these nodes, or computed from what they make.
    """

    nodes: set[ir.Node] = field(default_factory=set)
    values: set[ir.Value] = field(default_factory=set)


def size_inputs(node: ir.Node) -> tuple[int, ...]:
    """Return the indices of inputs whose values determine the output sizes of `node`."""
    return () if node.domain else _DECIDE.get(node.op_type, ())


def find_data_dependent_shapes(model: ir.Model) -> DataDependent:
    """Find nodes and values whose sizes depend on values of the inputs, and not on their sizes alone."""
    decided, follows = DataDependent(), set[ir.Value | None](model.graph.inputs)
    for node in model.graph:
        op_type = "" if node.domain else node.op_type
        read = set[ir.Value | None](node.inputs)
        for graph in subgraphs(node):
            read.update(value for inner in graph.all_nodes() for value in inner.inputs)
        if any(node.inputs[i] in follows for i in size_inputs(node) if i < len(node.inputs)):
            decided.nodes.add(node)
        sizes = not decided.values.isdisjoint(read)
        if node in decided.nodes or (sizes and op_type not in _OF_SIZES):
            decided.values.update(node.outputs)
        if sizes or op_type in ops.DRAWING or (op_type not in _OF_SIZES and not follows.isdisjoint(read)):
            follows.update(node.outputs)
    return decided


def forget_sizes_of_outputs(model: ir.Model) -> list[Note]:
    """Leave open, in place, the sizes of outputs that values of the inputs decide, where no node reads them.

    Before: ``ConstantOfShape(sizes) -> y``, declared ``[2, 3]``.  After: ``y`` of two axes.

    Returns:
        What was opened, in words.
    """
    values = find_data_dependent_shapes(model).values
    outputs = [
        value for value in model.graph.outputs
        if value in values and not value.uses() and any(isinstance(n, int) for n in value.shape or ())
    ]  # fmt: skip
    if not outputs:
        return []
    return [
        Note(name, "values of the inputs decide the sizes of this output") for name in _open(model, outputs)
    ]


def forget_sizes_of_read_outputs(model: ir.Model) -> list[Note]:
    """Forget, in place, declared sizes of outputs that nodes read, where operators do not determine them.

    Sizes behind them follow the actual ones then, not those of the exporter's one run.

    Before: ``x [1, n] -> ... -> y -> MatMul``, ``y`` declared ``[1, 11]``.  After: ``y`` of two axes.

    Returns:
        What was opened, in words.
    """
    if all(value.shape is not None and value.shape.is_static() for value in model.graph.inputs):
        return []
    outputs = [
        value for value in model.graph.outputs
        if value.uses() and not value.is_graph_input() and value.producer() is not None
        and any(isinstance(n, int) for n in value.shape or ())
    ]  # fmt: skip
    opened = _open(model, outputs) if outputs else []
    return [Note(name, "operators do not tell the sizes of this output") for name in opened]


def _open(model: ir.Model, outputs: list[ir.Value]) -> list[str]:
    """Forget the sizes of `outputs` that operators do not determine; return their names."""
    inferred_sizes = dict[str, list[int | None]]()
    with contextlib.suppress(FileFormatError):
        inferred_sizes = {
            info.name: _sizes(info)
            for info in infer_proto_shapes(
                without_declared_shapes(to_proto_without_weights(model))
            ).graph.output
        }
    opened = list[str]()
    for value in outputs:
        assert value.shape is not None
        rank, name = len(value.shape), value.name or ""
        sizes = inferred_sizes.get(name, [])
        sizes = sizes if len(sizes) == rank else [None] * rank
        if any(isinstance(n, int) and m is None for n, m in zip(value.shape, sizes, strict=True)):
            new_sizes = [m if isinstance(n, int) else n for n, m in zip(value.shape, sizes, strict=True)]
            value.shape = ir.Shape(new_sizes)
            opened.append(name)
    return opened


def _sizes(info: onnx.ValueInfoProto) -> list[int | None]:
    return [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim]

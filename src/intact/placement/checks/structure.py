"""Requirements of TensorRT's builder on the graph around pairs: one function for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from intact.graph import Model, Node, Value, is_op
from intact.graph.ops import CONVOLUTIONS, PRODUCTS, ConvTranspose, may_move
from intact.placement.checks.records import Half, is_dynamic_quantizer
from intact.placement.placement_graph import Op, Reader, View, is_dequantize, is_quantize, shape_of
from intact.placement.records import Finding
from intact.placement.rules.weighted import weight_axis
from intact.processes import cached_property

_FOREIGN = {
    "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "QLinearAdd",
    "QLinearMul", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearSigmoid",
    "QLinearLeakyRelu", "QLinearSoftmax", "QGemm",
}  # fmt: skip
_FP8 = "FLOAT8E4M3FN"


@dataclass(frozen=True)
class Checked:
    """Model under check; `carries` returns whether an edge carries codes, `newest` is the newest opset."""

    model: Model
    view: View
    halves: list[Half]
    carries: Callable[[Reader], bool]
    newest: int

    @cached_property
    def by_node(self) -> dict[Node, Half]:
        """Each half by its node."""
        return {half.node: half for half in self.halves}


def _name(node: Node) -> str:
    return node.name or (node.outputs[0].name if node.outputs else None) or node.op_type


def foreign_operators(c: Checked) -> Iterator[Finding]:
    """Report operators without an importer: of the QOperator form, and of dynamic quantization."""
    for node in c.model.graph.all_nodes():
        if node.op_type in _FOREIGN:
            yield Finding(
                "error", _name(node), "operator",
                f"{node.op_type} is not an operator that TensorRT imports",
                "write it with QuantizeLinear and DequantizeLinear pairs: load and save it with INTact",
            )  # fmt: skip


def opset(c: Checked) -> Iterator[Finding]:
    """Check that the opset is between 9 and the newest that the parser reads."""
    version = c.model.graph.opset_imports.get("")
    if version is not None and not 9 <= version <= c.newest:
        yield Finding(
            "error", "model", "opset",
            f"opset {version} is outside of 9 to {c.newest}, which the parser reads",
            "export the model with opset 17",
        )  # fmt: skip


def mixed_formats(c: Checked) -> Iterator[Finding]:
    """Report int8 and fp8 in one network."""
    by_type: dict[str | None, Half] = {}
    for half in c.halves:
        by_type.setdefault(half.codes, half)
    if {"INT8", _FP8} <= by_type.keys():
        yield Finding(
            "error", by_type[_FP8].name, "mixed-formats",
            "INT8 and FP8 quantization are mixed in one network",
            "quantize all layers to one of them",
        )  # fmt: skip


def pairs_of_halves(c: Checked) -> Iterator[Finding]:
    """Report Q without DQ behind it, and DQ without Q or stored codes in front."""
    for half in c.halves:
        node = half.node
        if half.quantizes:
            output = node.outputs[0]
            lone = [use.node for use in output.uses() if not _takes_codes(use.node)]
            if output.is_graph_output() or lone or not list(output.uses()):
                where = _name(lone[0]) if lone else "a graph output" if output.is_graph_output() else "nobody"
                yield Finding(
                    "error", half.name, "unpaired",
                    f"QuantizeLinear without a DequantizeLinear: its codes go to {where}",
                    "put a DequantizeLinear behind it",
                )  # fmt: skip
        elif not half.is_weight and not _gives_codes(half.input(0)):
            yield Finding(
                "error", half.name, "unpaired",
                "DequantizeLinear without a QuantizeLinear or stored codes in front of it",
                "put a QuantizeLinear in front of it, or store the codes as an initializer",
            )  # fmt: skip


def _takes_codes(node: Node) -> bool:
    return is_dequantize(node) or may_move(node)


def _gives_codes(value: Value | None) -> bool:
    node = value.producer() if value is not None else None
    return node is not None and (is_quantize(node) or may_move(node) or is_dynamic_quantizer(node))


def _layers_with_weights(c: Checked) -> Iterator[Op]:
    for op in c.view.ops:
        if op.domain == "" and op.op_type in CONVOLUTIONS | PRODUCTS and len(op.inputs) > 1:
            yield op


def inputs_of_layers(c: Checked) -> Iterator[Finding]:
    """Check that all inputs of a quantizable layer come through DQ, or none."""
    for op in _layers_with_weights(c):
        through = [c.carries((op, i)) for i in (0, 1)]
        if any(through) and not all(through) and not _weight_only(c, op):
            missing = through.index(False)
            value = op.inputs[missing]
            yield Finding(
                "warning", op.name, "inputs",
                f"input {missing} ('{value.name if value is not None else ''}') does not come from a "
                "DequantizeLinear: the layer does not run in int8",
                f"put a pair on input {missing}",
            )  # fmt: skip


def _weight_only(c: Checked, op: Op) -> bool:
    """Return whether an op is a float product of block weights, which are dequantized in front of it on
    purpose."""
    half = _half_on(c, op, 1)
    return op.op_type in PRODUCTS and half is not None and half.codes in ("INT4", "FLOAT4E2M1", _FP8)


def weight_is_constant(c: Checked) -> Iterator[Finding]:
    """Check that weights of convolutions are stored."""
    for op in _layers_with_weights(c):
        if op.op_type in CONVOLUTIONS and (op, 1) in c.view.marks and not c.view.is_constant(op.inputs[1]):
            yield Finding(
                "error", op.name, "weight",
                "The weight must be an initializer in front of its pair, or stored codes",
                "fold the weight into the file, or leave this layer in float",
            )  # fmt: skip


def weight_axes(c: Checked) -> Iterator[Finding]:
    """Check that per-channel scales run along the output channels."""
    for op in _layers_with_weights(c):
        for index in (0, 1):
            half, value = _half_on(c, op, index), op.inputs[index]
            if half is None or value is None or not half.per_channel or not c.view.is_constant(value):
                continue
            codes = half.input(0)
            wanted = weight_axis(op, index, codes) if codes is not None else None
            if _is_moved(c, op, index) or (half.axis if half.has_axis else 0) == wanted:
                continue
            if op.op_type == "ConvTranspose" and ConvTranspose.of(op.node).group > 1:
                yield Finding(
                    "error", op.name, "grouped-conv-transpose",
                    f"Could not find any implementation for node {op.name}: ConvTranspose with groups and a "
                    "scale for each channel", "give its weight one scale",
                )  # fmt: skip
                continue
            yield Finding(
                "error", half.name, "weight-axis",
                f"The quantization axis {half.axis} is not the output channel of {op}",
                f"use axis {wanted}" if wanted is not None else "give this weight one scale",
            )  # fmt: skip


def _half_on(c: Checked, op: Op, index: int) -> Half | None:
    mark = c.view.marks.get((op, index))
    return c.by_node.get(mark.dq) if mark is not None and mark.dq is not None else None


def _is_moved(c: Checked, op: Op, index: int) -> bool:
    """Return whether a Transpose stands between the pair and the layer: the axis is counted before it."""
    value = op.node.inputs[index]
    node = value.producer() if value is not None else None
    return node is not None and not is_dequantize(node) and not is_op(node, "Cast")


def conv_transpose(c: Checked) -> Iterator[Finding]:
    """Report transposed convolutions that builders have no int8 kernel for."""
    for op in _layers_with_weights(c):
        shape = shape_of(op.inputs[1])
        if (
            op.op_type == "ConvTranspose"
            and (op, 1) in c.view.marks
            and shape is not None
            and len(shape) == 5
        ):
            yield Finding(
                "warning", op.name, "conv-transpose-3d",
                f"Could not find any implementation for node {op.name}: int8 ConvTranspose over volumes",
                "leave this layer in float: exclude it",
            )  # fmt: skip


def between_pair_and_layer(c: Checked) -> Iterator[Finding]:
    """Report Identity and Cast that break the fusion of a pair with its layer."""
    for node in c.model.graph:
        value = node.inputs[0] if is_op(node, "Cast", "Identity") else None
        if value is None or c.view.is_constant(value):
            continue
        above, below = value.producer(), [use.node for use in node.outputs[0].uses()]
        if above is not None and is_dequantize(above) and below:
            where = f"between a pair and {below[0].op_type} '{_name(below[0])}'"
        elif below and is_quantize(below[0]):
            where = f"in front of {below[0].op_type} '{_name(below[0])}'"
        else:
            continue
        yield Finding(
            "warning", _name(node), "between", f"{node.op_type} stands {where}: they are not fused",
            "remove it; the pair may work in the type of the data",
        )  # fmt: skip


STRUCTURE: tuple[Callable[[Checked], Iterator[Finding]], ...] = (
    opset,
    foreign_operators,
    mixed_formats,
    pairs_of_halves,
    inputs_of_layers,
    weight_is_constant,
    weight_axes,
    conv_transpose,
    between_pair_and_layer,
)
"""Findings about the whole graph; a new one is a function and a line here."""

"""Compares the pairs of two Q/DQ files of one network, operator by operator.

A pair on one side of what only moves data is one on the other side too. A BatchNormalization is passed over:
the ONNX path folds it into weights before it quantizes them; behind a module's quantized weights it stays a
node, which the engine takes into the layer's multipliers. How masks of attention are written is no matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from intact import graph

_PAIRS = {"QuantizeLinear", "DequantizeLinear"}
_BIASED = {
    "Conv",
    "ConvTranspose",
    "Gemm",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
}
_PASSED = {"Where", "Cast", "IsNaN", "Not", "And", "Or", "Identity", "BatchNormalization"}


@dataclass(frozen=True)
class Placed:
    """One operator of a file.

    Attributes:
        node: Its name.
        op_type: What it is.
        paired: By input: whether it comes through a pair, directly or through what only moves data.
    """

    node: str
    op_type: str
    paired: tuple[bool, ...]

    def __str__(self) -> str:
        return f"{self.op_type}[{''.join('q' if p else '.' for p in self.paired)}]"


def place_operators(model: graph.Model) -> list[Placed]:
    """Every operator that computes floats, in the graph's order. A float bias is no input to quantize."""
    constants = graph.Constants(model.graph)
    result = []
    for node in model.graph:
        output = node.outputs[0]
        if node.op_type in _PAIRS or _passes(node) or output in constants or not _is_float(output):
            continue
        inputs = node.inputs[:2] if node.op_type in _BIASED else node.inputs
        paired = tuple(_through_pair(value) for value in inputs if value is not None)
        result.append(Placed(node.name or "", node.op_type, paired))
    return result


def _passes(node: graph.Node) -> bool:
    return node.op_type in _PASSED or graph.ops.may_move(node)


def _is_float(value: graph.Value) -> bool:
    return value.dtype is None or value.dtype.is_floating_point()


def _through_pair(value: Any) -> bool:
    while (node := value.producer()) is not None:
        if node.op_type == "DequantizeLinear":
            return True
        if not _passes(node):
            return False
        value = node.inputs[0]
    return False


def differences(ours: list[Placed], theirs: list[Placed]) -> list[str]:
    """Return tensors quantized in one file alone, and operators that one of them lacks."""
    output = []
    matcher = SequenceMatcher(a=[p.op_type for p in ours], b=[p.op_type for p in theirs], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            for item, other in zip(ours[a:b], theirs[c:d], strict=True):
                if item.paired != other.paired:
                    output.append(f"{item.node}: {item}, ONNX {other} {other.node}")
        else:
            output.append(
                f"{', '.join(map(str, ours[a:b])) or '-'} | ONNX {', '.join(map(str, theirs[c:d])) or '-'}"
            )
    return output

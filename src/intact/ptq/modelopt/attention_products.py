"""Finds attention in a graph: the product of queries and keys, a Softmax, and the product with values."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from intact.graph import Model, Node, Value, input_of, is_op, ops

_BETWEEN = frozenset({"Add", "Mul", "Div", "Sub", "Where", "Cast", "Clip", "Min", "Max"})
"""Operators between the first product and its Softmax, beside moves: scales, masks and types."""

_BEHIND = frozenset({"Cast", "Where"})
_STEPS = 16  # of a walk from a Softmax


@dataclass(frozen=True)
class AttentionProducts:
    """Describes one attention.

    Attributes:
        scores: The MatMul of queries [..., S, D] and turned keys [..., D, T].
        context: The MatMul of probabilities [..., S, T] and values [..., T, D].
    """

    scores: Node
    context: Node

    @property
    def name(self) -> str:
        """The name of the first product."""
        return self.scores.name or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Names of the module that computes it."""
        return module_paths(self.scores)


def find_attention_products(model: Model) -> list[AttentionProducts]:
    """Find the attention of the main graph, in its order."""
    pairs = []
    for node in model.graph:
        if not is_op(node, "Softmax"):
            continue
        scores, context = _product_before(node), _product_behind(node)
        if scores is not None and context is not None:
            pairs.append(AttentionProducts(scores, context))
    return pairs


def _is_product_of_tensors(node: Node) -> bool:
    if not is_op(node, "MatMul"):
        return False
    return all(value is not None and value.const_value is None for value in node.inputs[:2])


def _product_before(softmax: Node) -> Node | None:
    value = softmax.inputs[0]
    for _ in range(_STEPS):
        node = None if value is None else value.producer()
        if node is None or _is_product_of_tensors(node):
            return node
        if not _is_any(node, _BETWEEN):
            return None
        value = next((part for part in node.inputs if part is not None and _leads_to_product(part)), None)
    return None


def _is_any(node: Node, operators: Collection[str]) -> bool:
    """Return whether a node has one of these operators, or moves all elements."""
    return node.op_type in operators or ops.may_move(node, keeps_all=True)


def _leads_to_product(value: Value, steps: int = _STEPS) -> bool:
    """Return whether a product of tensors stands in front, with scales, masks and types between."""
    node = value.producer()
    if node is None or steps == 0:
        return False
    if _is_product_of_tensors(node):
        return True
    return _is_any(node, _BETWEEN) and any(
        part is not None and _leads_to_product(part, steps - 1) for part in node.inputs
    )


def _product_behind(softmax: Node) -> Node | None:
    value = softmax.outputs[0]
    for _ in range(_STEPS):
        readers = [use.node for use in value.uses()]
        product = next((r for r in readers if _is_product_of_tensors(r) and r.inputs[0] is value), None)
        if product is not None:
            return product
        following = next((reader for reader in readers if _is_any(reader, _BEHIND)), None)
        if following is None:
            return None
        value = following.outputs[0]
    return None


def module_paths(node: Node, weights: Sequence[str] = ()) -> tuple[str, ...]:
    """Return dotted names of the module that a node may belong to.

    These are what torch's exporters write: in names of weights, in the node's own, or in its metadata.

    Args:
        node: The node.
        weights: Names of its weights.
    """
    paths = [re.sub(r"\.(weight|kernel)$", "", name) for name in weights if "." in name]
    name = re.sub(r"[./](MatMul|Gemm|Conv)(_\d+)?$", "", node.name or "")
    paths.append(name.strip("/").replace("/", "."))
    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes", "")
    try:
        written = ast.literal_eval(scopes[:10_000]) if scopes.startswith("[") else []
    except (ValueError, SyntaxError):
        written = []
    paths += [scope for scope in written[-2:] if isinstance(scope, str) and scope]
    return tuple(dict.fromkeys(path for path in paths if path))


def source_of_transpose(value: Value) -> Value | None:
    """Return what a Transpose of the last two axes makes `value` of; None where there is none."""
    node = value.producer()
    if node is None or not is_op(node, "Transpose"):
        return None
    perm = list(ops.Transpose.of(node).perm or ())
    rank = len(perm)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    return input_of(node, 0) if perm == swapped else None

"""List the float steps that another runtime may round differently, and what follows for its outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from intact.graph import Model, Node, is_op, ops
from intact.graph.ops import subgraphs
from intact.placement.records import Placement

AGREEMENT_KEY = "intact.agreement"
"""Metadata of a file that INTact writes: `in_other_runtimes`, as a sentence."""

_IN_INTEGERS: tuple[ops.Kind, ...] = (
    "convolution", "product", "pool", "reduction", "arithmetic", "move",
)  # fmt: skip
"""Kinds of operators whose sums are exact where their inputs are codes."""


def float_steps(model: Model, placement: Placement) -> dict[str, int]:
    """Return how many steps of each kind compute floats in a way that ONNX does not fix to the last bit.

    These are norms, functions and sums of floats: the order of a sum and the polynomial of a function are
    each runtime's own. Copies and single operations that IEEE 754 rounds are the same everywhere
    (`ops.is_exact`), and so are sums over codes. Numerics N33 says what that means for codes and answers.

    Args:
        model: The graph, with or without its pairs.
        placement: Its layers; a node in none of them is not counted.
    Returns:
        By what people call a step ("LayerNormalization", "Gelu"), the most frequent first.
    """
    nodes = {node.name or "": node for node in model.graph}
    fusions = {fusion.root: fusion for fusion in placement.fusions}
    steps = Counter[str]()
    for layer in placement.layers:
        root = next((name for name in layer.nodes if name in fusions), "")
        alone = tuple((nodes[name].op_type, (name,)) for name in layer.nodes if name in nodes)
        for label, names in fusions[root].parts if root else alone:
            members = [nodes[name] for name in names if name in nodes]
            is_root = names == (root,)
            if layer.precision == "int8" and is_root and all(ops.is_kind(n, *_IN_INTEGERS) for n in members):
                continue
            steps[label] += any(map(_is_open, members))
        steps.update(_in_bodies(nodes[name] for name in layer.nodes if name in nodes))
    return {label: count for label, count in steps.most_common() if count}


def in_other_runtimes(steps: Mapping[str, int]) -> str:
    """Describe, as a clause, how another runtime treats the steps that `float_steps` found."""
    if not steps:
        return "other runtimes give the same codes where their float32 sums are exact"
    count = sum(steps.values())
    listed = ", ".join(f"{label} x {number}" for label, number in steps.items())
    return f"in other runtimes {count} float step{'s' if count > 1 else ''} ({listed}) may round differently"


def record_agreement(model: Model, placement: Placement) -> None:
    """Record in a model's metadata, in place, how another runtime treats its float steps.

    Args:
        model: With Q/DQ pairs.
        placement: That these make.
    """
    steps = float_steps(model, placement)
    model.metadata_props[AGREEMENT_KEY] = f"INTact: {in_other_runtimes(steps)}."


def _is_open(node: Node) -> bool:
    """Return whether `node` makes floats whose last bits ONNX leaves open."""
    floats = any(value.dtype is None or value.dtype.is_floating_point() for value in node.outputs[:1])
    return floats and not ops.is_exact(node) and not ops.is_kind(node, "control")


def _in_bodies(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the open steps in the bodies of Ifs and Loops, but for products of codes."""
    for node in nodes:
        for body in subgraphs(node):
            for inner in body:
                if _is_open(inner) and not _multiplies_codes(inner):
                    yield ops.display_name(inner)
            yield from _in_bodies(body)


def _multiplies_codes(node: Node) -> bool:
    """Return whether a product, sum or pool has floats of codes alone for operands."""
    operands = [node.inputs[index] for index in ops.data_inputs(node) if index < len(node.inputs)]
    return ops.is_kind(node, *_IN_INTEGERS) and all(
        value is not None and is_op(value.producer(), "DequantizeLinear") for value in operands
    )

"""Activations of 16 bits in front of weights that keep their 8.

A layer with constant weights multiplies codes of 16 bits as two bytes, exactly, and takes a few times as long
as with one, where floats take twenty times (docs/decisions/0043-two-bytes.md). Other layers that read such a
tensor, an Add for one, read its floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from intact.graph import Node, is_op, ops
from intact.ptq.sixteen import Unit, said_of, wide_activation
from intact.ptq.state import State
from intact.ptq.targets import Target


def multiplying(state: State) -> frozenset[str]:
    """The layers that the engine computes in integers from 16 bits: products with constant weights of 8."""
    nodes = {node.name or "": node for node in state.model.graph}
    weights = (t for t in state.targets if t.site.role == "weight" and t.format in ("int8", "uint8"))
    read = {name for target in weights for name, index in target.readers if index == 1}
    return frozenset(name for name in read if name in nodes and _multiplies(nodes[name]))


def _multiplies(node: Node) -> bool:
    """Whether kernels have a form for 16 bits: none of one channel at a time."""
    if is_op(node, "Conv"):
        weight, groups = node.inputs[1], ops.Conv.of(node).group
        shape = weight.shape if weight is not None else None
        return groups == 1 or (shape is not None and shape[0] != groups)
    return is_op(node, "Gemm", "MatMul")


def with_wide_inputs(state: State, why: Mapping[Unit, str]) -> State:
    """`state` with 16 bits for what multiplying layers read of some units; its ranges are still to be chosen.

    Args:
        state: In front of the pairs; its opset must have such codes.
        why: The units, each with the reason.
    """
    keys, readers = {unit.key for unit in why}, multiplying(state)
    targets = list[Target]()
    for target in state.targets:
        if target.key not in keys or target.site.role == "weight":
            targets.append(target)
        elif ours := tuple(read for read in target.readers if read[0] in readers and read[1] == 0):
            targets.append(wide_activation(replace(target, readers=ours)))
    said = {node: f"inputs of 16 bits: {text}" for unit, text in why.items() for node in unit.nodes}
    texts = {name: text for unit, text in why.items() for name in unit.tensors}
    layers = tuple(said_of(layer, said, readers) for layer in state.placement.layers)
    return replace(
        state, targets=tuple(targets), placement=replace(state.placement, layers=layers),
        bits16={t.key: texts[t.site.value] for t in targets if t.site.value in texts and t.format in WIDE},
    )  # fmt: skip


WIDE = ("int16", "uint16")

"""Linear layers whose inputs get their ranges while the model runs, in blocks (numerics N68 to N70).

A static range has to hold for every input; where tokens, nodes or samples differ in size, most of them use a
few of its codes. A MatMulNBits of `accuracy_level` 4 gives each block of a row a range of its own. It takes
the place of the pairs around a layer, and is what ONNX Runtime runs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from intact import graph
from intact.graph import Node, ops
from intact.ptq.blocks import BlockFormat, copy_nbits, find_linear_layers, round_to_nearest, write_nbits
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_targets import Read, Target
from intact.ptq.scope.settings import LayerSettings
from intact.ptq.stages.int16_activations import readers_behind
from intact.ptq.stages.unquantized_reads import without_reads

GRID = BlockFormat("int8", 64)
"""Of weights and of inputs: blocks of 32 take longer for 1 dB, those of 128 lose 1 dB (decision 68)."""

_FREE = ("int8", "uint8")
"""Formats that a profile gives."""


@dataclass(frozen=True)
class DynamicGroup:
    """Holds linear layers that read one pair.

    Attributes:
        read: What reads the pair: a layer itself, or a node that moves its codes to layers.
        layers: Names of the layers, in graph order.
    """

    read: Read
    layers: tuple[str, ...]

    @property
    def reads(self) -> frozenset[Read]:
        """The reads that are quantized as long as the group is static: its pair's, and those of weights."""
        return frozenset([self.read, *((name, 1) for name in self.layers)])


def dynamic_groups(state: State) -> list[DynamicGroup]:
    """Return the groups of layers that could have dynamic ranges, in the order of the targets.

    These are MatMul and Gemm in the main graph with constant matrices in int8, in whose pairs nothing else
    shares, and whose formats nobody asked for by hand.
    """
    layers, _ = find_linear_layers(state.model)
    free = [target for target in state.targets if _is_free(target, state.settings.layer)]
    weights = {read for target in free if target.site.role == "weight" for read in target.readers}
    names = {layer.node.name or "" for layer in layers if not layer.path and not layer.twins}
    names = {name for name in names if (name, 1) in weights}
    nodes = {node.name or "": node for node in state.model.graph}
    order = {name: index for index, name in enumerate(nodes)}
    pairs = {target.site.value for target in state.activations}
    groups = list[DynamicGroup]()
    for target in free:
        for read in target.readers if target.site.role == "activation" else ():
            behind = set(readers_behind(nodes, [read[0]], pairs))
            reading = {name for name in behind if not ops.may_move(nodes[name])}
            is_apart = read[1] == 0 and _are_read_by([nodes[name] for name in behind], target.site.value)
            if reading and reading <= names and is_apart:
                groups.append(DynamicGroup(read, tuple(sorted(reading, key=order.__getitem__))))
    return groups


def _is_free(target: Target, layer: LayerSettings) -> bool:
    """Return whether a target is as the settings of all layers say, but for the profile's own 8 bits."""
    as_asked = replace(target.settings, activations=layer.activations)
    return target.format in _FREE and as_asked == layer


def _are_read_by(reading: Sequence[Node], value: str) -> bool:
    """Return whether nodes read, as their data, only `value` and what others of them make of it."""
    produced = {output.name for node in reading for output in node.outputs} | {value}
    moves = [output for node in reading if ops.may_move(node) for output in node.outputs]
    shown = any(output.is_graph_output() for output in moves)
    data = [node.inputs[0] for node in reading]
    return not shown and all(v is not None and v.name in produced for v in data)


def with_dynamic_layers(state: State, why: Mapping[DynamicGroup, str]) -> State:
    """Return `state` without pairs around some groups, whose layers `write_dynamic_layers` replaces later.

    Args:
        state: In front of the pairs; ranges must be chosen again.
        why: The groups, each with the reason.
    """
    reads = frozenset[Read]().union(*(group.reads for group in why))
    reasons = {name: f"dynamic ranges: {reason}" for group, reason in why.items() for name in group.layers}
    state = without_reads(state, reads, reasons, integer=reasons)
    return replace(state, dynamic={**state.dynamic, **reasons})


def write_dynamic_layers(state: State) -> State | None:
    """Put a MatMulNBits in the place of each layer of `State.dynamic`, in place."""
    if not state.dynamic:
        return None
    layers, _ = find_linear_layers(state.model)
    names = graph.Namer(state.model.graph)
    nodes = state.dynamic_codes.graph if state.dynamic_codes is not None else ()
    written = {  # outputs keep their names, nodes do not
        node.outputs[0].name: node
        for node in nodes if graph.is_op(node, "MatMulNBits", domain=ops.MICROSOFT)
    }  # fmt: skip
    for layer in layers:
        if layer.path or layer.name not in state.dynamic:
            continue
        if (node := written.get(layer.node.outputs[0].name)) is not None:
            copy_nbits(names, layer, node)
        else:
            write_nbits(names, layer, round_to_nearest(layer.rows(), GRID), accuracy_level=4)
    graph.prune(state.model)
    return replace(state, dynamic_codes=None)

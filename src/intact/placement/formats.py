"""Adapt a placement to pairs of other formats than int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from intact.graph import Mark, Model, Node, emit_qdq, mark
from intact.layer import Layer
from intact.placement.read_pairs import read_placement
from intact.placement.records import Placement
from intact.spec import Format, QuantSpec

_DECIDED_FOR = frozenset({"int8", "uint8"})
_OPSET = 25  # it has a type for every format; nothing but pairs is read of the graph


def with_layers_of(
    placement: Placement, formats: set[str], written: Model, *, lacks_pairs: bool = False
) -> Placement:
    """Return the placement with the layers that the pairs of `written` give.

    A layer that `placement` has in float keeps its reason.

    Args:
        placement: DataDependent for 8 bits.
        formats: Of the pairs; of 8 bits alone, they make what was decided.
        written: The graph with its pairs.
        lacks_pairs: Some of those that were decided are left out, so that layers in front write floats.
    """
    if formats <= _DECIDED_FOR and not lacks_pairs:
        return placement
    read = {layer.name: layer for layer in read_placement(written, placement.profile).layers}
    return replace(placement, layers=tuple(_as_read(layer, read) for layer in placement.layers))


def in_formats(placement: Placement, model: Model, activations: str, weights: str) -> Placement:
    """Give all activations of a placement without pairs one format, and all weights one.

    Args:
        placement: DataDependent on `model`.
        model: Without pairs; not changed.
        activations, weights: Formats, as `intact.spec.Format` has them.
    """
    formats = {activations, weights}
    if formats <= _DECIDED_FOR:
        return placement
    kinds = {"activation": Format.parse(activations), "weight": Format.parse(weights)}
    paired, unit_scale = model.clone(), np.ones((), np.float32)
    nodes = {node.name: node for node in paired.graph}
    marks = []
    for site in placement.sites:  # some may be of another graph, in which equal nodes stand apart
        known_readers = [(name, i) for name, i in site.readers if _reads(nodes.get(name), i, site.value)]
        if known_readers:
            marks.append(Mark(site.value, tuple(known_readers), QuantSpec(kinds[site.role]), unit_scale))
    mark(paired, marks)
    emit_qdq(paired, _OPSET)
    return with_layers_of(placement, formats, paired)


def _reads(node: Node | None, index: int, value: str) -> bool:
    read = None if node is None or index >= len(node.inputs) else node.inputs[index]
    return read is not None and read.name == value


def _as_read(layer: Layer, read: Mapping[str, Layer]) -> Layer:
    layer_read = read.get(layer.name)
    if layer_read is None or layer.precision == "float":
        return layer
    return replace(layer, precision=layer_read.precision, reason=layer_read.reason)

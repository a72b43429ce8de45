"""What layers are in the file, where its pairs have other formats than placement decides for: 8 bits."""

from __future__ import annotations

from dataclasses import replace

from intact.layer import Layer
from intact.placement import Placement, read_placement
from intact.ptq.state import State

_OF_PLACEMENT = ("int8", "uint8")


def written_placement(state: State) -> Placement:
    """The placement of `state`, whose layers are what the pairs in its model make of them.

    Formats come from `overrides`, `activations`, `weights` and `bits16`. A layer that a stage left in float
    keeps the reason that the stage gives.
    """
    if all(target.format in _OF_PLACEMENT for target in state.targets):
        return state.placement
    written = {one.name: one for one in read_placement(state.model, state.placement.profile).layers}
    layers = (_as_written(layer, written.get(layer.name)) for layer in state.placement.layers)
    return replace(state.placement, layers=tuple(layers))


def _as_written(layer: Layer, written: Layer | None) -> Layer:
    if written is None or layer.precision == "float":
        return layer
    return replace(layer, precision=written.precision, reason=written.reason)

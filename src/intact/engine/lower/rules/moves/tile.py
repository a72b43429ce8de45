"""Lowers Tile."""

from __future__ import annotations

import numpy as np

from intact.engine.lower.base.builder import PlanBuilder
from intact.engine.lower.base.rule import data, numbers
from intact.engine.lower.rules.moves.resize import check_count, require_size, take_places
from intact.graph import Node


def lower_tile(builder: PlanBuilder, node: Node) -> None:
    """Lower Tile: the places of each axis are read again and again."""
    x = data(builder, node.inputs[0])
    shape, repeats = x.shape, numbers(builder, node, 1)
    often = {axis: count for axis, count in enumerate(repeats) if count != 1}
    for axis, count in often.items():
        check_count(axis, count * require_size(shape, axis))
    places = {axis: np.tile(np.arange(require_size(shape, axis)), count) for axis, count in often.items()}
    take_places(builder, node, x, places)

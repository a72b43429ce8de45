"""Operators whose output reads constant places of axes: Tile, Expand, Pads that copy.

One step does all of them: a Resize says for each axis which of its elements are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.rules.moves.moves import (
    Rule,
    between,
    data,
    moved,
    numbers,
    pad_with_constant,
    pads_of,
    plain,
    who,
)
from intact.engine.steps import Dim, Expand, Reshape, Resize, Tensor
from intact.graph import Node, ops
from intact.limits import RESIZED

Places = Mapping[int, NDArray[np.int64]]
"""Axis -> what is read there; other axes stay as they are."""


def _tile(builder: PlanBuilder, node: Node) -> None:
    x = data(builder, node.inputs[0])
    shape, repeats = x.shape, numbers(builder, node, 1)
    often = {axis: count for axis, count in enumerate(repeats) if count != 1}
    for axis, count in often.items():
        _check(axis, count * _size(shape, axis))
    places = {axis: np.tile(np.arange(_size(shape, axis)), count) for axis, count in often.items()}
    _pick(builder, node, x, places)


def _expand(builder: PlanBuilder, node: Node) -> None:
    wanted = dims_of(node.outputs[0])
    if any(isinstance(dim, str) for dim in wanted):
        _broadcast(builder, node, wanted)
        return
    x = data(builder, node.inputs[0])
    shape = x.shape
    more = len(wanted) - len(shape)
    if more > 0:
        shape = (*[1] * more, *shape)
        wide = between(builder, f"{node.outputs[0].name}.wide", x, shape)
        builder.add(Reshape(*who(node), x.name, wide), node)
        x = builder.tensors[wide]
    places = {}
    for axis, (size, new) in enumerate(zip(shape, wanted, strict=True)):
        if size == new:
            continue
        if size != 1 or not isinstance(new, int):
            raise NoMatch(f"the size of axis {axis} is not known")
        _check(axis, new)
        places[axis] = np.zeros(new, np.int64)
    _pick(builder, node, x, places)


def _broadcast(builder: PlanBuilder, node: Node, wanted: tuple[Dim, ...]) -> None:
    """To sizes that are free, of a tensor or a constant."""
    table = node.inputs[0]
    x = plain(builder, table) if table in builder.constants else data(builder, table)
    shape = (*[1] * (len(wanted) - len(x.shape)), *x.shape)
    for axis, (size, new) in enumerate(zip(shape, wanted, strict=True)):
        if size != new and not (size == 1 and builder.is_told(new)):
            raise NoMatch(f"the size of axis {axis} is not known")
    builder.add(Expand(*who(node), x.name, moved(builder, node.outputs[0], x)), node)


def _pad(builder: PlanBuilder, node: Node) -> None:
    said = ops.Pad.of(node).mode
    mode = _MODES.get(said)
    if said == "constant":
        pad_with_constant(builder, node)
        return
    if mode is None:
        raise NoMatch(f"its mode is '{said}'")
    x = data(builder, node.inputs[0])
    shape, places = x.shape, {}
    for axis, (before, after) in enumerate(pads_of(builder, node, len(shape))):
        if before < 0 or after < 0:
            raise NoMatch("its pads are negative")
        if before or after:
            size = _size(shape, axis)
            if mode != "edge" and max(before, after) >= size:
                raise NoMatch(f"it pads axis {axis} with more than there is")
            _check(axis, before + size + after)
            places[axis] = np.pad(np.arange(size), (before, after), mode)
    _pick(builder, node, x, places)


_MODES: dict[str, Literal["edge", "reflect", "wrap"]] = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _check(axis: int, count: int) -> None:
    if not 0 < count <= RESIZED.most:
        raise NoMatch(f"it makes {count} elements along axis {axis}")


def _size(shape: tuple[Dim, ...], axis: int) -> int:
    size = shape[axis]
    if not isinstance(size, int):
        raise NoMatch(f"the size of axis {axis} is not known")
    if size < 1:
        raise NoMatch(f"axis {axis} is empty")
    return size


def _pick(builder: PlanBuilder, node: Node, x: Tensor, places: Places) -> None:
    if not places:  # of a scalar, or as often as it is there
        builder.add(Reshape(*who(node), x.name, moved(builder, node.outputs[0], x)), node)
        return
    indices = tuple(builder.hold(f"{node.name}.axis{axis}", read) for axis, read in places.items())
    y = moved(builder, node.outputs[0], x)
    builder.add(Resize(*who(node), x.name, y, tuple(places), indices), node)


PICKS: dict[str, Rule] = {"Expand": _expand, "Pad": _pad, "Tile": _tile}
"""Operator -> how it becomes a step."""

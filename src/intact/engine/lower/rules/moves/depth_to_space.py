"""Lowers DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, dims_of
from intact.engine.lower.base.rule import between, data, define_like, who
from intact.engine.steps import Dim, Reshape, Transpose
from intact.graph import Node, ops


def lower_depth_to_space(builder: PlanBuilder, node: Node) -> None:
    """Lower DepthToSpace to a Transpose of blocks of channels, between two Reshapes."""
    op, (n, c, h, w) = ops.DepthToSpace.of(node), _image(node)
    b = op.blocksize
    if not isinstance(c, int):
        raise NoMatch("its channels are not known")
    if op.mode == "DCR":
        _reorder(builder, node, (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2))
    else:
        _reorder(builder, node, (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3))


def lower_space_to_depth(builder: PlanBuilder, node: Node) -> None:
    """Lower SpaceToDepth to a Transpose of blocks of pixels, between two Reshapes."""
    op, (n, c, h, w) = ops.SpaceToDepth.of(node), _image(node)
    b = op.blocksize
    if not isinstance(h, int) or not isinstance(w, int):
        raise NoMatch("its height or width is not known")
    perm = (0, 3, 5, 1, 2, 4) if op.mode == "DCR" else (0, 1, 3, 5, 2, 4)
    _reorder(builder, node, (n, c, h // b, b, w // b, b), perm)


def _image(node: Node) -> tuple[Dim, Dim, Dim, Dim]:
    value = node.inputs[0]
    assert value is not None
    n, c, h, w = dims_of(value)
    return n, c, h, w


def _reorder(builder: PlanBuilder, node: Node, split: tuple[Dim, ...], perm: tuple[int, ...]) -> None:
    """Write a Reshape to `split`, a Transpose, and a Reshape to the shape of the output."""
    x, name = data(builder, node.inputs[0]), node.outputs[0].name
    cut = between(builder, f"{name}.split", x, split)
    turned = between(builder, f"{name}.turned", x, tuple(split[i] for i in perm))
    y = define_like(builder, node.outputs[0], x)
    builder.add(Reshape(*who(node), x.name, cut), node)
    builder.add(Transpose(*who(node), cut, turned, perm))
    builder.add(Reshape(*who(node), turned, y))

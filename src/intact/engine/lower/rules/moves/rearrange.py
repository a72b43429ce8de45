"""Concat, Gather and their kind: operators that take several steps, or constants made for them."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder, check_ratio, dims_of
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.rules.moves.moves import Rule, between, data, moved, plain, tell, who
from intact.engine.steps import Concat, Dim, Reshape, Slice, Transpose
from intact.graph import Node, Value, is_op, ops


def _concat(builder: PlanBuilder, node: Node) -> None:
    value = node.outputs[0]
    axis = ops.Concat.of(node).axis % len(dims_of(value))
    first = next(data(builder, v) for v in node.inputs if v not in builder.constants)
    codes = first.codes
    if codes is None:
        parts = [plain(builder, v) for v in node.inputs]
        if any(part.dtype != first.dtype for part in parts):
            raise NoMatch("it joins codes and floats")
        y = moved(builder, value, first)
        builder.add(Concat(*who(node), tuple(part.name for part in parts), y, axis), node)
        return
    grid = Grid.of(codes)
    found = [_part(builder, v, grid, node) for v in node.inputs]
    low, high = min(low for _, low, _ in found), max(high for _, _, high in found)
    y = builder.write_codes(value, grid.codes(low, high))
    builder.add(Concat(*who(node), tuple(name for name, _, _ in found), y, axis), node)


def _part(builder: PlanBuilder, value: Value | None, grid: Grid, concat: Node) -> tuple[str, int, int]:
    """The tensor of a part, and its ends on `grid`; of codes that a pair rescales, those: Concat does it."""
    tensor = data(builder, value)
    name, codes = tensor.name, tensor.codes
    if codes is None:
        raise NoMatch("it joins codes and floats")
    node = value.producer() if value is not None else None
    if Grid.of(codes) != grid:
        name = builder.read_as(tensor, codes, grid, concat)[0]
    elif node is not None and is_op(node, "QuantizeLinear") and (found := builder.codes(node.inputs[0])):
        name = found[0]
        check_ratio(Grid.of(found[1]), grid)
    return name, codes.low, codes.high


def _depth_to_space(builder: PlanBuilder, node: Node) -> None:
    said, (n, c, h, w) = ops.DepthToSpace.of(node), _image(node)
    b = said.blocksize
    if not isinstance(c, int):
        raise NoMatch("its channels are not known")
    if said.mode == "DCR":
        _reordered(builder, node, (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2))
    else:
        _reordered(builder, node, (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3))


def _space_to_depth(builder: PlanBuilder, node: Node) -> None:
    said, (n, c, h, w) = ops.SpaceToDepth.of(node), _image(node)
    b = said.blocksize
    if not isinstance(h, int) or not isinstance(w, int):
        raise NoMatch("its height or width is not known")
    perm = (0, 3, 5, 1, 2, 4) if said.mode == "DCR" else (0, 1, 3, 5, 2, 4)
    _reordered(builder, node, (n, c, h // b, b, w // b, b), perm)


def _image(node: Node) -> tuple[Dim, Dim, Dim, Dim]:
    value = node.inputs[0]
    assert value is not None
    n, c, h, w = dims_of(value)
    return n, c, h, w


def _reordered(builder: PlanBuilder, node: Node, split: tuple[Dim, ...], perm: tuple[int, ...]) -> None:
    """A Reshape to `split`, a Transpose, and a Reshape to what the graph says."""
    x, name = data(builder, node.inputs[0]), node.outputs[0].name
    cut = between(builder, f"{name}.split", x, split)
    turned = between(builder, f"{name}.turned", x, tuple(split[i] for i in perm))
    y = moved(builder, node.outputs[0], x)
    builder.add(Reshape(*who(node), x.name, cut), node)
    builder.add(Transpose(*who(node), cut, turned, perm))
    builder.add(Reshape(*who(node), turned, y))


def _gather(builder: PlanBuilder, node: Node) -> None:
    """One index of an axis: a Slice, and a Reshape where the axis goes."""
    x = data(builder, node.inputs[0])
    shape = x.shape
    index = builder.constant(node.inputs[1], "its index")
    axis = ops.Gather.of(node).axis % len(shape)
    if index.size != 1:
        raise NoMatch("it gathers more than one index")
    at, size = int(index.reshape(-1)[0]), shape[axis]
    if at < 0 and not isinstance(size, int):
        raise NoMatch("it counts from the end of an axis whose size is not known")
    at += size if at < 0 and isinstance(size, int) else 0
    starts = tuple(at if a == axis else 0 for a in range(len(shape)))
    cut = tuple(1 if a == axis else dim for a, dim in enumerate(shape))
    tell(node.outputs[0], (*shape[:axis], *index.shape, *shape[axis + 1 :]))
    row = between(builder, f"{node.outputs[0].name}.row", x, cut)
    y = moved(builder, node.outputs[0], x)
    builder.add(Slice(*who(node), x.name, row, starts, (1,) * len(shape)), node)
    builder.add(Reshape(*who(node), row, y))


REARRANGE: dict[str, Rule] = {
    "Concat": _concat, "DepthToSpace": _depth_to_space, "Gather": _gather, "SpaceToDepth": _space_to_depth,
}  # fmt: skip
"""Operator -> how it becomes steps."""

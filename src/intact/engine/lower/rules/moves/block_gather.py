"""Lowers gathers of tables of codes in blocks: of their own operators, or behind a DequantizeLinear."""

from __future__ import annotations

from intact.engine.lower.base.block_constants import hold_blocks
from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.float_weights import write_floats
from intact.engine.lower.base.rule import between, plain, who
from intact.engine.lower.rules.moves.gather import check_range
from intact.engine.steps import BlockGather, Dim, Reshape, Tensor, Transpose
from intact.graph import BlockTable, Node, input_of, is_block_operator, read_block_table, set_shape


def lower_block_gather(builder: PlanBuilder, node: Node) -> None:
    """Lower a gather of rows of codes: they are dequantized when they are gathered (N67)."""
    table = read_block_table(node, builder.constants)
    if isinstance(table, str):
        raise NoMatch(table)
    index = plain(builder, input_of(node, 0 if is_block_operator(node) else 1))
    check_range(builder, index, table.sizes[0])
    value = node.outputs[0]
    if index.name in builder.arrays:  # where indices are computed of sizes, nobody knew what they make
        set_shape(value, _output_shape(table, index))
    y = write_floats(builder, value)
    permutation = _permutation(table, len(index.shape))
    is_turned = permutation != tuple(range(len(permutation)))
    axes = _between(builder, y, "axes", (*index.shape, *table.sizes[1:])) if is_turned else y
    is_flat = len(table.sizes) > 2
    rows = _between(builder, y, "rows", (*index.shape, table.weights.shape[1])) if is_flat else axes
    builder.add(
        BlockGather(*who(node), index.name, rows, **hold_blocks(builder, table.name, table.weights)), node
    )
    if is_flat:
        builder.add(Reshape(*who(node), rows, axes))
    if is_turned:
        builder.add(Transpose(*who(node), axes, y, permutation))


def _between(builder: PlanBuilder, y: str, what: str, shape: tuple[Dim, ...]) -> str:
    """Define what is gathered before its axes are apart, or in order."""
    return between(builder, f"{y}.{what}", builder.tensors[y], shape)


def _output_shape(table: BlockTable, index: Tensor) -> tuple[Dim, ...]:
    sizes: tuple[Dim, ...] = (*index.shape, *table.sizes[1:])
    return tuple(sizes[at] for at in _permutation(table, len(index.shape)))


def _permutation(table: BlockTable, index_rank: int) -> tuple[int, ...]:
    """Return where the axes of the output are among those of the index and of a row."""
    permutation: list[int] = []
    for axis in range(len(table.sizes)):
        if axis == table.axis:
            permutation += range(index_rank)
        else:
            permutation.append(index_rank + table.order.index(axis) - 1)
    return tuple(permutation)

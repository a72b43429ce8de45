"""Lowers ScatterND."""

from __future__ import annotations

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.rule import between, define_like, plain, product_of_sizes, who
from intact.engine.lower.rules.moves.gather_rows import (
    index_tuples,
    require_told,
    under_shape,
)
from intact.engine.lower.rules.moves.scatter_elements import (
    require_reduction,
    tensors_alike,
    with_codes_of_both,
)
from intact.engine.steps import Reshape, ScatterRows
from intact.graph import Node, ops


def lower_scatter_nd(builder: PlanBuilder, node: Node) -> None:
    """Lower a ScatterND, the inverse of `lower_gather_nd`."""
    x, updates = tensors_alike(builder, node.inputs[0], node.inputs[2])
    index, value = plain(builder, node.inputs[1]), node.outputs[0]
    count, name = index.shape[-1], value.name
    if not isinstance(count, int) or count < 1:
        raise NoMatch("the length of its tuples is not known")
    sizes = require_told(builder, x.shape[:count])
    output_codes, reduction = (
        with_codes_of_both(x, updates),
        require_reduction(ops.ScatterND.of(node).reduction, x),
    )
    tuples = index_tuples(builder, node, index)
    shape = (product_of_sizes(sizes, f"{name}.rows"), product_of_sizes(x.shape[count:], f"{name}.row"))
    rows = under_shape(builder, node, x, "rows", shape)
    update_rows = under_shape(builder, node, updates, "updates", (tuples.shape[0], rows.shape[1]))
    written = between(builder, f"{name}.written", output_codes, rows.shape)
    scatter = ScatterRows(*who(node), rows.name, tuples.name, update_rows.name, written, sizes, reduction)
    builder.add(scatter, node)
    y = define_like(builder, value, output_codes)
    builder.add(Reshape(*who(node), written, y))

"""Lowers nodes between a DQ and a Q that map every element by itself, to a table of codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.base.grids import Grid
from intact.engine.lower.rules.elements.reinterpret import keeps_codes, write_reinterpret
from intact.engine.steps import Codes, Table
from intact.graph import Node, Value, float_value_of, ops


def lower_table(
    builder: PlanBuilder, nodes: Sequence[Node], entry: Value, output: Value, function: str = ""
) -> None:
    """Lower `nodes`, which compute `output` from `entry` and constants of one element, to one table.

    Args:
        function: What `numerics` calls the function that they compute; "" where each is one of its own.
    Raises:
        NoMatch: It does not stand between codes, or one of its operators is not known here.
    """
    x, codes = builder.require_codes(entry)
    written = builder.output(output)
    if written.grid is None:
        raise NoMatch("its output goes on in float")
    inside = codes_of(codes)
    grid = Grid.of(codes)
    floats = numerics.dequantize(inside, *grid.affine, grid.spec)  # what the file means
    if function:
        made_floats = numerics.FUNCTIONS[function](floats)
    else:
        arrays: dict[Value, NDArray[Any]] = {entry: floats}
        with np.errstate(all="ignore"):
            for node in nodes:
                arrays[node.outputs[0]] = _evaluate(builder, node, arrays)
        made_floats = arrays[output]
    floats = np.broadcast_to(made_floats, inside.shape)
    if np.isnan(floats).any():
        raise NoMatch("it is not a number for some codes")
    output_codes = numerics.quantize(floats, *written.grid.affine, written.grid.spec)
    if keeps_codes(inside, output_codes, codes, written.grid):
        write_reinterpret(builder, nodes, x, builder.write(written, output, codes.low, codes.high))
        return
    y = builder.write(written, output, int(output_codes.min()), int(output_codes.max()))
    table = builder.hold(f"{nodes[0].name}.table", _bytes(builder, inside, output_codes, codes, y))
    done = tuple(n.name or "" for n in nodes)
    builder.add(Table(nodes[0].name or "", done, x, y, table), *nodes)


def codes_of(codes: Codes) -> NDArray[np.int64]:
    """Return every code that can occur."""
    return np.arange(codes.low, codes.high + 1)


def _bytes(
    builder: PlanBuilder, inside: NDArray[np.int64], output_codes: NDArray[np.int32], codes: Codes, y: str
) -> NDArray[np.uint8]:
    """Return the table by bytes; codes that do not occur read as the nearest one that does."""
    out = builder.tensors[y].codes
    assert out is not None
    places = np.clip(np.arange(256), inside[0] + codes.offset, inside[-1] + codes.offset)
    return np.asarray(output_codes[places - codes.offset - inside[0]] + out.offset, np.uint8)


def _evaluate(builder: PlanBuilder, node: Node, arrays: Mapping[Value, NDArray[Any]]) -> NDArray[Any]:
    """Evaluate one node, rounded to float32: by its step in floats, or in float64."""
    operands: list[NDArray[Any]] = []
    for index, value in enumerate(node.inputs):
        if value is None:
            operands.append(np.asarray(_default_operand(node, index), np.float32))
        else:
            operands.append(arrays[value] if value in arrays else _number(builder, value))
    if (step := float_value_of(node, operands)) is not None:
        return step
    values = ops.curve(node, *(x.astype(np.float64) for x in operands))
    if values is None:
        raise NoMatch(f"no curve is known for {node.op_type}")
    return np.asarray(values, np.float32)


def _default_operand(node: Node, index: int) -> float:
    """Return the default of an operand that is left out: the ends of Clip."""
    if node.op_type != "Clip":
        raise NoMatch("an operand in the middle is left out")
    return -np.inf if index == 1 else np.inf


def _number(builder: PlanBuilder, value: Value) -> NDArray[np.float32]:
    array = builder.constant(value, "one of its operands")
    if array.size != 1:
        raise NoMatch("one of its operands has more than one element")
    return np.asarray(array.reshape(-1)[0], np.float32)

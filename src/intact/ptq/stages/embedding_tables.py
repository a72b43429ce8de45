"""Embedding tables as int8 codes in blocks along their rows (numerics N67).

A table of float32 is most of the file of many text networks, and a run reads a few of its rows. A
GatherBlockQuantized of ONNX Runtime's domain dequantizes the rows that it gathers. Errors of outputs count
the tables: hold-out samples have the outputs of the float model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.formats import nbits_inputs
from intact.graph import (
    Constants,
    Model,
    Namer,
    Node,
    Value,
    inserter_at,
    is_op,
    ops,
    take_place,
)
from intact.numerics import BlockWeights
from intact.patterns import is_fitting
from intact.ptq.blocks import BlockFormat
from intact.ptq.measure.quantization_state import State

_LEAST_BYTES = 2**20
"""Size of a table: smaller ones are not worth an operator of their own."""

_BLOCKS = (64, 32, 16)
"""Elements of a row that share a scale: the largest of these that divides it."""

_LEAST_DB = 36.0
"""Signal to quantization noise ratio of a table in codes: 8 bits of anything behind it have less."""


def write_embedding_tables(state: State) -> State | None:
    """Put GatherBlockQuantized in the place of Gathers from large constant tables, in place.

    None where there are none, or files shall have pairs alone.
    """
    settings = state.settings
    if not settings.may_be_dynamic or settings.weights != "int8":
        return None
    names = {target.site.value for target in state.targets}
    names |= {name for target in state.targets for name, index in target.readers if index == 0}
    count = write_block_gathers(state.model, settings.include, settings.exclude, names, _LEAST_BYTES)
    return (
        state.with_note(f"{count} embedding tables became int8 codes in blocks along their rows")
        if count
        else None
    )


def write_block_gathers(
    model: Model,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    names: Collection[str] = (),
    least_bytes: int = 0,
) -> int:
    """Put GatherBlockQuantized in the place of Gathers of rows of constant tables, in place.

    Args:
        model: It.
        include, exclude: Patterns over names and operators of Gathers.
        names: Of values and nodes that are left alone.
        least_bytes: Size of a table: smaller ones stay.

    Returns:
        The number of tables that were replaced: float32 matrices whose rows blocks divide.
    """
    count, constants, namer = 0, Constants(model.graph), Namer(model.graph)
    for table, readers in list(_tables(model, include, exclude, names)):
        array = constants(table)
        weights = None if array is None or array.nbytes < least_bytes else _round_rows(array)
        if weights is not None:
            _write_gathers(namer, readers, weights)
            count += 1
    return count


def _tables(
    model: Model, include: Sequence[str], exclude: Sequence[str], names: Collection[str]
) -> Iterator[tuple[Value, list[Node]]]:
    """Yield float32 matrices that only Gathers of rows read, none of which is excluded."""
    for value in model.graph.initializers.values():
        readers = [use.node for use in value.uses()]
        if not readers or value.is_graph_output() or value.is_graph_input() or value.name in names:
            continue
        if not all(_gathers_rows(node, value) and node.name not in names for node in readers):
            continue
        labels = [(node.name or "", node.op_type) for node in readers]
        excluded = any(is_fitting(pattern, node) for pattern in exclude for node in labels)
        left_out = include and not any(is_fitting(p, n) for p in include for n in labels)
        if not excluded and not left_out:
            yield value, readers


def _gathers_rows(node: Node, table: Value) -> bool:
    return is_op(node, "Gather") and node.inputs[0] is table and ops.Gather.of(node).axis == 0


def _round_rows(array: NDArray) -> BlockWeights | None:
    """Return a table on its grid; None for others than matrices that keep enough of their values."""
    if array.dtype != np.float32 or array.ndim != 2:
        return None
    rows, size = array.shape
    block = next((block for block in _BLOCKS if size % block == 0), 0)
    if not block or not np.isfinite(array).all():
        return None
    blocks = array.reshape(rows, size // block, block)
    scales = np.abs(blocks).max(axis=2) / np.float32(127)
    codes = np.rint(blocks / np.where(scales > 0, scales, 1)[..., None])
    noise = np.square(codes * scales[..., None] - blocks, dtype=np.float64).sum()
    if noise > 10 ** (-_LEAST_DB / 10) * np.square(array, dtype=np.float64).sum():
        return None
    return BlockFormat("int8", block).weights(codes.reshape(rows, size), scales, np.zeros_like(scales))


def _write_gathers(names: Namer, readers: Sequence[Node], weights: BlockWeights) -> None:
    """Replace Gathers of one table by GatherBlockQuantized of the same rows; outputs keep their names."""
    inputs, attributes = nbits_inputs(weights)
    arrays = {"codes": inputs["B"].reshape(len(inputs["B"]), -1), "scales": inputs["scales"]}
    if "zero_points" in inputs:
        arrays["zero_points"] = inputs["zero_points"]
    constants = list[Value]()
    for node in readers:
        insert, table, output = inserter_at(names, node), node.inputs[0], node.outputs[0]
        assert table is not None
        constants = constants or [insert.constant(f"{table.name}.{n}", array) for n, array in arrays.items()]
        value = insert.node(
            "GatherBlockQuantized", [constants[0], node.inputs[1], *constants[1:]], node.name or "",
            domain=ops.MICROSOFT, dtype=output.dtype, shape=output.shape, gather_axis=0, quantize_axis=1,
            block_size=attributes["block_size"], bits=attributes["bits"],
        )  # fmt: skip
        take_place(node, [value], insert.names)

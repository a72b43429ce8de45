"""Weights that came as 8-bit codes and stay in float are stored as these codes again.

A file that another tool quantized, with a DynamicQuantizeLSTM for example, is made float before anything is
placed. What no layer then reads in int8, as the weights of recurrent states, would come back four times as
large. The codes behind a DequantizeLinear mean the same floats, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from intact.graph import Inserter, Namer, StoredCodes, Value, codes_behind
from intact.ptq.measure.quantization_state import State

LEAST_BYTES = 2**12
"""Size of floats: smaller constants are not worth a node."""


def store_codes_again(state: State) -> State | None:
    """Put codes and a DequantizeLinear in the place of floats that were made of codes, in place."""
    names, written = Namer(state.model.graph), 0
    for value in list(state.model.graph.initializers.values()):
        stored = codes_behind(value)
        if stored is None or value.is_graph_output() or not value.uses():
            continue
        array = None if value.const_value is None else value.const_value.numpy()
        if array is None or array.nbytes < LEAST_BYTES or not np.array_equal(array, stored.floats):
            continue
        _replace(state, value, stored, names)
        written += 1
    return (
        state.with_note(f"{written} weights that stay in float keep the codes that they came in")
        if written
        else None
    )


def _replace(state: State, value: Value, stored: StoredCodes, names: Namer) -> None:
    """Let all readers of a constant read its codes through a DequantizeLinear in front of the first node."""
    readers = [(use.node, use.idx) for use in value.uses()]
    insert = Inserter(state.model.graph, next(iter(state.model.graph)), names)
    parts = {"codes": stored.codes, "scale": stored.scale, "zero_point": stored.zero_point}
    constants = [insert.constant(f"{value.name}.{name}", part) for name, part in parts.items()]
    axis: dict[str, Any] = {} if stored.scale.ndim == 0 else {"axis": stored.axis}
    floats = insert.node(
        "DequantizeLinear", constants, f"{value.name}.floats", dtype=value.dtype, shape=value.shape, **axis
    )
    for node, index in readers:
        node.replace_input_with(index, floats)

"""Look up the record of a node's operator, and ask it questions."""

from __future__ import annotations

from functools import cache
from inspect import Parameter, signature
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.ops import (
    arithmetic,
    compounds,
    functions,
    logic,
    moves,
    norms,
    qoperators,
    recurrent,
    reductions,
    structure,
    weighted,
)
from intact.graph.ops.function_record import Function, Variant
from intact.graph.ops.record import Kind, Look, Operator

_FILES = (
    arithmetic, compounds, functions, logic, moves, norms, qoperators, recurrent,
    reductions, structure, weighted,
)  # fmt: skip


def _records() -> dict[tuple[str, str], type[Operator]]:
    """Return the records by (domain, operator)."""
    records: dict[tuple[str, str], type[Operator]] = {}
    for file in _FILES:
        for name, record in vars(file).items():
            if isinstance(record, type) and issubclass(record, Operator) and not record.shared:
                records[record.domain, record.op_type or name] = record
    return records


BOOK = _records()
"""(domain, operator) -> its record."""


def of_kind(*kinds: Kind) -> frozenset[str]:
    """Return ONNX's own operators of these kinds."""
    return frozenset(name for (domain, name), record in BOOK.items() if not domain and record.kind in kinds)


CONVOLUTIONS = of_kind("convolution")
PRODUCTS = of_kind("product")
RECURRENT = of_kind("recurrent")

MULTIPLY_WIDE = frozenset({"Conv", "Gemm", "MatMul"}) | RECURRENT
"""Operators that multiply 16-bit inputs by constant 8-bit weights in integers (N62)."""
WITH_CURVE = frozenset(
    name for (domain, name), entry in BOOK.items() if not domain and entry.curve is not None
)
"""Operators of which `curve` knows what they make."""
MOVING = of_kind("move")
"""Operators that only move data, where their guards hold: `computes`."""
FUNCTIONS = {
    name: record for (domain, name), record in BOOK.items() if not domain and issubclass(record, Function)
}
"""The operators of kind "function", and their records."""
VARIANTS: tuple[tuple[type[Function], Variant], ...] = tuple(
    (record, variant) for record in FUNCTIONS.values() for variant in record.variants
)
"""Each function that has a name or a kernel of its own, and its operator's record."""
NAMED_FUNCTIONS = {
    variant.name or record.__name__: record(**variant.attributes) for record, variant in VARIANTS
}
"""Their names in reports ("Silu", "Gelu(tanh)"), and the operator with the attributes that it has there."""


def record_of(node: ir.Node | None) -> type[Operator] | None:
    """Return the record of a node's operator; None where nothing is known of it."""
    return None if node is None else BOOK.get((node.domain, node.op_type))


def read(node: ir.Node) -> Operator | None:
    """Read a node as its operator's record; None where the book has none."""
    record = record_of(node)
    return None if record is None else record.of(node)


def data_inputs(node: ir.Node) -> tuple[int, ...]:
    """Return the indices of a node's data inputs; all, where the book has no record."""
    record = read(node)
    return tuple(range(len(node.inputs))) if record is None else record.data_inputs(node)


def weight_axis(node: ir.Node) -> int | None:
    """Return the output-channel axis of a node's weight; None where its operator has no weight."""
    record = read(node)
    return None if record is None else record.weight_axis


def display_name(node: ir.Node) -> str:
    """Return the name of a node's computation in reports: mostly its operator."""
    record = read(node)
    return node.op_type if record is None else record.display_name


def is_exact(node: ir.Node) -> bool:
    """Return whether every runtime makes the same floats of the same inputs; False where nothing is known."""
    record = read(node)
    return record is not None and record.is_exact


def curve(node: ir.Node, *operands: NDArray[Any] | float) -> NDArray[Any] | None:
    """Compute a node on arrays and numbers, element by element, in float64.

    None where no record says, or where the node has not the operands that its operator needs.
    """
    record = read(node)
    return None if record is None else curve_of(record, *operands)


def curve_of(record: Operator, *operands: NDArray[Any] | float) -> NDArray[Any] | None:
    """Compute an operator as `curve` computes its node."""
    if record.curve is None:
        return None
    fewest, most = _operand_counts(type(record))  # type: ignore[arg-type]  # classes are hashable
    return record.curve(*operands) if fewest <= len(operands) <= most else None


@cache
def _operand_counts(record: type[Operator]) -> tuple[int, int]:
    """Return the least and the largest number of operands that an operator's curve takes."""
    curve = record().curve
    assert curve is not None
    parameters = list(signature(curve).parameters.values())
    if any(each.kind == Parameter.VAR_POSITIONAL for each in parameters):
        return sum(each.kind != Parameter.VAR_POSITIONAL for each in parameters), 2**31
    return sum(each.default is Parameter.empty for each in parameters), len(parameters)


def is_kind(node: ir.Node | None, *kinds: Kind) -> bool:
    """Return whether a node's operator is of one of these kinds."""
    record = record_of(node)
    return record is not None and record.kind in kinds


def may_move(node: ir.Node | None, *, keeps_all: bool = False) -> bool:
    """Return whether a node's operator moves data, whatever its attributes.

    `keeps_all`: each element, once.
    """
    record = record_of(node)
    return record is not None and record.kind == "move" and (record.keeps_all or not keeps_all)


def computes(node: ir.Node, constants: Look) -> str:
    """Return why `node` computes new values, so that a DQ cannot pass it; "" where it only moves data.

    Args:
        node: Of any operator.
        constants: Tells what a value always is, None where it depends on an input.
    """
    record = read(node)
    return "it computes" if record is None else record.computes(node, constants)


def quantized_before(node: ir.Node, constants: Look) -> str:
    """Return why a pair behind `node` cannot move to its input; "" where it can."""
    if why := computes(node, constants):
        return why
    record = record_of(node)
    # Codes may be equal where floats are not: it would pick another, which has the same code.
    uses_indices = (
        record is not None and record.picks and any(v.uses() or v.is_graph_output() for v in node.outputs[1:])
    )
    return "its indices are used, and equal codes would change them" if uses_indices else ""

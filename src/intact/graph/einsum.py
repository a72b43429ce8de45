"""Einsum of two tensors as the MatMul that it is, of more as several: rules and kernels know that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from intact.graph.build import Inserter, Namer, drop_unused, replace
from intact.graph.einsum_terms import first_two, written_out
from intact.graph.notes import Note
from intact.graph.view import is_op


def open_einsums(model: ir.Model, may_move: Callable[[ir.Value], bool] = lambda _: True) -> list[Note]:
    """Write every Einsum that is products of matrices, two operands at a time, as MatMuls, in place.

    Before: ``Einsum("bihd,bjhd->bhij", q, k)``.
    After:  ``MatMul(Transpose(q, [0, 2, 1, 3]), Transpose(k, [0, 2, 3, 1]))``.

    Before: ``Einsum("...ij,jk,kl->...il", a, b, c)``.  After: ``MatMul(MatMul(a, b), c)``.

    Guards: floats; no letter twice in one term; the ranks are known where there is a "..."; the terms of each
    product share one letter that what they make does not have, and each has at least one of its own, which
    that does.

    Args:
        model: Changed in place; of opset 13 or newer.
        may_move: Whether a Transpose may be put behind a value; else its Einsum stays.
    Returns:
        One note per Einsum that was opened.
    """
    names, notes = Namer(model.graph), []
    for node in list(model.graph):
        if not is_op(node, "Einsum") or len(node.inputs) < 2 or not all(map(_is_float, node.inputs)):
            continue
        ranks = [None if x is None or x.shape is None else len(x.shape) for x in node.inputs]
        equation = written_out(node.attributes["equation"].as_string(), ranks)
        products = _products(equation) if equation is not None else []
        if not products or not _may_move(products, node.inputs, may_move):
            continue
        what = "a MatMul" if len(products) == 1 else f"{len(products)} MatMuls"
        notes.append(Note(node.name or "", f"an Einsum is {what}"))
        for product in products[:-1]:
            _open(_first_two(node, product, names), product, names)
        _open(node, products[-1], names)
    return notes


def _products(equation: str) -> list[_Product]:
    """An equation as products of the first two operands, of what they make with the next, ...; or []."""
    found: list[_Product | None] = []
    while equation.count(",") > 1:
        first, equation = first_two(equation)
        found.append(_product(first))
    found.append(_product(equation))
    products = [product for product in found if product is not None]
    return products if len(products) == len(found) else []


def _may_move(
    products: list[_Product], operands: Sequence[ir.Value | None], may_move: Callable[[ir.Value], bool]
) -> bool:
    """Whether a Transpose may be put behind each operand that wants one."""
    first, *others = products
    laid = [first.stays(0), first.stays(1), *(product.stays(1) for product in others)]
    return all(stays or may_move(x) for stays, x in zip(laid, operands, strict=True) if x is not None)


def _first_two(node: ir.Node, product: _Product, names: Namer) -> ir.Node:
    """An Einsum of the first two operands of a node, which reads it in their place from now on."""
    graph, (a, b, *rest) = node.graph, node.inputs
    assert isinstance(graph, ir.Graph)
    equation = f"{','.join(product.terms)}->{product.answer}"
    dtype = node.outputs[0].dtype
    made = Inserter(graph, node, names).node(
        "Einsum", [a, b], f"{node.name}.first", dtype=dtype, shape=None, equation=equation
    )
    first = made.producer()
    assert first is not None
    node.resize_inputs(1 + len(rest))
    for index, value in enumerate([made, *rest]):
        node.replace_input_with(index, value)
    return first


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and (value.dtype is None or value.dtype.is_floating_point())


@dataclass(frozen=True)
class _Product:
    """An Einsum as a product of matrices; letters are axes.

    Attributes:
        terms: The axes of both operands.
        wanted: Those that MatMul reads each of them with; one that it does not have is of size 1 there.
        order: Which operand is on the left, and which on the right.
        made: The axes of what MatMul makes.
        answer: Those of what Einsum makes.
    """

    terms: tuple[str, str]
    wanted: tuple[str, str]
    order: tuple[int, int]
    made: str
    answer: str

    def stays(self, operand: int) -> bool:
        """Whether MatMul reads the operand as it is."""
        return self.wanted[operand] == self.terms[operand]


def _product(equation: str) -> _Product | None:
    """What `equation` says, if it is one product of matrices."""
    left, arrow, answer = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != 2 or any(len(set(t)) < len(t) for t in (*terms, answer)):
        return None
    a, b = terms
    summed = [axis for axis in a if axis in b and axis not in answer]
    own = [
        [axis for axis in answer if axis in term and axis not in other] for term, other in ((a, b), (b, a))
    ]
    shared = [axis for axis in answer if axis in a and axis in b]
    used = {*summed, *shared, *own[0], *own[1]}
    if len(summed) != 1 or not all(own) or used != {*a, *b} or used - {*summed} != {*answer}:
        return None
    rows, columns = own[0][-1], own[1][-1]
    order = (0, 1) if answer.index(rows) < answer.index(columns) else (1, 0)
    if order == (1, 0):
        rows, columns = columns, rows
    lead = "".join(axis for axis in answer if axis not in (rows, columns))
    tails = {order[0]: rows + summed[0], order[1]: summed[0] + columns}
    wanted = [_without_front(lead, term) + tails[i] for i, term in enumerate(terms)]
    return _Product((a, b), (wanted[0], wanted[1]), order, lead + rows + columns, answer)


def _without_front(lead: str, term: str) -> str:
    """The axes of `lead` from the first one on that `term` has: shapes are matched from the back."""
    places = [place for place, axis in enumerate(lead) if axis in term]
    return lead[places[0] :] if places else ""


def _open(node: ir.Node, product: _Product, names: Namer) -> None:
    graph, (old, name) = node.graph, (node.outputs[0], node.name or "einsum")
    assert isinstance(graph, ir.Graph)
    insert = Inserter(graph, node, names)
    read = [_laid(insert, name, x, product, i) for i, x in enumerate(node.inputs) if x is not None]
    left, right = (read[i] for i in product.order)
    perm = [product.made.index(axis) for axis in product.answer]
    idle = perm == sorted(perm)
    node.name = names(f"{name}.einsum")  # the product takes over its name
    made = insert.node(
        "MatMul", [left, right], f"{name}.product", dtype=old.dtype, shape=old.shape if idle else None
    )
    producer = made.producer()
    assert producer is not None
    producer.name = name
    if not idle:
        made = insert.node("Transpose", [made], f"{name}.answer", dtype=old.dtype, shape=old.shape, perm=perm)
    if not old.is_graph_output():  # else `replace` does the same
        made.name, old.name = old.name, None
    operands = tuple(node.inputs)
    replace(node, made, names)
    drop_unused(graph, *operands)


def _laid(insert: Inserter, name: str, x: ir.Value, product: _Product, operand: int) -> ir.Value:
    """An operand with its axes as MatMul wants them."""
    if product.stays(operand):
        return x
    term, wanted = product.terms[operand], product.wanted[operand]
    perm = [term.index(axis) for axis in wanted if axis in term]
    missing = [place for place, axis in enumerate(wanted) if axis not in term]
    if x.is_initializer() and x.const_value is not None:
        array = np.expand_dims(x.const_value.numpy().transpose(perm), tuple(missing))
        return insert.constant(f"{x.name}.laid", np.ascontiguousarray(array), x.dtype)
    if perm != sorted(perm):
        x = insert.node("Transpose", [x], f"{name}.laid{operand}", dtype=x.dtype, shape=None, perm=perm)
    if missing:
        axes = insert.constant(f"{name}.axes{operand}", np.array(missing, np.int64))
        x = insert.node("Unsqueeze", [x, axes], f"{name}.wide{operand}", dtype=x.dtype, shape=None)
    return x

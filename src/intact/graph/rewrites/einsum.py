"""Rewrite Einsum: of one tensor as Transpose, of two as MatMul or Mul, of more as several.

Rules and kernels know those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter, Namer, drop_unused, take_place
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.einsum_terms import expand_ellipsis, first_two, spare_letter
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene


def _decompose_einsum(node: ir.Node, scene: Scene) -> Outcome:
    """Write an Einsum that is products of two operands at a time as MatMuls and Muls.

    Before: ``Einsum("bihd,bjhd->bhij", q, k)``.
    After:  ``MatMul(Transpose(q, [0, 2, 1, 3]), Transpose(k, [0, 2, 3, 1]))``.

    Before: ``Einsum("bihd,hdo->bio", x, w)``, h and d of 4 and 8.
    After:  ``MatMul(Reshape(x, [0, 0, 32]), Reshape(w, [32, -1]))``.

    Before: ``Einsum("bih,hnd->bind", x, w)``, n and d of 4 and 8.
    After:  ``Reshape(MatMul(x, Reshape(w, [0, 32])), [0, 0, 4, 8])``.

    Before: ``Einsum("bij,bj->bi", x, v)``.  After: ``Squeeze(MatMul(x, Unsqueeze(v, [2])), [2])``.

    Before: ``Einsum("bi,bj->bij", a, b)``.  After: ``Mul(Unsqueeze(a, [2]), Unsqueeze(b, [1]))``.

    Before: ``Einsum("bi,bi->b", a, b)``.  After: ``ReduceSum(Mul(a, b), [1])``.

    Before: ``Einsum("...ij,jk,kl->...il", a, b, c)``.  After: ``MatMul(MatMul(a, b), c)``.

    Before: ``Einsum("nhwpqc->nchpwq", x)``.  After: ``Transpose(x, [0, 5, 1, 3, 2, 4])``.

    Guards: floats; no letter twice in one term; the ranks are known where there is a "..."; both terms of
    each product have every letter that is summed, and where a MatMul sums several, their sizes are known
    and equal.
    """
    ranks = [None if x is None or x.shape is None else len(x.shape) for x in node.inputs]
    equation = expand_ellipsis(ops.Einsum.of(node).equation, ranks)
    if equation is not None and len(node.inputs) == 1:
        what = _turn(node, equation, scene.names)
        return None if what is None else f"an Einsum is {what}"
    products = [] if equation is None else _products(equation, _sizes(equation, node.inputs))
    if not products:
        return None
    for product in products[:-1]:
        _open(_first_two(node, product, scene.names), product, scene.names)
    _open(node, products[-1], scene.names)
    return f"an Einsum is {products[0].what if len(products) == 1 else f'{len(products)} products'}"


def _turn(node: ir.Node, equation: str, names: Namer) -> str | None:
    """Write an Einsum of one operand as sums and a Transpose; None where it is something else."""
    graph, (x,), old, name = node.graph, node.inputs, node.outputs[0], node.name or "einsum"
    term, _, answer = equation.partition("->")
    if any(len(set(axes)) < len(axes) for axes in (term, answer)) or not set(answer) <= set(term):
        return None
    assert isinstance(graph, ir.Graph) and x is not None
    insert = Inserter(graph, node, names)
    result = _order_axes(insert, name, x, term, answer, old)
    if result is x:  # as it is
        perm = list(range(len(term)))
        result = insert.node("Transpose", [x], f"{name}.answer", dtype=old.dtype, shape=old.shape, perm=perm)
    producer = result.producer()
    assert producer is not None
    node.name, producer.name = names(f"{name}.einsum"), name
    what = ["a ReduceSum"] * (len(answer) < len(term)) + ["a Transpose"] * is_op(producer, "Transpose")
    take_place(node, [result], names)
    return " and ".join(what)


def _sizes(equation: str, operands: Sequence[ir.Value | None]) -> dict[str, int]:
    """Return the size of each letter for which every operand that has it is known to have the same."""
    sizes_of_letters: dict[str, set[object]] = {}
    for term, x in zip(equation.partition("->")[0].split(","), operands, strict=True):
        shape = None if x is None or x.shape is None or len(x.shape) != len(term) else x.shape
        for place, axis in enumerate(term):
            sizes_of_letters.setdefault(axis, set()).add(None if shape is None else shape[place])
    only = {axis: next(iter(sizes)) for axis, sizes in sizes_of_letters.items() if len(sizes) == 1}
    return {axis: size for axis, size in only.items() if isinstance(size, int)}


def _products(equation: str, sizes: Mapping[str, int]) -> list[_Product]:
    """Split an equation into products of two operands: the first two, then their result and the next.

    Empty where a product is of another kind.
    """
    candidates: list[_Product | None] = []
    while equation.count(",") > 1:
        first, equation = first_two(equation)
        candidates.append(_product(first, sizes))
    candidates.append(_product(equation, sizes))
    products = [product for product in candidates if product is not None]
    return products if len(products) == len(candidates) else []


def _first_two(node: ir.Node, product: _Product, names: Namer) -> ir.Node:
    """Insert an Einsum of the first two operands of a node, which reads its result in their place."""
    graph, (a, b, *rest) = node.graph, node.inputs
    assert isinstance(graph, ir.Graph)
    equation = f"{','.join(product.terms)}->{product.answer}"
    dtype = node.outputs[0].dtype
    product_output = Inserter(graph, node, names).node(
        "Einsum", [a, b], f"{node.name}.first", dtype=dtype, shape=None, equation=equation
    )
    first = product_output.producer()
    assert first is not None
    node.resize_inputs(1 + len(rest))
    for index, value in enumerate([product_output, *rest]):
        node.replace_input_with(index, value)
    return first


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and (value.dtype is None or value.dtype.is_floating_point())


@dataclass(frozen=True)
class _Product:
    """An Einsum of two operands as one node; letters are axes.

    Attributes:
        kind: "MatMul" or "Mul".
        terms: The axes of both operands.
        wanted: Those that the node reads each of them with, summed ones last (of the right operand of a
            MatMul in front of the last); one that it does not have is of size 1 there.
        order: Which operand is on the left, and which on the right.
        output_axes: The axes of the node's output. A Mul still has those that are summed behind it, and a
            MatMul with a vector has one of size 1.
        answer: Those of what Einsum makes.
        summed: Those that are summed.
        sizes: Of the summed ones, where a MatMul sums more than one.
        width: Of its columns then; -1 where that is not known.
        columns: The axes that are its columns, of these sizes; none where one axis is all of them.
    """

    kind: str
    terms: tuple[str, str]
    wanted: tuple[str, str]
    order: tuple[int, int]
    output_axes: str
    answer: str
    summed: str
    sizes: tuple[int, ...] = ()
    width: int = -1
    columns: tuple[int, ...] = ()

    @property
    def what(self) -> str:
        return f"a {self.kind}" + (" and a ReduceSum" if self.kind == "Mul" and self.summed else "")

    def stays(self, operand: int) -> bool:
        """Return whether the node reads the operand as it is."""
        return self.wanted[operand] == self.terms[operand] and not _merge_shape(self, operand)


def _product(equation: str, sizes: Mapping[str, int]) -> _Product | None:
    """Parse `equation` into a product; None if it is none."""
    left, arrow, answer = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != 2 or any(len(set(t)) < len(t) for t in (*terms, answer)):
        return None
    a, b = terms
    summed = "".join(axis for axis in a if axis in b and axis not in answer)
    own = [
        [axis for axis in answer if axis in term and axis not in other] for term, other in ((a, b), (b, a))
    ]
    if {*a, *b} != {*answer, *summed}:
        return None
    if not summed or not any(own):
        wanted = [_without_front(answer + summed, term) for term in terms]
        return _Product("Mul", (a, b), (wanted[0], wanted[1]), (0, 1), answer + summed, answer, summed)
    if len(summed) > 1 and not all(axis in sizes for axis in summed):
        return None
    if all(own):
        rows, columns = own[0][-1], own[1][-1]
        order = (0, 1) if answer.index(rows) < answer.index(columns) else (1, 0)
        if order == (1, 0):
            rows, columns = columns, rows
    else:  # a vector, or several: the answer has no columns
        order = (0, 1) if own[0] else (1, 0)
        rows, columns = own[order[0]][-1], spare_letter(equation)
    if all(own):
        columns = _run(answer, columns, [axis for axis in own[order[1]] if axis in sizes])
    lead = "".join(axis for axis in answer if axis not in rows + columns)
    tails = {order[0]: rows + summed, order[1]: summed + columns}
    wanted = [_without_front(lead, term) + tails[i] for i, term in enumerate(terms)]
    merged = tuple(sizes[axis] for axis in summed) if len(summed) > 1 else ()
    spread = tuple(sizes[axis] for axis in columns) if len(columns) > 1 else ()
    output_axes, width = (
        lead + rows + columns,
        prod(spread) if spread else sizes.get(columns, -1 if all(own) else 1),
    )
    order_of = (a, b), (wanted[0], wanted[1]), order
    return _Product("MatMul", *order_of, output_axes, answer, summed, merged, width, spread)


def _run(answer: str, last: str, rest: Sequence[str]) -> str:
    """Return the axes of the answer side by side up to `last`, as far as they are among `rest`."""
    first = end = answer.index(last)
    while last in rest and first and answer[first - 1] in rest:
        first -= 1
    return answer[first : end + 1]


def _without_front(lead: str, term: str) -> str:
    """Return the axes of `lead` from the first one on that `term` has: shapes are matched from the back."""
    places = [place for place, axis in enumerate(lead) if axis in term]
    return lead[places[0] :] if places else ""


def _open(node: ir.Node, product: _Product, names: Namer) -> None:
    graph, (old, name) = node.graph, (node.outputs[0], node.name or "einsum")
    assert isinstance(graph, ir.Graph)
    insert = Inserter(graph, node, names)
    read = [_lay_out_operand(insert, name, x, product, i) for i, x in enumerate(node.inputs) if x is not None]
    operands = [read[i] for i in product.order]
    same = product.output_axes == product.answer and not product.columns
    node.name = names(f"{name}.einsum")  # the product takes over its name
    result = insert.node(
        product.kind, operands, f"{name}.product", dtype=old.dtype, shape=old.shape if same else None
    )
    producer = result.producer()
    assert producer is not None
    producer.name = name
    result = _answer(insert, name, result, product, old)
    old_inputs = tuple(node.inputs)
    take_place(node, [result], names)
    drop_unused(graph, *old_inputs)


def _answer(insert: Inserter, name: str, value: ir.Value, product: _Product, old: ir.Value) -> ir.Value:
    """Turn the output of the product into that of the Einsum."""
    if product.columns:
        size = np.array(
            [0] * (len(product.output_axes) - len(product.columns)) + [*product.columns], np.int64
        )
        shape = old.shape if product.output_axes == product.answer else None
        sizes = insert.constant(f"{name}.sizes", size)
        value = insert.node("Reshape", [value, sizes], f"{name}.columns", dtype=old.dtype, shape=shape)
    return _order_axes(
        insert, name, value, product.output_axes, product.answer, old, sums=product.kind == "Mul"
    )


def _order_axes(
    insert: Inserter, name: str, value: ir.Value, axes: str, answer: str, old: ir.Value, *, sums: bool = True
) -> ir.Value:
    """Order a value's axes as in the answer; missing ones are summed, or have one index."""
    gone = [place for place, axis in enumerate(axes) if axis not in answer]
    kept_axes = [axis for axis in axes if axis in answer]
    perm = [kept_axes.index(axis) for axis in answer]
    idle = perm == sorted(perm)
    if gone:
        read = [value, insert.constant(f"{name}.summed", np.array(gone, np.int64))]
        shape = old.shape if idle else None
        if sums:
            value = insert.node("ReduceSum", read, f"{name}.sum", dtype=old.dtype, shape=shape, keepdims=0)
        else:
            value = insert.node("Squeeze", read, f"{name}.vector", dtype=old.dtype, shape=shape)
    if idle:
        return value
    return insert.node("Transpose", [value], f"{name}.answer", dtype=old.dtype, shape=old.shape, perm=perm)


def _lay_out_operand(insert: Inserter, name: str, x: ir.Value, product: _Product, operand: int) -> ir.Value:
    """Order an operand's axes as the product wants them."""
    if product.stays(operand):
        return x
    term, wanted = product.terms[operand], product.wanted[operand]
    perm = [term.index(axis) for axis in wanted if axis in term]
    missing = [place for place, axis in enumerate(wanted) if axis not in term]
    size = _merge_shape(product, operand)
    if x.is_initializer() and x.const_value is not None:
        array = np.expand_dims(x.const_value.numpy().transpose(perm), tuple(missing))
        if size:
            array = array.reshape(*array.shape[: size.count(0)], *size[size.count(0) :])
        return insert.constant(f"{x.name}.laid", np.ascontiguousarray(array), x.dtype)
    if perm != sorted(perm):
        x = insert.node("Transpose", [x], f"{name}.laid{operand}", dtype=x.dtype, shape=None, perm=perm)
    if missing:
        axes = insert.constant(f"{name}.axes{operand}", np.array(missing, np.int64))
        x = insert.node("Unsqueeze", [x, axes], f"{name}.wide{operand}", dtype=x.dtype, shape=None)
    if size:
        shape = insert.constant(f"{name}.size{operand}", np.array(size, np.int64))
        x = insert.node("Reshape", [x, shape], f"{name}.flat{operand}", dtype=x.dtype, shape=None)
    return x


def _merge_shape(product: _Product, operand: int) -> list[int]:
    """Return the shape of an operand as Reshape takes it where several of its axes become one; else none."""
    left, several = operand == product.order[0], product.sizes
    if not several and (left or not product.columns):
        return []
    front = len(product.wanted[operand]) - len(product.summed) - (1 if left else max(len(product.columns), 1))
    merged_size = prod(several) if several else 0
    return [0] * (front + 1) + [merged_size] if left else [0] * front + [merged_size, product.width]


EINSUM = Rewrite(
    "write Einsum as products", _decompose_einsum, ("Einsum",), requires=Requires(opset=13),
    matches=lambda node: all(map(_is_float, node.inputs)), ensures=Ensures(shapes=True),
)  # fmt: skip

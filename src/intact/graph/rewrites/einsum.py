"""Rewrite Einsum: of one tensor as Transpose, of two as MatMul or Mul, of more as several.

Rules and kernels know those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter, Namer, drop_unused, take_place
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.einsum_terms import EinsumProduct, expand_ellipsis, merge_shape, split_products
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
    products = [] if equation is None else split_products(equation, _sizes(equation, node.inputs))
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


def _first_two(node: ir.Node, product: EinsumProduct, names: Namer) -> ir.Node:
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


def _open(node: ir.Node, product: EinsumProduct, names: Namer) -> None:
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


def _answer(insert: Inserter, name: str, value: ir.Value, product: EinsumProduct, old: ir.Value) -> ir.Value:
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


def _lay_out_operand(
    insert: Inserter, name: str, x: ir.Value, product: EinsumProduct, operand: int
) -> ir.Value:
    """Order an operand's axes as the product wants them."""
    if product.stays(operand):
        return x
    term, wanted = product.terms[operand], product.wanted[operand]
    perm = [term.index(axis) for axis in wanted if axis in term]
    missing = [place for place, axis in enumerate(wanted) if axis not in term]
    size = merge_shape(product, operand)
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


EINSUM = Rewrite(
    "write Einsum as products", _decompose_einsum, ("Einsum",), requires=Requires(opset=13),
    matches=lambda node: all(map(_is_float, node.inputs)), ensures=Ensures(shapes=True),
)  # fmt: skip

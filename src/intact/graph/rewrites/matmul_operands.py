"""Rewrite a MatMul with matrices that a Gather picks (experts, adapters), and one with vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from intact.graph import ops
from intact.graph.core.build import Inserter, Namer, Writer, hand_over, is_read, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of, static_sizes
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene

_OURS = "intact"
"""The domain of nodes that mark a tensor, and hand it on."""


def _multiply_by_all(node: ir.Node, scene: Scene) -> Outcome:
    """Multiply rows by all matrices and select from the results, where indices choose a matrix for each row.

    Before: ``MatMul(Unsqueeze(x, [1]), Gather(w, index))``, w a marked constant [4, 32, 64].
    After:  ``GatherND(Reshape(MatMul(x, w'), [0, 4, 64]), index)``, w' [32, 256] of the four side by side.

    The same numbers, of more products: but w' is one constant matrix, whose columns may have a scale each,
    and no matrix is copied for each row.

    Guards: one row for each matrix that is chosen; the weight is a constant that a node of ours marks: nobody
    asks for other weights; sizes of w are known.
    """
    for side in (1, 0):
        chosen = _match(node, side)
        if chosen is not None:
            _open(node, chosen, scene.names)
            return "a product with chosen matrices is one with all of them"
    return None


@dataclass(frozen=True)
class _GatheredMatMul:
    """A product of rows with chosen matrices.

    Attributes:
        rows: Its other operand.
        matrices: The constant [number, ...] that is chosen from.
        index: Which: [*leading, 1], or [*leading] where `flat`.
        flat: Whether each index is a number, and not a tuple of one.
        turned: Whether the matrices are [columns, depth].
        shared: How many leading axes rows and indices share; behind them one row is multiplied by several.
        axis: Of the product's axes, that of size 1.
    """

    rows: ir.Value
    matrices: ir.Value
    index: ir.Value
    flat: bool
    turned: bool
    shared: int
    axis: int

    @property
    def leading(self) -> int:
        """Return the number of axes of the indices."""
        assert self.index.shape is not None
        return len(self.index.shape) - (0 if self.flat else 1)


def _match(node: ir.Node, side: int) -> _GatheredMatMul | None:
    """Match `node`, if its operand `side` is gathered from a marked constant, one matrix for each row."""
    read, rows = node.inputs[side], node.inputs[1 - side]
    gather, turned = _gather_above(read)
    if gather is None or rows is None or rows.shape is None:
        return None
    matrices, index = gather.inputs
    if matrices is None or index is None or index.shape is None or not _is_marked(matrices):
        return None
    flat = gather.op_type == "Gather"
    leading = list(index.shape)[: None if flat else -1]
    sizes, unit_axis = list(rows.shape), len(leading) + (0 if side else 1)
    if static_sizes(matrices.shape) is None or len(sizes) != len(leading) + 2 or sizes[unit_axis] != 1:
        return None
    shared = _count_shared_axes(sizes[: len(leading)], leading)
    turned = turned != (side == 0)
    return None if shared is None else _GatheredMatMul(rows, matrices, index, flat, turned, shared, unit_axis)


def _gather_above(value: ir.Value | None) -> tuple[ir.Node | None, bool]:
    """Return the Gather that chooses matrices for `value`, and whether they are transposed behind it."""
    turned = False
    while value is not None and (node := value.producer()) is not None:
        if is_op(node, "Gather") and ops.Gather.of(node).axis == 0:
            return node, turned
        if is_op(node, "GatherND") and _of_tuples_of_one(node):
            return node, turned
        if is_op(node, "Transpose") and _turns(node):
            turned = not turned
        elif node.domain != _OURS:
            break
        value = node.inputs[0]
    return None, turned


def _of_tuples_of_one(node: ir.Node) -> bool:
    index = node.inputs[1]
    is_of_tuples = (
        index is not None and index.shape is not None and len(index.shape) > 0 and index.shape[-1] == 1
    )
    return is_of_tuples and ops.GatherND.of(node).batch_dims == 0


def _turns(node: ir.Node) -> bool:
    """Return whether a Transpose exchanges the last two axes alone."""
    shape = node.outputs[0].shape
    if shape is None or len(shape) < 2:
        return False
    rank = len(shape)
    return list(ops.Transpose.of(node).order(rank)) == [*range(rank - 2), rank - 1, rank - 2]


def _is_marked(matrices: ir.Value) -> bool:
    """Return whether it is a constant of three axes, marked, and perhaps laid out anew."""
    marked, value = False, matrices
    while (node := value.producer()) is not None:
        marked |= node.domain == _OURS
        above = node.inputs[0]
        if above is None or not (node.domain == _OURS or ops.may_move(node, keeps_all=True)):
            return False
        value = above
    return marked and value.is_initializer() and matrices.shape is not None and len(matrices.shape) == 3


def _count_shared_axes(rows: Sequence[object], leading: Sequence[object]) -> int | None:
    """Return how many leading axes are the same; None where those behind them are not all of size 1."""
    count = next((i for i, (a, b) in enumerate(zip(rows, leading, strict=True)) if a != b), len(rows))
    return count if all(size == 1 for size in rows[count:]) else None


def _open(node: ir.Node, chosen: _GatheredMatMul, names: Namer) -> None:
    graph, old, name = node.graph, node.outputs[0], node.name or "MatMul"
    assert isinstance(graph, ir.Graph)
    insert, dtype = Inserter(graph, node, names), old.dtype
    sizes = static_sizes(chosen.matrices.shape)
    assert sizes is not None
    number, width = sizes[0], sizes[1 if chosen.turned else 2]
    depth = sizes[2 if chosen.turned else 1]
    node.name = names(f"{name}.chosen")  # the product takes over its name

    def numbers(*values: int) -> ir.Value:
        return insert.constant(f"{name}.numbers", np.array(values, np.int64))

    def insert_node(
        op_type: str, read: list[ir.Value], what: str, *shape: Any, **attributes: Any
    ) -> ir.Value:
        return insert.node(op_type, read, f"{name}{what}", dtype=dtype, shape=ir.Shape(shape), **attributes)

    perm = [2, 0, 1] if chosen.turned else [1, 0, 2]
    turned = insert_node("Transpose", [chosen.matrices], ".turned", depth, number, width, perm=perm)
    beside = insert_node("Reshape", [turned, numbers(0, -1)], ".beside", depth, number * width)
    assert chosen.index.shape is not None and old.shape is not None
    front = list(chosen.index.shape)[: chosen.shared]
    gone = numbers(*range(chosen.shared, chosen.leading), chosen.axis)
    rows = insert_node("Squeeze", [chosen.rows, gone], ".rows", *front, depth)
    every = insert_node("MatMul", [rows, beside], "", *front, number * width)
    shape = numbers(*[0] * chosen.shared, number, width)
    every = insert_node("Reshape", [every, shape], ".each", *front, number, width)
    index = chosen.index
    if chosen.flat:
        index = insert.node(
            "Unsqueeze", [index, numbers(chosen.leading)], f"{name}.index", dtype=index.dtype,
            shape=ir.Shape([*chosen.index.shape, 1]),
        )  # fmt: skip
    whole = list(chosen.index.shape)[: chosen.leading]
    own = insert_node("GatherND", [every, index], ".own", *whole, width, batch_dims=chosen.shared)
    answer = insert_node("Unsqueeze", [own, numbers(chosen.axis)], ".answer", *old.shape)
    above = node.inputs
    hand_over(node, old, answer, names)
    graph.remove(node, safe=True)
    _drop_above(graph, *above)


def _drop_above(graph: ir.Graph, *values: ir.Value | None) -> None:
    """Remove the nodes that make `values`, as far as nobody reads them."""
    for value in values:
        node = value.producer() if value is not None else None
        if node is None or any(map(is_read, node.outputs)):
            continue
        above = list(node.inputs)
        graph.remove(node, safe=True)
        _drop_above(graph, *above)


GATHERED_MATMUL = Rewrite(
    "multiply by all matrices that are chosen from",
    _multiply_by_all,
    ("MatMul",),
    ensures=Ensures(shapes=True),
)


# ---- vectors ----


def _make_matrices(node: ir.Node, scene: Scene) -> Outcome:
    """Make matrices of the vectors that a MatMul multiplies.

    Before: ``MatMul(x, vector)``.  After: ``Squeeze(MatMul(x, Unsqueeze(vector, 1)), -1)``. A vector in front
    becomes a row.

    Guards: the ranks of both operands are known.
    """
    vectors = [axis for axis, value in enumerate(node.inputs) if rank_of(value) == 1]
    dtype = node.outputs[0].dtype
    if not vectors or dtype is None or None in map(rank_of, node.inputs):
        return None
    write, operands = Writer(node, scene.names, dtype), list(node.inputs)
    for axis in vectors:
        vector = operands[axis]
        assert vector is not None  # its rank is known
        operands[axis] = _as_matrix(vector, axis, write, scene.constants)
    product = write.names(write("MatMul", *operands))
    replace(node, write("Squeeze", product, write.sizes(*(axis - 2 for axis in vectors))), scene.names)
    return "its vectors became matrices"


def _as_matrix(vector: ir.Value, axis: int, write: Writer, constants: Constants) -> ir.Value:
    """Return `vector` with another axis of size 1. Stored codes stay codes, on a grid for all of them."""
    quantized = vector.producer()
    if quantized is not None and is_op(quantized, "DequantizeLinear"):
        codes, *grid = quantized.inputs
        array = constants(codes)
        if array is not None and rank_of(grid[0]) == 0:
            matrix = write.constant(np.expand_dims(array, axis), array.dtype)
            return write("DequantizeLinear", matrix, *grid)
    array = constants(vector)
    if array is None:
        return write("Unsqueeze", vector, write.sizes(axis))
    return write.constant(np.expand_dims(array, axis))


VECTOR_PRODUCTS = Rewrite(
    "make matrices of vectors", _make_matrices, ("MatMul",),
    requires=Requires(opset=13), ensures=Ensures(shapes=True),
)  # fmt: skip

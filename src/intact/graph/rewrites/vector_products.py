"""Make matrices of the vectors that a MatMul multiplies: kernels know products of matrices."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from intact.graph.core.build import Writer, replace
from intact.graph.core.constants import Constants
from intact.graph.core.edit import rank_of
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Ensures, Outcome, Requires, Rewrite, Scene


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

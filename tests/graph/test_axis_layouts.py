"""From axes of what a move makes to axes of what it reads."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from intact import graph


@pytest.mark.parametrize(
    ("op_type", "shape_before", "sizes", "shape_behind", "axes", "want"),
    [
        ("Transpose", {"perm": [2, 0, 1]}, (4, 8, 5), (5, 4, 8), (1,), (0,)),
        ("Transpose", {}, (4, 8), (8, 4), (1,), (0,)),
        ("Reshape", {}, (32, 4, 8), (32, 32), (1,), (1, 2)),
        ("Reshape", {}, (32, 4, 8), (32, 32), (0,), (0,)),
        ("Reshape", {}, (32, 4, 8), (128, 8), (1,), (2,)),
        ("Reshape", {}, (6, 4), (8, 3), (1,), None),  # no axis of the first is a part of the last
        ("Reshape", {}, (12, 4), (3, 4, 4), (2,), (1,)),
        ("Reshape", {}, (12, 4), (3, 4, 4), (1,), None),
        ("Reshape", {}, (5, 1, 4), (5, 4), (1,), (2,)),
        ("Unsqueeze", {}, (5, 4), (1, 5, 1, 4), (3,), (1,)),
        ("Unsqueeze", {}, (5, 4), (1, 5, 1, 4), (1,), (0,)),
        ("Relu", {}, (5, 4), (5, 4), (1,), None),
    ],
)
def test_axes_in_front(op_type, shape_before, sizes, shape_behind, axes, want):
    read = [ir.Value(name="x", shape=ir.Shape(sizes), type=ir.TensorType(ir.DataType.FLOAT))]
    if op_type in ("Reshape", "Unsqueeze"):
        read.append(ir.Value(name="how", const_value=ir.Tensor(np.array(shape_behind, np.int64))))
    node = ir.node(op_type, read, shape_before, outputs=[ir.Value(name="y", shape=ir.Shape(shape_behind))])
    assert graph.axes_in_front(node, axes) == want


def test_sizes_that_are_not_known_tell_no_axis():
    x = ir.Value(name="x", shape=ir.Shape(["n", 4]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Flatten", [x], outputs=[ir.Value(name="y", shape=ir.Shape(["n", 4]))])
    assert graph.axes_in_front(node, (1,)) is None

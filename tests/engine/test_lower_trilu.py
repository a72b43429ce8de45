"""Trilu runs natively."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate

TRIANGLES = pytest.mark.parametrize(
    ("upper", "diagonal"), [(upper, k) for upper in (0, 1) for k in (None, -2, 0, 1, 9, -9)]
)


def triangle(g, x, upper, diagonal):
    numbers = [] if diagonal is None else [g.constant(np.int64(diagonal))]
    return g.node("Trilu", x, *numbers, upper=upper)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@TRIANGLES
def test_triangles(qdq, lower_graph, upper, diagonal, dtype):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 2, 4, 5, low=1))
    assert exactly(lower_graph(g, triangle(g, x, upper, diagonal))).kinds == ["elementwise"]


@TRIANGLES
def test_triangles_of_int32(qdq, upper, diagonal):
    """As NumPy has them: ONNX Runtime 1.24 has none."""
    g, x = qdq(), few("int32", 2, 4, 5, low=1)
    plan = lower(g.proto(triangle(g, *add_inputs(g, x=x), upper, diagonal)))
    want = (np.triu if upper else np.tril)(x, diagonal or 0)
    (y,) = plan.outputs
    assert [step.kind for step in plan.steps] == ["elementwise"]
    for got in (evaluate(plan, {"x": x})[y], Engine(plan, threads=1).run({"x": x})[y]):
        np.testing.assert_array_equal(got, want, strict=True)


def test_triangles_of_what_is_no_number_and_of_nothing(qdq, lower_graph):
    g = qdq()
    x, none = add_inputs(g, x=np.full((3, 3), np.nan, np.float32), none=few("float32", 2, 0, 3))
    exactly(lower_graph(g, g.node("Trilu", x, upper=0), g.node("Trilu", none)))


def test_a_triangle_of_unknown_size_is_native_once_it_is_known(qdq):
    g = qdq()
    x = few("float32", 2, 5, 5)
    engine = Engine(lower(g.proto(g.node("Trilu", g.input("x", [2, "n", "n"])))), threads=1)
    np.testing.assert_array_equal(engine(x), np.triu(x))
    assert "onnx" not in {step.kind for step in lower(
        g.proto(g.nodes[-1].output[0]), {"x": x.shape}).steps}  # fmt: skip

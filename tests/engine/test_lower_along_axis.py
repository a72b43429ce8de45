"""Running sums, places of the largest and elements by index run natively, as ONNX Runtime has them."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, given

from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import ArgMax, CumSum, GatherElements
from intact.errors import FileFormatError, QuantValueError


def few(dtype, *shape, low=0, high=5):
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_running_sums(qdq, lowered, dtype, exclusive, reverse, axis):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 5) * np.array(2.7, dtype))
    y = g.node("CumSum", x, g.constant(np.array(axis)), exclusive=exclusive, reverse=reverse)
    assert exactly(lowered(g, y)).kinds == ["cum_sum"]


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axes", [None, (1,), (-1, 0), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_integers_along_axes(qdq, lowered, op_type, dtype, axes, keepdims):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 5, low=-4, high=5))
    y = g.node(op_type, x, *([] if axes is None else [g.ints(*axes)]), keepdims=keepdims)
    exactly(lowered(g, y))


@pytest.mark.parametrize("axes", [(1,), (0, 2)], ids=str)
def test_products_of_floats_along_axes(qdq, lowered, axes):
    g = qdq()
    y = g.node("ReduceProd", g.input("x", ["n", 4, 5]), g.ints(*axes), keepdims=0)
    found = lowered(g, y, sizes={"n": 3}).exact().agree(1e-5)
    assert "onnx" not in found.kinds


def test_the_length_of_each_sequence_by_its_mask(qdq, lowered):
    """As sentence encoders have it, for any batch: a sum of integers, of an axis whose size is not known."""
    g = qdq()
    mask, rows = g.input("mask", ["n", "tokens"], 7), g.input("rows", ["n", "tokens", 4])
    count = g.node("Cast", g.node("ReduceSum", mask, g.ints(1), keepdims=1), to=1)
    total = g.node("ReduceSum", rows, g.ints(1), keepdims=0)
    found = lowered(g, g.node("Div", total, count), sizes={"n": 2, "tokens": 6})
    assert "onnx" not in found.exact().kinds


def test_a_mean_of_as_many_integers_as_are_not_known_waits_for_sizes(qdq):
    g = qdq()
    plan = lower(g.proto(g.node("ReduceMean", g.input("x", ["n", 4], 7), g.ints(0))))
    (step,) = (step for step in plan.steps if step.kind == "onnx")
    assert "as many integers as are not known" in step.reason


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places(qdq, lowered, op_type, keepdims, last, dtype):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 5))
    y = g.node(op_type, x, axis=-2, keepdims=keepdims, select_last_index=last)
    exactly(lowered(g, y))


def test_the_class_of_each_pixel(qdq, lowered):
    """Behind codes: dequantized, they are ordered as they are."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 6, 6]))
    y = g.node("ArgMax", g.conv(x, 4, 7), axis=1, keepdims=0)
    found = lowered(g, y, sizes={"n": 2})
    assert "onnx" not in found.exact().kinds and found.values[y].shape == (2, 6, 6)


@pytest.mark.parametrize("how", ["given", "constant", "computed"])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_by_index(qdq, lowered, how, axis):
    g = qdq()
    index = few("int64", 2, 3, low=-3, high=3)
    x, ids = given(g, x=few("float32", 3, 4, high=99), ids=index)
    chosen = {
        "given": ids,
        "constant": g.constant(index),
        "computed": g.node("Add", ids, g.constant(np.array(0))),
    }
    exactly(lowered(g, g.node("GatherElements", x, chosen[how], axis=axis)))


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    "batch, index", [(0, (5, 2)), (0, (2, 3, 1)), (0, (4, 3)), (1, (2, 5, 1)), (1, (2, 2))], ids=str
)
def test_rows_by_several_indices(qdq, lowered, batch, index, pair):
    g = qdq()
    (x,) = given(g, x=few("float32", 2, 3, 4, high=9))
    held = g.constant(few("int64", *index, low=-2, high=2))
    y = g.node("GatherND", g.pair(x) if pair else x, held, batch_dims=batch)
    exactly(lowered(g, y))


def test_places_in_a_sequence_of_which_some_are_padding(qdq, lowered):
    """As RoBERTa numbers its tokens, and takes their types from a table."""
    g = qdq()
    (ids,) = given(g, ids=np.array([[5, 6, 7, 1, 1], [8, 1, 1, 1, 1]]))
    there = g.node("Cast", g.node("Not", g.node("Equal", ids, g.constant(np.array(1)))), to=7)
    places = g.node(
        "Add", g.node("Mul", g.node("CumSum", there, g.constant(np.array(1))), there), g.constant(np.array(1))
    )
    table = g.constant(np.arange(20).reshape(2, 10))
    kinds = g.node("GatherElements", table, places, axis=1)
    y = g.node("Add", g.node("Gather", g.floats(30, 8), places), g.node("Gather", g.floats(30, 8), kinds))
    exactly(lowered(g, y))


@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize(
    "lengths", [(4, 4), (4, 1), (2, 3)], ids=str
)  # of 0 ONNX Runtime 1.24 copies nothing
@pytest.mark.parametrize("pair", [True, False])
def test_sequences_the_other_way_round(qdq, lowered, time, lengths, pair):
    g = qdq()
    shape = (4, 2, 3) if time == 0 else (2, 4, 3)
    x = g.input("x", list(shape))
    held = g.constant(np.array(lengths))
    y = g.node("ReverseSequence", g.pair(x) if pair else x, held, time_axis=time, batch_axis=1 - time)
    exactly(lowered(g, y))


def test_an_element_out_of_range_is_an_error(qdq):
    g = qdq()
    x, ids = given(g, x=few("float32", 3, 4), ids=few("int64", 2, 4))
    plan = lower(g.proto(g.node("GatherElements", x, g.node("Add", ids, ids), axis=0)))
    wrong = {"x": few("float32", 3, 4), "ids": np.full((2, 4), 2)}
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 4, want -3 to 2"):
            run(wrong)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (CumSum("step", (), "x", "y", 2), "axis 2, want one of 2 axes"),
        (CumSum("step", (), "b", "b2", 0), "got bool, want one of float32"),
        (CumSum("step", (), "x", "i2", 0), "want one dtype"),
        (ArgMax("step", (), "x", "i2", -1), "axis -1, want one of 2 axes"),
        (ArgMax("step", (), "b", "i2", 0), "got bool, want one of float32"),
        (ArgMax("step", (), "x", "y", 0), "got float32, want int64"),
        (GatherElements("step", (), "x", "i", "y", 2), "axis 2, want one of 2 axes"),
        (GatherElements("step", (), "x", "x", "y", 0), "want int32 or int64"),
        (GatherElements("step", (), "x", "i", "i2", 0), "want one dtype"),
        (GatherElements("step", (), "x", "v", "y", 0), "want one rank for all"),
    ],
)
def test_files_cannot_ask_for_what_no_step_does(step, message):
    shapes = {"x": "float32", "y": "float32", "i": "int64", "i2": "int64", "b": "bool", "b2": "bool"}
    tensors = {name: Tensor(name, dtype, (3, 4)) for name, dtype in shapes.items()}
    tensors["v"] = Tensor("v", "int64", (3,))
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, {}, ("x", "i", "b", "v"), (step.y,)), {})

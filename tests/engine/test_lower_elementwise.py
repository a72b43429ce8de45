"""Comparisons, logic, choices, casts and integers run natively, and as ONNX Runtime has them."""

from itertools import permutations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.engine.conftest import add_inputs, exactly

import intact
from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import Concat, Elementwise, Transpose
from intact.errors import FileFormatError, QuantValueError
from intact.numerics.elementwise import CASTS


def onnx_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def few(dtype, *shape, low=-4, high=5):
    """Small numbers, so that some are equal."""
    return (
        np.random.default_rng(len(shape)).integers(0 if dtype == "uint8" else low, high, shape).astype(dtype)
    )


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("op_type", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_comparisons(qdq, lower_graph, op_type, dtype):
    g = qdq()
    a, b = add_inputs(g, a=few(dtype, 3, 1, 5), b=few(dtype, 4, 5))
    assert exactly(lower_graph(g, g.node(op_type, a, b))).kinds == ["elementwise"]


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic(qdq, lower_graph, op_type):
    g = qdq()
    a, b = add_inputs(g, a=few("bool", 3, 4, low=0, high=2), b=few("bool", 4, low=0, high=2))
    exactly(lower_graph(g, g.node("Not", g.node(op_type, a, b))))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_bits_of_integers(qdq, lower_graph, dtype):
    """One of the operands is a mask with all sizes of bits, broadcast; both may be negative."""
    g = qdq()
    ends = np.array([0, 1, -1, np.iinfo(dtype).min, np.iinfo(dtype).max, 0x55], dtype)
    a, b = add_inputs(g, a=few(dtype, 3, 4, 1, low=-99), b=ends)
    assert exactly(lower_graph(g, g.node("BitwiseAnd", a, b))).kinds == ["elementwise"]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Neg", "Abs"])
def test_integers(qdq, lower_graph, op_type, dtype):
    g = qdq()
    a, b = add_inputs(g, a=few(dtype, 3, 4), b=few(dtype, 4, low=1))
    y = g.node(op_type, *([a] if op_type in ("Neg", "Abs") else [a, b]))
    assert exactly(lower_graph(g, y)).kinds == ["elementwise"]


def test_extremes_of_several_tensors_of_integers(qdq, lower_graph):
    g = qdq()
    a, b, c = add_inputs(g, a=few("int64", 3, 4), b=few("int64", 4), c=few("int64", 3, 1))
    assert exactly(lower_graph(g, g.node("Max", a, b, c))).kinds == ["elementwise"] * 2


@pytest.mark.parametrize(("dtype", "to"), list(permutations(sorted(CASTS), 2)))
def test_casts(qdq, lower_graph, dtype, to):
    g = qdq()
    x = few("bool", 5, 7, low=0, high=2) if dtype == "bool" else few(dtype, 5, 7, low=0, high=100)
    (name,) = add_inputs(g, x=x + np.array(0.75, dtype) if dtype.startswith("float") else x)
    assert exactly(lower_graph(g, g.node("Cast", name, to=onnx_type(to)))).kinds == ["elementwise"]


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float64"])
def test_choices(qdq, lower_graph, dtype):
    g = qdq()
    arrays = {"test": few("bool", 3, 1, 5, low=0, high=2), "a": few(dtype, 4, 5), "b": few(dtype)}
    assert exactly(lower_graph(g, g.node("Where", *add_inputs(g, **arrays)))).kinds == ["elementwise"]


@pytest.mark.parametrize(
    "op_type, signs",
    [("IsNaN", {}), ("IsInf", {}), ("IsInf", {"detect_negative": 0}), ("IsInf", {"detect_positive": 0})],
)
def test_what_is_no_number(qdq, lower_graph, op_type, signs):
    g = qdq()
    (x,) = add_inputs(g, x=np.float32([0, -1, np.nan, np.inf, -np.inf, 3e38]))
    exactly(lower_graph(g, g.node(op_type, x, **signs)))


@pytest.mark.parametrize("op_type", ["Floor", "Ceil", "Round"])
def test_rounding(qdq, lower_graph, op_type):
    g = qdq()
    (x,) = add_inputs(g, x=np.float32([0.5, 1.5, -0.5, -2.5, 2.3, -0.0, np.inf, 2**24]))
    exactly(lower_graph(g, g.node(op_type, x)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(qdq, lower_graph, axis):
    """Negative indices count from the end; what is out of range is nowhere."""
    g = qdq()
    (index,) = add_inputs(g, index=few("int64", 3, 4, low=-7, high=8))
    y = g.node("OneHot", index, g.constant(np.array(6)), g.constant(np.float32([-1, 2])), axis=axis)
    exactly(lower_graph(g, y))


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8", "int16", "float16", "float64"])
def test_numbers_of_any_type_are_moved(qdq, lower_graph, dtype):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 2, 3, 4, low=0, high=2 if dtype == "bool" else 9))
    y = g.node("Transpose", g.node("Reshape", x, g.ints(2, 1, 4, 3)), perm=[3, 1, 0, 2])
    y = g.node("Expand", g.node("Slice", y, g.ints(1), g.ints(3), g.ints(0)), g.ints(2, 5, 2, 4))
    y = g.node("Concat", g.node("Squeeze", g.node("Gather", y, g.ints(3), axis=1), g.ints(1)), x, axis=1)
    exactly(lower_graph(g, y))


def test_numbers_join_constants(qdq, lower_graph):
    g = qdq()
    (x,) = add_inputs(g, x=few("int64", 2, 3))
    y = g.node("Concat", g.constant(few("int64", 2, 2)), x, g.constant(few("int64", 2, 1)), axis=1)
    assert exactly(lower_graph(g, y)).kinds == ["concat"]


def test_single_numbers_stay_single_numbers(qdq, lower_graph):
    """As a sampling rate that is compared, and scales what is heard."""
    g = qdq()
    rate, x = add_inputs(g, rate=np.array(16000), x=np.float32([1, 2]))
    half = g.node("Equal", rate, g.constant(np.array(8000)))
    y = g.node("Mul", g.node("Cast", rate, to=onnx_type("float32")), g.constant(np.float32(0.5)))
    y = g.node("Mul", x, g.node("Where", half, g.constant(np.float32(1)), y))
    assert exactly(lower_graph(g, y, half)).values[y].tolist() == [8000, 16000]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)], ids=str)
def test_nothing_at_all(qdq, lower_graph, shape):
    g = qdq()
    a, b = add_inputs(g, a=few("int64", *shape), b=few("int64", 1, 1))
    exactly(lower_graph(g, g.node("Where", g.node("Less", a, b), a, b)))


def test_a_mask_of_attention(qdq, lower_graph):
    """Ones and zeros of int64, as exporters of transformers have them, between codes."""
    g = qdq()
    x, keep = add_inputs(
        g,
        x=np.float32(np.random.default_rng(0).standard_normal((2, 5, 8))),
        keep=few("int64", 2, 5, low=0, high=2),
    )
    x = g.pair(x)
    wide = g.node("Cast", g.node("Unsqueeze", keep, g.ints(1)), to=onnx_type("float32"))
    mask = g.node("Mul", g.node("Sub", g.constant(np.float32(1)), wide), g.constant(np.float32(-1e4)))
    scores = g.node("MatMul", x, g.pair(g.node("Transpose", x, perm=[0, 2, 1])))
    soft = g.node("Softmax", g.node("Add", scores, mask))
    assert "onnx" not in lower_graph(g, g.quantize(g.node("MatMul", g.pair(soft, 1 / 127), x))).agree().kinds


def test_rows_by_indices_that_are_computed(qdq, lower_graph):
    g = qdq()
    (ids,) = add_inputs(g, ids=few("int64", 2, 3, low=0, high=4))
    y = g.node("Gather", g.floats(8, 5), g.node("Add", ids, g.constant(np.array(2))))
    assert exactly(lower_graph(g, y)).kinds == ["elementwise", "gather"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_computed_index_out_of_range_is_an_error_and_the_engine_goes_on(qdq, threads):
    g = qdq()
    (ids,) = add_inputs(g, ids=np.zeros(3, np.int64))
    rows = g.node("Gather", g.floats(8, 5), g.node("Add", ids, g.constant(np.array(2))))
    plan = lower(g.proto(g.node("Relu", rows)))
    engine = Engine(plan, threads=threads)
    for run in (engine.run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 8, want -8 to 7"):
            run({"ids": np.array([0, 6, 1])})
    assert engine.run({"ids": np.array([0, 5, -10])})


def test_an_axis_too_many_is_left_to_onnx_runtime(qdq, lower_graph):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 1, 2, 1, 2, 1, 2, 2))
    assert lower_graph(g, g.node("Add", x, x)).agree().kinds == ["onnx"]


@pytest.mark.parametrize(
    ("operation", "xs", "y", "message"),
    [
        ("sin", ("a",), "a2", "one of abs"),
        ("add", ("a",), "a2", "dtypes that the operation knows"),
        ("add", ("a", "b"), "a2", "dtypes that the operation knows"),
        ("add", ("q", "q"), "q2", "dtypes that the operation knows"),
        ("less", ("a", "a"), "a2", "dtypes that the operation knows"),
        ("where", ("a", "a", "a"), "a2", "dtypes that the operation knows"),
        ("cast", ("a",), "q2", "dtypes that the operation knows"),
    ],
)
def test_files_cannot_ask_for_what_no_operation_does(operation, xs, y, message):
    grid = intact.engine.steps.Codes(0.1, 0, True, -128, 127)
    tensors = [Tensor("a", "int64", (3,)), Tensor("b", "bool", (3,)), Tensor("q", "codes", (3,), grid)]
    tensors += [Tensor("a2", "int64", (3,)), Tensor("q2", "codes", (3,), grid)]
    step = Elementwise("step", (), operation, xs, y)
    plan = Plan((step,), {t.name: t for t in tensors}, {}, ("a", "b", "q"), (y,))
    plan.check()
    with pytest.raises(FileFormatError, match=message):
        check_limits(plan, {})


@pytest.mark.parametrize(
    "step", [Transpose("step", (), "a", "y", (0,)), Concat("step", (), ("a", "y0"), "y", 0)]
)
def test_files_cannot_move_numbers_into_another_type(step):
    tensors = {
        name: Tensor(name, dtype, (3,)) for name, dtype in (("a", "int64"), ("y0", "int64"), ("y", "float32"))
    }
    with pytest.raises(FileFormatError, match="want one dtype"):
        check_limits(Plan((step,), tensors, {}, ("a", "y0"), ("y",)), {})


@pytest.mark.rule("N53")
@pytest.mark.parametrize("axis", [-1, 1])
def test_floats_of_64_bits(qdq, lower_graph, axis):
    """As a network is written that finds pitches: a mean of logarithms, weighted by a Softmax."""
    g = qdq()
    x = g.node("Cast", g.input("x", [2, 5, 7]), to=TensorProto.DOUBLE)
    table = g.constant(np.random.default_rng(0).standard_normal((5, 7)))
    mean = g.node(
        "ReduceSum", g.node("Mul", g.node("Softmax", x, axis=axis), table), g.ints(axis), keepdims=0
    )
    most = g.node("ReduceMax", g.node("Sub", x, table), g.ints(axis), keepdims=0)
    lowered = lower_graph(g, g.node("Exp", g.node("Max", mean, g.node("Div", most, mean))))
    assert "onnx" not in lowered.agree(1e-12).kinds

"""TopK, scattered elements and rows, rows by tuples and GridSample run natively, as ONNX Runtime has them."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, few, given

from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import GatherRows, GridSample, ScatterElements, ScatterRows, TopK
from intact.errors import FileFormatError, QuantValueError


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [1, 3])
def test_the_largest(qdq, lowered, dtype, largest, axis, k):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 50))
    found = lowered(g, *g.node("TopK", x, g.ints(k), axis=axis, largest=largest, outputs=2))
    assert exactly(found).kinds == ["top_k"]


@pytest.mark.parametrize("read", [0, 1])
def test_one_of_both_outputs(qdq, lowered, read):
    g = qdq()
    (x,) = given(g, x=few("float32", 5, 40, high=99))
    exactly(lowered(g, g.node("TopK", x, g.ints(7), outputs=2)[read]))


def test_none_at_all(qdq, lowered):
    g = qdq()
    (x,) = given(g, x=few("float32", 5, 4))
    exactly(lowered(g, *g.node("TopK", x, g.ints(0), outputs=2)))


def test_the_best_queries_of_a_detector(qdq, lowered):
    """As RT-DETR picks them: by the best class, then rows of another tensor. One plan, for any batch."""
    g = qdq()
    scores, memory = g.input("scores", ["n", 40, 6]), g.input("memory", ["n", 40, 8])
    best = g.node("ReduceMax", g.node("Sigmoid", scores), g.ints(-1), keepdims=0)
    places = g.node("TopK", best, g.ints(10), outputs=2)[1]
    index = g.node("Tile", g.node("Unsqueeze", places, g.ints(-1)), g.ints(1, 1, 8))
    found = lowered(g, g.node("GatherElements", memory, index, axis=1), sizes={"n": 3})
    assert "onnx" not in found.agree(1e-6).kinds


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("how", ["given", "constant"])
def test_scattered_elements(qdq, lowered, how, axis, dtype, reduction):
    g = qdq()
    rng, shape = np.random.default_rng(0), [2, 3, 4]
    index = np.argsort(rng.random(shape), axis=axis) - (0 if how == "given" else shape[axis])
    x, u = few(dtype, 2, 3, 4), few(dtype, 2, 3, 4, low=1)
    if how == "given":
        x, index, u = given(g, x=x, index=index, u=u)
    else:
        (x,), index, u = given(g, x=x), g.constant(index), g.constant(u)
    y = g.node("ScatterElements", x, index, u, axis=axis, reduction=reduction)
    assert exactly(lowered(g, y)).kinds == ["scatter_elements"]


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("tuples", [(6, 1), (2, 3, 2), (4, 3), (0, 2)], ids=str)
@pytest.mark.parametrize("how", ["given", "constant"])
def test_scattered_rows(qdq, lowered, how, tuples, reduction):
    g = qdq()
    shape = (6, 3, 4)
    count = tuples[-1]
    rows = np.random.default_rng(0).permutation(np.prod(shape[:count]))[: int(np.prod(tuples[:-1]))]
    index = np.stack(np.unravel_index(rows, shape[:count]), axis=-1).reshape(tuples)
    index = index - np.array(shape[:count]) * (how == "constant")  # from the end
    x, u = few("float32", *shape), few("float32", *tuples[:-1], *shape[count:], low=1)
    if how == "given":
        x, index, u = given(g, x=x, index=index, u=u)
    else:
        (x,), index, u = given(g, x=x), g.constant(index), g.constant(u)
    exactly(lowered(g, g.node("ScatterND", x, index, u, reduction=reduction)))


def test_codes_are_scattered_onto_codes(qdq, lowered):
    g = qdq()
    x, u = (g.quantize(g.input(name, shape)) for name, shape in (("x", [4, 5]), ("u", [2, 5])))
    y = g.node("ScatterElements", x, g.constant(few("int64", 2, 5, high=4)), u, axis=0)
    z = g.node("ScatterND", x, g.constant(np.array([[3], [0]])), u)
    found = exactly(lowered(g, y, z))
    assert found.kinds.count("scatter_elements") == found.kinds.count("scatter_rows") == 1


@pytest.mark.parametrize(
    ("batch", "index"),
    [(0, (5, 2)), (0, (2, 3, 1)), (0, (4, 3)), (1, (2, 5, 1)), (1, (2, 2)), (2, (2, 3, 1))],
)
def test_rows_by_computed_tuples(qdq, lowered, batch, index):
    g = qdq()
    x, ids = given(g, x=few("float32", 2, 3, 4, 5), ids=few("int64", *index, low=-2, high=2))
    exactly(lowered(g, g.node("GatherND", x, ids, batch_dims=batch)))


@pytest.mark.parametrize(
    ("op_type", "inputs"),
    [("ScatterElements", 3), ("ScatterND", 3), ("GatherND", 2)],
)
def test_an_index_out_of_range_is_an_error(qdq, op_type, inputs):
    g = qdq()
    arrays = {"x": few("float32", 3, 4), "ids": np.array([[0], [3]]), "u": few("float32", 2, 4)}
    arrays["u"] = arrays["u"][:, :1] if op_type == "ScatterElements" else arrays["u"]
    names = given(g, **dict(list(arrays.items())[:inputs]))
    plan, feeds = lower(g.proto(g.node(op_type, *names))), g.feeds()
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 3, want -3 to 2"):
            run(feeds)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("opset", [16, 20])
def test_images_at_places(qdq, lowered, opset, mode, padding, align):
    g = qdq(opset)
    rng = np.random.default_rng(0)
    x, grid = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-1.6, 1.6, (2, 7, 8, 2))
    x, grid = given(g, x=x.astype(np.float32), grid=grid.astype(np.float32))
    name = {"linear": "bilinear"}.get(mode, mode) if opset < 20 else mode
    y = g.node("GridSample", x, grid, mode=name, padding_mode=padding, align_corners=align)
    assert lowered(g, y).agree(1e-6).kinds == ["grid_sample"]


def test_images_between_layers_at_places(qdq, lowered):
    """Behind a convolution images lie channels last, and a pair behind makes codes."""
    g = qdq()
    x = g.conv(g.pair(g.input("x", ["n", 3, 6, 6])), 3, 8)
    grid = g.node("Tanh", g.input("grid", ["n", 4, 5, 2]))
    y = g.conv(g.pair(g.node("GridSample", x, grid)), 8, 4)
    assert "onnx" not in lowered(g, g.quantize(y), sizes={"n": 2}).agree().kinds


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda g, x: g.node("TopK", x, g.input("k", [1], 7), outputs=2)[0], "its input 1 is not a constant"),
        (lambda g, x: g.node("GridSample", x, g.floats(2, 3, 3, 2), mode="cubic"), "its mode is 'cubic'"),
        (lambda g, x: g.node("ScatterND", x, g.constant(np.zeros((1, 1), np.int64)), g.floats(1, 4, 5, 6)),
         "the sizes that it indexes are not known"),
    ],
)  # fmt: skip
def test_what_is_left_to_onnx_runtime_says_why(qdq, write, why):
    g = qdq()
    plan = lower(g.proto(write(g, g.input("x", ["n", 4, 5, 6]))))
    (step,) = (step for step in plan.steps if step.kind == "onnx")
    assert why in step.reason


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (TopK("step", (), "x", "y", "i", 2, 1), "axis 2, want one of 2 axes"),
        (TopK("step", (), "x", "y", "i", 0, -1), "-1 elements, want 0 or more"),
        (TopK("step", (), "b", "b2", "i", 0, 1), "got bool, want one of codes"),
        (TopK("step", (), "x", "y", "y2", 0, 1), "got float32, want int64"),
        (ScatterElements("step", (), "x", "i", "x", "y", 2), "axis 2, want one of 2 axes"),
        (ScatterElements("step", (), "x", "x", "x", "y", 0), "want int32 or int64"),
        (ScatterElements("step", (), "x", "i", "i", "y", 0), "want one dtype"),
        (ScatterElements("step", (), "x", "i", "x", "y", 0, "sum"), "got sum, want one of none"),
        (ScatterElements("step", (), "b", "i", "b", "b2", 0, "add"), "add of bool, want one of float32"),
        (ScatterRows("step", (), "x", "i", "x", "y", ()), "sizes of axes"),
        (ScatterRows("step", (), "x", "i", "x", "v", (3,)), "want matrices"),
        (GatherRows("step", (), "x", "i", "y", (-1,)), "sizes of axes"),
        (GatherRows("step", (), "x", "i", "i2", (3,)), "want one dtype"),
        (GridSample("step", (), "x", "x", "y"), "want images"),
    ],
)
def test_files_cannot_ask_for_what_no_step_does(step, message):
    shapes = dict.fromkeys(("x", "y", "y2"), "float32")
    shapes |= {"i": "int64", "i2": "int64", "b": "bool", "b2": "bool"}
    tensors = {name: Tensor(name, dtype, (3, 4)) for name, dtype in shapes.items()}
    tensors["v"] = Tensor("v", "float32", (3,))
    with pytest.raises(FileFormatError, match=message):
        check_limits(Plan((step,), tensors, {}, ("x", "i", "b", "v"), (step.y,)), {})

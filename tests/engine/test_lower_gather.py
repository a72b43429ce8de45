"""Gather along any axis, of tables and tensors."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import QuantValueError


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5,), 0), ((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), 2), ((2, 3, 2, 3, 4), -1)],
    ids=str,
)
@pytest.mark.parametrize("index", [(), (4,), (2, 3), (0,)], ids=str)
def test_along_any_axis(qdq, lower_graph, shape, index, axis):
    g = qdq()
    x, ids = add_inputs(g, x=few("float32", *shape, high=99), ids=few("int64", *index, low=-2, high=2))
    exactly(lower_graph(g, g.node("Gather", x, ids, axis=axis)))


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_numbers_of_any_type(qdq, lower_graph, dtype):
    g = qdq()
    x, ids = add_inputs(g, x=few(dtype, 3, 4, 5), ids=few("int32", 2, low=-4, high=4))
    exactly(lower_graph(g, g.node("Gather", x, ids, axis=1)))


def test_codes_of_images_by_computed_indices(qdq, lower_graph):
    """As Swin picks windows: codes stay codes on both sides."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 6, 6]))
    y = g.node("Gather", g.conv(x, 4, 4), g.input("ids", [3], 7), axis=1)
    g.feeds = lambda sizes: {"x": few("float32", sizes["n"], 4, 6, 6), "ids": np.array([3, -1, 0])}
    lowered = lower_graph(g, g.quantize(g.conv(g.pair(y), 3, 2)), sizes={"n": 2}).agree()
    assert "onnx" not in lowered.kinds and "dequantize" not in lowered.kinds


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_index_out_of_range_is_an_error(qdq, axis):
    g = qdq()
    x, ids = add_inputs(g, x=few("float32", 3, 3, 3), ids=np.array([[0, 3]]))
    plan = lower(g.proto(g.node("Gather", x, ids, axis=axis)))
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="index 3"):
            run(g.feeds())


def with_ids(g, ids):
    """`ids` for the input of that name, random floats for the others."""
    feeds = g.feeds
    g.feeds = lambda sizes=None: {**feeds(sizes), "ids": ids}


@pytest.mark.parametrize("wide", [np.int64, np.int32])
def test_embeddings_are_rows_of_a_table(qdq, lower_graph, wide):
    from onnx import helper

    g = qdq()
    table = g.dequantize(g.constant(g.rng.integers(-128, 128, (10, 8)).astype(np.int8)))
    ids = np.array([[0, 3, 9, -1, -10]], wide)
    rows = g.node("Gather", table, g.input("ids", ["batch", 5], helper.np_dtype_to_tensor_dtype(ids.dtype)))
    with_ids(g, ids)
    y = g.node("MatMul", g.pair(rows), g.weight(8, 4, axis=1))
    lowered = lower_graph(g, g.quantize(y)).agree()
    assert lowered.kinds == ["block_gather", "quantize", "linear"]


@pytest.mark.parametrize("indices", ["input", "constant"])
@pytest.mark.parametrize("codes", [True, False], ids=["codes", "float_steps"])
def test_rows_of_a_tensor(qdq, lower_graph, indices, codes):
    from onnx import TensorProto

    g = qdq()
    ids = np.array([2, 0, -1, 2])
    x = g.input("x", ["n", 6])
    index = g.constant(ids) if indices == "constant" else g.input("ids", [4], TensorProto.INT64)
    if indices == "input":
        with_ids(g, ids)
    y = g.node("Gather", g.pair(x) if codes else x, index)
    y = g.quantize(g.node("MatMul", g.pair(y), g.weight(6, 4, axis=1)))
    lowered = lower_graph(g, y, sizes={"n": 3}).agree()
    assert "gather" in lowered.kinds and "onnx" not in lowered.kinds


@pytest.mark.parametrize("wrong", [10, -11])
def test_a_row_out_of_range_is_an_error(qdq, wrong):
    from onnx import TensorProto

    from intact.errors import QuantValueError

    g = qdq()
    rows = g.node("Gather", g.floats(10, 8), g.input("ids", [2], TensorProto.INT64))
    plan = lower(g.proto(rows))
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match=f"ids.*{wrong}.*-10 to 9"):
            run({"ids": np.array([3, wrong])})


def test_constant_indices_are_compared_with_the_rows_that_there_are(qdq):
    from intact.errors import QuantValueError

    g = qdq()
    plan = lower(g.proto(g.node("Gather", g.input("x", ["n", 6]), g.ints(0, 3))))
    engine = Engine(plan, threads=1)
    assert engine(np.ones((4, 6), np.float32)).shape == (2, 6)
    with pytest.raises(QuantValueError, match="index 3"):
        engine(np.ones((3, 6), np.float32))


@pytest.mark.parametrize("why", ["another axis", "images"])
def test_tables_of_images_and_along_another_axis_are_laid_as_rows(qdq, lower_graph, why):
    from onnx import TensorProto

    g = qdq()
    ids = g.input("ids", [2], TensorProto.INT64)
    with_ids(g, np.array([1, 0]))
    if why == "images":
        y = g.node("Gather", g.floats(4, 3, 5, 6), ids)
    else:
        y = g.node("Gather", g.floats(4, 8), ids, axis=1)
    lowered = lower_graph(g, y).agree()
    assert "onnx" not in lowered.kinds and "gather" in lowered.kinds

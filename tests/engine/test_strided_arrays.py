"""An engine reads and writes callers' arrays as they lie, where native code runs the whole plan."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.engine.conftest import Qdq

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.user_arrays import STRIDED_BYTES
from intact.errors import QuantValueError


@pytest.fixture(scope="module")
def engine() -> Engine:
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, "h", "w")))
    return Engine(lower(net.proto(net.node("Relu", net.pair(net.conv(x, 3, 4))))), threads=1)


def frames(n: int, h: int, w: int) -> np.ndarray:
    """Images (n, 3, h, w) within pixels of four channels, in rows with a pitch."""
    pixels = np.random.default_rng(h).standard_normal((n, h, w + 5, 4)).astype(np.float32)
    return pixels[:, :, :w, :3].transpose(0, 3, 1, 2)


@pytest.mark.parametrize("size", [4, 120], ids=["small", "large"])
@pytest.mark.parametrize("way", ["turned", "backwards", "repeated", "every other"])
def test_arrays_that_are_not_dense_have_the_bits_of_dense_ones(engine, size, way):
    x = frames(2, size, size)
    if way == "backwards":
        x = x[:, ::-1, :, ::-1]
    elif way == "repeated":
        x = np.broadcast_to(x[:1, :1], x.shape)
    elif way == "every other":
        x = np.ascontiguousarray(frames(2, 2 * size, size))[:, :, ::2]
    before = x.copy()
    assert not x.flags.c_contiguous and (x.nbytes >= STRIDED_BYTES) is (size == 120)
    got, want = engine(x), engine(before)
    assert got.tobytes() == want.tobytes() and np.array_equal(x, before)


def test_large_arrays_are_read_where_they_lie(engine):
    x = frames(1, 120, 120)
    arrays = engine._check_inputs({"x": x}, strided=engine._takes_strides)
    assert arrays["x"] is x


@pytest.mark.parametrize("size", [4, 120])
def test_outputs_are_written_into_arrays_that_are_not_dense(engine, size):
    x = np.ascontiguousarray(frames(2, size, size))
    want = engine(x)
    whole = np.full((want.shape[0], 6, *want.shape[2:]), 7, want.dtype)
    out = whole[:, 1:5]
    outputs = engine.run({"x": x}, out={engine.outputs[0].name: out})
    assert outputs[engine.outputs[0].name] is out
    np.testing.assert_array_equal(out, want)
    assert (whole[:, 0] == 7).all() and (whole[:, 5] == 7).all()


def test_outputs_that_overlap_or_do_not_fit_are_refused(engine):
    x = np.ascontiguousarray(frames(1, 4, 4))
    name, want = engine.outputs[0].name, engine(x)
    row = np.zeros((1, 1, 1, 4), want.dtype)
    repeated = np.lib.stride_tricks.as_strided(row, want.shape, (0, 0, 0, 4))
    other = np.zeros((1, 8, 4, 4), want.dtype)
    for out, message in (
        (repeated, "do not overlap"), (other[:, ::2, ::2], "array of shape"),
        (other[0, ::2], "array of shape"),
        (other.astype(np.float64)[:, ::2], "array of shape"),
    ):  # fmt: skip
        with pytest.raises(QuantValueError, match=f"'{name}'.*{message}"):
            engine.run({"x": x}, out={name: out})
    readonly = other[:, ::2]
    readonly.flags.writeable = False
    with pytest.raises(QuantValueError, match="no writable"):
        engine.run({"x": x}, out={name: readonly})


def test_an_index_out_of_range_is_named_in_an_array_that_is_not_dense():
    net = Qdq()
    index = net.input("index", ("n", "m"), onnx.TensorProto.INT64)
    table = net.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    engine = Engine(lower(net.proto(net.node("Gather", table, index))), threads=1)
    rows = np.zeros((200, 200), np.int64)
    rows[3, 5] = 9
    with pytest.raises(QuantValueError, match=r"'index'.*9") as dense:
        engine(rows)
    with pytest.raises(QuantValueError) as turned:
        engine(np.asfortranarray(rows))
    assert str(turned.value) == str(dense.value)
    rows[3, 5] = 2
    np.testing.assert_array_equal(engine(np.asfortranarray(rows)), engine(rows))


def test_plans_with_parts_and_other_backends_have_copies():
    net = Qdq()
    x = net.input("x", ("n", 300))
    model = net.proto(net.node("Hardmax", net.node("Relu", x)))
    values = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32).T
    for engine in (Engine(lower(model), threads=1), Engine(lower(model), backend="reference")):
        got = engine(values)
        assert np.array_equal(got, engine(np.ascontiguousarray(values)))
        with pytest.raises(QuantValueError, match="no dense"):
            engine.run({"x": values}, out={engine.outputs[0].name: np.zeros((300, 300), np.float32).T})


def test_strides_that_come_again_are_bound_once(engine):
    x = frames(1, 130, 130)
    engine(x)
    count = len(engine._ready)
    engine(frames(1, 130, 130))
    assert len(engine._ready) == count

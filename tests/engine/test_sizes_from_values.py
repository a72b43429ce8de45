"""Models in which values of the inputs decide sizes: what follows is bound for what a run finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper, parser

import intact
from intact.engine.compare import compare
from intact.errors import QuantValueError
from intact.graph import load

FOUND = """<ir_version: 8, opset_import: ["" : 17]>
found (float[n, 4] x) => (float[k, 4] y, int64[2, k2] places) {
    positive = Greater (x, zero)
    places = NonZero (positive)
    columns = Transpose <perm = [1, 0]> (places)
    picked = GatherND (x, columns)
    row = Unsqueeze (picked, axis)
    wide = MatMul (row, w)
    y = Relu (wide)
}"""

TWICE = """<ir_version: 8, opset_import: ["" : 17]>
twice (float[n] x) => (float[k] y) {
    a = NonZero (x)
    b = Cast <to = 1> (a)
    c = Sub (b, one)
    flat = Reshape (c, minus)
    d = NonZero (flat)
    e = Cast <to = 1> (d)
    f = Mul (e, two)
    y = Reshape (f, minus)
}"""


def parse_with_constants(text: str, **arrays: Any) -> onnx.ModelProto:
    model = parser.parse_model(text)
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def nonzero_model() -> onnx.ModelProto:
    w = np.arange(4, dtype=np.float32).reshape(1, 4) / 4  # exact in any order
    return parse_with_constants(FOUND, zero=np.float32(0), axis=np.int64([1]), w=w)


@pytest.fixture
def twice() -> onnx.ModelProto:
    return parse_with_constants(TWICE, one=np.float32(1), two=np.float32(2), minus=np.int64([-1]))


def by_onnx_runtime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(model.SerializeToString()).run(None, feeds)


def inputs(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    x = -np.ones((5, 4), np.float32)
    x.reshape(-1)[np.random.default_rng(seed).permutation(20)[:count]] = 2.0
    return {"x": x}


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_each_run_has_the_sizes_of_its_values(nonzero_model: onnx.ModelProto, backend: str) -> None:
    engine = intact.compile(nonzero_model, threads=1, backend=backend)
    for count in (3, 3, 0, 20, 7, 3, 1):
        feeds = inputs(count, seed=count)
        for got, want in zip(engine.run(feeds).values(), by_onnx_runtime(nonzero_model, feeds), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_parts_behind_each_other(twice: onnx.ModelProto) -> None:
    engine = intact.compile(twice, threads=1)
    for x in ([0, 1, 1, 0, 1], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]):
        feeds = {"x": np.float32(x)}
        (got,), (want,) = engine.run(feeds).values(), by_onnx_runtime(twice, feeds)
        np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_every_tensor_can_be_seen_and_every_step_timed(nonzero_model: onnx.ModelProto) -> None:
    engine = intact.compile(nonzero_model, threads=1, deterministic=True)
    tapped = engine.tap(inputs(6))
    assert tapped["places"].shape == (2, 6)
    assert compare(load(nonzero_model), engine, [inputs(6)]).exact
    assert engine.profile(inputs(9)).seconds > 0


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_threads_do_not_mind_each_others_sizes(nonzero_model: onnx.ModelProto) -> None:
    engine = intact.compile(nonzero_model, threads=1)
    feeds = [inputs(count % 21, seed=count) for count in range(60)]
    with ThreadPoolExecutor(4) as pool:
        for feed, got in zip(feeds, pool.map(engine.run, feeds), strict=True):
            np.testing.assert_array_equal(got["y"], by_onnx_runtime(nonzero_model, feed)[0])


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_sizes_that_come_by_chance_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that makes another size each time it is asked."""
    monkeypatch.setenv("INTACT_LIMIT_FALLBACK_PARTS", "20")
    text = """<ir_version: 8, opset_import: ["" : 17]>
    chance (float[n] x) => (float[k] y) {
        noise = RandomUniformLike <high = 1000.0> (x)
        total = ReduceSum <keepdims = 0> (noise)
        size = Cast <to = 7> (total)
        counted = Range (zero, size, one)
        floats = Cast <to = 1> (counted)
        y = Relu (floats)
    }"""
    engine = intact.compile(parse_with_constants(text, zero=np.int64(0), one=np.int64(1)), threads=1)
    with pytest.raises(QuantValueError, match="values of the inputs decide sizes"):
        engine.run({"x": np.zeros(8, np.float32)})


def test_a_graph_output_of_such_a_size_says_so(nonzero_model: onnx.ModelProto) -> None:
    assert nonzero_model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    engine = intact.compile(nonzero_model, threads=1)
    out = np.empty((4, 4), np.float32)
    with pytest.raises(QuantValueError, match="output 'y'"):
        engine.run(inputs(4), out={"y": np.empty((9, 4), np.float32)})
    engine.run(inputs(4))
    engine.run(inputs(4), out={"y": out})  # the sizes of the last run
    np.testing.assert_array_equal(out, by_onnx_runtime(nonzero_model, inputs(4))[0])


MASKED = """<ir_version: 8, opset_import: ["" : 17]>
masked (float[n, 6] x, int64[n] lengths) => (float[n, k] y) {
    longest = ReduceMax <keepdims = 0> (lengths)
    places = Range (zero, longest, one)
    ENDS
    shown = Cast <to = 1> (inside)
    part = MatMul (x, w)
    y = Mul (part, shown)
}"""

ENDS = {
    "native": "ends = Unsqueeze (lengths, axis)  inside = Less (places, ends)",
    "a part": """
    row = Compress <axis = 0> (places, every)  ends = Unsqueeze (lengths, axis)  inside = Less (row, ends)""",
}


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("ends", sorted(ENDS))
def test_sizes_that_zeros_contradict(ends: str, backend: str) -> None:
    """A mask as long as the longest sequence, beside five columns: no zero is as long."""
    w = np.float32(np.random.default_rng(0).integers(-2, 3, (6, 5)))
    arrays = {"zero": np.int64(0), "one": np.int64(1), "axis": np.int64([1]), "w": w}
    if ends == "a part":
        arrays["every"] = np.ones(5, bool)
    model = parse_with_constants(MASKED.replace("ENDS", ENDS[ends]), **arrays)
    engine = intact.compile(model, threads=1, backend=backend)
    for lengths in ([5, 2], [3, 5], [5, 5]):
        feeds = {"x": np.eye(2, 6, dtype=np.float32), "lengths": np.int64(lengths)}
        (got,), (want,) = engine.run(feeds).values(), by_onnx_runtime(model, feeds)
        np.testing.assert_array_equal(got, want)
    if backend == "cpu":
        assert engine.tap(feeds)["y"].shape == (2, 5)
    with pytest.raises(QuantValueError, match=r"size|Range|places|broadcast"):
        engine.run(feeds | {"lengths": np.int64([4, 3])})

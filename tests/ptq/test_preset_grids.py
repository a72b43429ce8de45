"""Scales that are given: by the pairs of a file, by overrides, by stored ranges beside data."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact.calib import Calibration, Histogram, Range
from intact.errors import QuantValueError
from intact.graph import load, strip_qdq
from intact.ptq import quantize

FLOAT = onnx.TensorProto.FLOAT


def weight(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(shape[0])
    return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)


def images() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((16, 4, 10, 10)).astype(np.float32)


def codes() -> np.ndarray:
    return np.random.default_rng(1).integers(-120, 121, (16, 4, 3, 3)).astype(np.int8)


def train(scale: float = 0.0234, zero: int = 117, dtype: str = "uint8") -> onnx.ModelProto:
    """A convolution with pairs, as training left it, in front of two products without."""
    constants: dict[str, Any] = {
        "xs": np.float32(scale), "xz": np.array(zero, dtype), "wq": codes(),
        "ws": np.linspace(0.002, 0.0041, 16, dtype=np.float32), "rs": np.float32(0.0119),
        "rz": np.array(0, dtype), "w2": weight(16, 32), "w3": weight(32, 8),
    }  # fmt: skip
    nodes = [
        ("QuantizeLinear", "x xs xz", "xq", {}), ("DequantizeLinear", "xq xs xz", "xd", {}),
        ("DequantizeLinear", "wq ws", "wd", {"axis": 0}), ("Conv", "xd wd", "c", {}), ("Relu", "c", "r", {}),
        ("QuantizeLinear", "r rs rz", "rq", {}), ("DequantizeLinear", "rq rs rz", "rd", {}),
        ("Transpose", "rd", "t", {"perm": [0, 2, 3, 1]}), ("MatMul", "t w2", "m", {}),
        ("Relu", "m", "mr", {}), ("MatMul", "mr w3", "y", {}),
    ]  # fmt: skip
    return onnx_model(
        [helper.make_node(op, i.split(), [o], name=o, **a) for op, i, o, a in nodes],
        {"x": ["n", 4, 10, 10]},
        {"y": None},
        constants,
    )


def floats() -> onnx.ModelProto:
    model = load(train())
    strip_qdq(model)
    return intact.graph.to_proto(model)


def grids(result: Any) -> dict[str, tuple[Any, Any, str]]:
    """Scale, zero point and dtype of each QuantizeLinear of a result, by what it reads."""
    model = onnx.load_from_string(intact.graph.to_bytes(result.model))
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    return {
        node.input[0]: (
            constants[node.input[1]], constants[node.input[2]], constants[node.input[2]].dtype.name
        )
        for node in model.graph.node if node.op_type == "QuantizeLinear"
    }  # fmt: skip


@pytest.mark.parametrize(("scale", "zero", "dtype"), [
    (0.0234, 117, "uint8"), (0.03, 0, "int8"), (1 / 3, 255, "uint8"), (0.0277, -128, "int8"),
    (7.3e-5, 3, "int8"),
])  # fmt: skip
def test_pairs_of_a_file_keep_their_scales_and_the_rest_is_quantized(scale, zero, dtype):
    result = quantize(train(scale, zero, dtype), images(), progress=False, float_budget=0)
    results = grids(result)
    assert results.keys() == {"x", "r", "mr"}
    assert results["x"] == (np.float32(scale), zero, dtype)
    assert results["r"] == (np.float32(0.0119), 0, dtype)
    rows = {row["layer"]: row["precision"] for row in result.explain()}
    assert rows["c"] == rows["m"] == rows["y"] == "int8"


def test_weights_in_codes_keep_their_codes_and_scales():
    result = quantize(train(), images(), progress=False, float_budget=0, equalization="auto", rounding="auto")
    constants = {name: value.const_value.numpy() for name, value in result.model.graph.initializers.items()}
    assert any(np.array_equal(array, codes()) for array in constants.values() if array.dtype == np.int8)
    assert any(
        np.array_equal(array, np.linspace(0.002, 0.0041, 16, dtype=np.float32))
        for array in constants.values()
    )


def test_a_file_with_all_its_pairs_gives_the_same_outputs():
    first = quantize(floats(), images(), progress=False, float_budget=0)
    again = quantize(first.model, images()[:2], progress=False, float_budget=0)
    assert grids(again) == grids(first)
    x = images()[:3]
    np.testing.assert_array_equal(intact.compile(again)(x), intact.compile(first)(x))


def test_an_override_wins_over_the_pairs_of_a_file():
    result = quantize(train(), images(), progress=False, float_budget=0, overrides={"x": {"scale": 0.05}})
    assert grids(result)["x"][:2] == (np.float32(0.05), 0)


HAND = {
    "scale and zero point": ({"scale": 0.04, "zero_point": 100}, (0.04, 100, "uint8")),
    "scale of int8": ({"format": "int8", "scale": 0.04}, (0.04, 0, "int8")),
    "range": ({"range": [-1.0, 1.55]}, (0.01, 100, "uint8")),
    "range from 0": ({"range": [0, 2.55]}, (0.01, 0, "uint8")),
    "symmetric range": ({"format": "int8", "range": [-1.0, 1.27]}, (0.01, 0, "int8")),
}


@pytest.mark.parametrize("name", HAND)
def test_overrides_give_a_grid_by_hand(name):
    expected, (scale, zero, dtype) = HAND[name]
    result = grids(quantize(floats(), images(), progress=False, float_budget=0, overrides={"x": expected}))[
        "x"
    ]
    assert result[1:] == (zero, dtype) and result[0] == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize(("expected", "message"), [
    ({"scale": 0.0}, "scale: got 0.0, want a number above 0"),
    ({"scale": float("nan")}, "scale: got nan"),
    ({"scale": 0.1, "zero_point": 256}, r"zero_point: got 256, want a code of uint8: 0..255"),
    ({"format": "int8", "scale": 0.1, "zero_point": 128}, r"a code of int8: -128..127"),
    ({"zero_point": 3}, "scale: got None"),
    ({"range": [3, 1]}, "two numbers, the lower one first"),
    ({"range": 3}, "two numbers, the lower one first"),
    ({"range": [0, 1], "scale": 0.1}, "a scale beside it, want one of the two"),
])  # fmt: skip
def test_grids_that_there_are_not_are_refused(expected, message):
    with pytest.raises(QuantValueError, match=message) as caught:
        quantize(floats(), images(), progress=False, overrides={"x": expected})
    assert "overrides['x']" in str(caught.value)


def test_stored_ranges_stay_beside_data(tmp_path):
    stored = Calibration()
    item = Range()
    item.collect(np.float32([-1.0, 1.55]))
    stored["x"] = item
    stored.save(tmp_path / "x.calib")
    for ranges in (stored, tmp_path / "x.calib"):
        result = quantize(floats(), images(), progress=False, float_budget=0, ranges=ranges)
        assert grids(result)["x"][0] == pytest.approx(0.01, rel=1e-6)
        assert grids(result).keys() == {"x", "r", "mr"}


def test_statistics_of_another_model_are_refused():
    stored = Calibration()
    stored["nowhere"] = Range()
    with pytest.raises(QuantValueError, match="1 tensors that the model does not have: nowhere"):
        quantize(floats(), images(), progress=False, ranges=stored)


def test_a_stored_histogram_holds_instead_of_the_data():
    stored = Calibration()
    stored["x"] = Histogram()
    stored["x"].collect(np.float32([-1.0, 0.0, 1.5]))
    result = quantize(floats(), images(), method="max", scale_bits=None, progress=False, ranges=stored)
    assert grids(result)["x"][0] == pytest.approx(2.5 / 255, rel=1e-6)


@pytest.mark.parametrize(("name", "fix"), [
    ("per_tensor", "write per_channel=False"), ("float_bugdet", "write float_budget"),
    ("zzz", "leave it out"),
])  # fmt: skip
def test_an_option_that_there_is_not_names_the_nearest(name, fix):
    with pytest.raises(QuantValueError, match=f"{name}: got no option of this name, want .* Fix: {fix}"):
        quantize(floats(), images(), progress=False, **{name: True})

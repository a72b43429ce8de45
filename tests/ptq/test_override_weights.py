"""Overrides get what they ask for, or say that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.errors import QuantValueError


@pytest.fixture
def model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {"E": rng.standard_normal((100, 64)), "w": rng.standard_normal((64, 32)) * 0.1}
    nodes = [
        helper.make_node("Gather", ["E", "ids"], ["e"], name="emb"),
        helper.make_node("MatMul", ["e", "w"], ["m"], name="fc"),
        helper.make_node("Softmax", ["m"], ["y"], name="soft"),
    ]
    return onnx_model(
        nodes,
        {"ids": (TensorProto.INT64, ["n", "s"])},
        {"y": ["n", "s", 32]},
        {name: array.astype(np.float32) for name, array in weights.items()},
    )


@pytest.fixture
def data() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"ids": rng.integers(0, 100, (4, 16))} for _ in range(4)]


def _tables(result: Any) -> list[int]:
    return [t.data_type for t in result.proto.graph.initializer if list(t.dims) == [100, 64]]


@pytest.mark.parametrize(
    "overrides",
    [
        {"Gather": {"weights": "int8"}},
        {"emb": {"format": "int8"}},
        {"E": {"format": "int8"}},
        {"em*": {"weights": "int8"}},
        {"emb": {"activations": "float", "weights": "int8"}},
    ],
)
def test_a_table_is_stored_in_codes_where_that_is_asked_for(model, data, overrides):
    result = intact.quantize(model, data, overrides=overrides, progress=False)
    assert _tables(result) == [TensorProto.INT8]
    assert min(result.sqnr.values()) > 30
    assert any("table in codes" in row["reason"] for row in result.explain() if row["layer"] == "emb")
    engine = intact.compile(result, threads=1)
    assert np.allclose(engine.run(data[0])["y"], _float(model, data[0]), atol=0.05)


def _float(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    import onnxruntime as ort

    return np.asarray(ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0])


@pytest.mark.parametrize("overrides", [None, {"fc": {"method": "max"}}, {"emb": {"format": "float"}}])
def test_a_table_stays_as_it_is_where_nobody_asks(model, data, overrides):
    result = intact.quantize(model, data, overrides=overrides, progress=False)
    assert _tables(result) == [TensorProto.FLOAT]


def test_an_excluded_table_stays_as_it_is(model, data):
    requested = {"Gather": {"weights": "int8"}}
    result = intact.quantize(model, data, overrides=requested, exclude=["emb"], progress=False)
    assert _tables(result) == [TensorProto.FLOAT]
    assert any("'Gather' changes nothing" in line for line in result.warnings)


def test_settings_for_a_named_node_that_stays_in_float_are_refused_with_the_reason(model, data):
    with pytest.raises(QuantValueError, match=r"overrides\['soft'\]: got settings that change nothing"):
        intact.quantize(model, data, overrides={"soft": {"activations": "int8"}}, progress=False)


def test_settings_for_a_pattern_that_changes_nothing_are_warned_about(model, data):
    result = intact.quantize(model, data, overrides={"so*": {"method": "max"}}, progress=False)
    assert any("'so*' changes nothing" in line for line in result.warnings)


def test_settings_that_another_layer_in_float_leaves_without_effect_are_warned_about(model, data):
    requested = {"fc": {"format": "float"}, "soft": {"activations": "int8"}}
    result = intact.quantize(model, data, overrides={**requested, "emb": {"weights": "int8"}}, progress=False)
    assert any("'soft' changes nothing" in line for line in result.warnings)

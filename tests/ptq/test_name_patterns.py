"""Names that look like patterns mean themselves; patterns that fit nothing are refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.errors import QuantValueError

ODD, PLAIN = "model/block[0]/conv", "model/block0/conv"


@pytest.fixture
def model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 4, 3, 3)) * 0.2, "w2": rng.standard_normal((32, 8, 3, 3)) * 0.2,
               "w3": rng.standard_normal((32, 32)) * 0.3}  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name=ODD),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["d"], name=PLAIN),
        helper.make_node("GlobalAveragePool", ["d"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Einsum", ["f", "w3"], ["y"], name="head/mix", equation="ab,bc->ac"),
    ]  # fmt: skip
    return onnx_model(
        nodes,
        {"x": ["n", 4, 10, 10]},
        {"y": None},
        {name: array.astype(np.float32) for name, array in weights.items()},
    )


@pytest.fixture
def data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((8, 4, 10, 10)).astype(np.float32)


def _floats(model, data, **options):
    rows = intact.quantize(model, data, float_budget=0, progress=False, **options).explain()
    return {row["layer"] for row in rows if row["precision"] == "float"} & {ODD, PLAIN, "head/mix"}


def test_an_exact_name_excludes_its_layer_alone_whatever_characters_it_has(model, data):
    assert _floats(model, data, exclude=[ODD]) == {ODD}


def test_one_name_need_not_come_in_a_list(model, data):
    assert _floats(model, data, exclude="head/*") == {"head/mix"}


def test_an_exact_name_includes_its_layer_alone(model, data):
    assert _floats(model, data, include=[ODD]) == {PLAIN, "head/mix"}


def test_an_exact_name_overrides_its_layer_alone(model, data):
    assert _floats(model, data, overrides={ODD: {"format": "float"}}) == {ODD}


def test_brackets_are_a_pattern_where_no_name_has_them(model, data):
    assert _floats(model, data, exclude=["model/block[0-9]/conv"]) == {PLAIN}


@pytest.mark.parametrize("requested", ["Einsum", "head/mix", "Eins*"])
def test_operators_that_were_rewritten_are_meant_by_their_old_names(model, data, requested):
    assert "head/mix" in _floats(model, data, exclude=[requested])
    assert "head/mix" in _floats(model, data, overrides={requested: {"format": "float"}})


@pytest.mark.parametrize("argument", ["include", "exclude"])
def test_a_pattern_that_fits_nothing_lists_the_nearest_names(model, data, argument):
    with pytest.raises(QuantValueError, match=rf"{argument}: 'modle/block0/conv'.*'{PLAIN}'"):
        intact.quantize(model, data, progress=False, **{argument: [PLAIN, "modle/block0/conv"]})


def test_what_is_no_string_is_refused(model, data):
    with pytest.raises(QuantValueError, match="exclude: got 3"):
        intact.quantize(model, data, progress=False, exclude=[3])


def test_a_pattern_for_what_was_folded_away_is_said(data):
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "one", "none", "none", "one"], ["y"], name="bn"),
    ]  # fmt: skip
    arrays = {"w": rng.standard_normal((8, 4, 3, 3)), "one": np.ones(8), "none": np.zeros(8)}
    model = onnx_model(
        nodes,
        {"x": ["n", 4, 10, 10]},
        {"y": None},
        {name: array.astype(np.float32) for name, array in arrays.items()},
    )
    result = intact.quantize(model, data, exclude=["bn"], progress=False)
    assert any("exclude: 'bn' changes nothing" in line for line in result.warnings)


@pytest.mark.parametrize("separate", [" -> ", "->"])
@pytest.mark.parametrize(
    ("start", "end", "excluded"),
    [
        (ODD, "relu", {ODD, "relu"}),
        ("relu", "pool", {"relu", PLAIN, "pool"}),
        ("Relu", "head/*", {"relu", PLAIN, "pool", "head/mix"}),
        (PLAIN, PLAIN, {PLAIN}),
    ],
)
def test_a_path_means_all_nodes_between_its_ends(model, data, separate, start, end, excluded):
    path = f"{start}{separate}{end}"
    layers = intact.quantize(model, data, exclude=[path], progress=False, float_budget=0).explain()
    float_layers = {layer["layer"] for layer in layers if layer["precision"] == "float"}
    assert {ODD, PLAIN, "head/mix"} & excluded <= float_layers
    assert not {ODD, PLAIN, "head/mix"} - excluded & float_layers


@pytest.mark.parametrize("argument", ["include", "exclude", "overrides", "bits16"])
@pytest.mark.parametrize(
    ("path", "words"),
    [(f"{PLAIN} -> {ODD}", "no node between these"), ("relu -> haed/mix", "'haed/mix'.*'head/mix'")],
)
def test_a_path_that_is_none_is_refused(model, data, argument, path, words):
    inputs = {path: {"format": "float"}} if argument == "overrides" else [path]
    with pytest.raises(QuantValueError, match=words):
        intact.quantize(model, data, progress=False, **{argument: inputs})


def test_a_node_with_an_arrow_in_its_name_means_itself(model, data):
    model.graph.node[1].name = "relu -> more"
    model.graph.node[0].name = "relu"
    layers = intact.quantize(model, data, exclude=["relu -> more"], progress=False, float_budget=0).explain()
    assert {layer["layer"]: layer["precision"] for layer in layers}["relu"] == "int8"

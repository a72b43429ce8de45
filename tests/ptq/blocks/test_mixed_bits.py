"""Bits of single layers within a budget of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.errors import QuantValueError
from intact.ptq.blocks import BlockFormat, FormatErrors, candidate_formats, choose_formats
from intact.ptq.blocks.mixed_bits import stored_bits


def test_bits_count_scales_and_zero_points() -> None:
    assert stored_bits(BlockFormat("int4", 32)) == 4.5
    assert stored_bits(BlockFormat("uint4", 16)) == 5.25


def test_the_most_error_for_its_size_goes_first() -> None:
    grids = candidate_formats(BlockFormat("int4", 32), (8, 4, 5))
    assert [grid.name for grid in grids] == ["int4", "int5", "int8"]
    groups = {
        "small": FormatErrors(100, (0.4, 0.1, 0.001)), "large": FormatErrors(900, (0.5, 0.1, 0.001)),
        "easy": FormatErrors(1000, (0.001, 0.0005, 0.0001)),
    }  # fmt: skip

    def names(budget: float) -> list[str]:
        return [grid.name for grid in choose_formats(groups, grids, budget).values()]

    assert names(4.5) == ["int4", "int4", "int4"]
    assert names(4.56) == ["int5", "int4", "int4"]
    assert names(5.1) == ["int5", "int5", "int4"]
    assert names(8.5) == ["int8", "int8", "int8"]
    with pytest.raises(QuantValueError, match=r"at least 4\.5"):
        names(4.4)


def network(rng: np.random.Generator):
    """Return a model of two layers, the second with weights of heavy tails."""
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], "easy"), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "b"], ["y"], "hard")]  # fmt: skip
    constants = {
        "a": rng.uniform(-1, 1, (64, 64)).astype(np.float32),
        "b": rng.standard_t(2, (64, 64)).astype(np.float32),
    }
    return onnx_model(nodes, {"x": [4, 64]}, {"y": [4, 64]}, constants)


@pytest.mark.parametrize("has_data", [False, True])
@pytest.mark.parametrize("activations", ["float", "dynamic-int8"])
def test_a_file_within_a_budget(rng: np.random.Generator, activations: str, has_data: bool) -> None:
    data = [{"x": rng.normal(size=(4, 64)).astype(np.float32)} for _ in range(16)] if has_data else None
    result = intact.quantize(
        network(rng), data, weights="int4", block=32, bits_budget=6.6, activations=activations, progress=False
    )
    assert {layer.name: layer.format for layer in result.layers} == {"easy": "int4", "hard": "int8"}
    assert ("bits for each weight", "6.50") in result.summary()
    assert intact.compile(result.proto).run({"x": np.ones((4, 64), np.float32)})["y"].shape == (4, 64)


def test_wrong_budgets_are_refused(rng: np.random.Generator) -> None:
    for budget in (0, "5", float("nan")):
        with pytest.raises(QuantValueError, match="bits_budget"):
            intact.quantize(network(rng), block=32, bits_budget=budget, progress=False)


@pytest.mark.parametrize("has_data", [False, True])
def test_own_operators_hold_every_number_of_bits(rng: np.random.Generator, has_data: bool) -> None:
    data = [{"x": rng.normal(size=(4, 64)).astype(np.float32)} for _ in range(16)] if has_data else None
    result = intact.quantize(
        network(rng), data, weights="int4", block=32, operator="BlockLinear", activations="dynamic-int8",
        bits_budget=5.1, progress=False,
    )  # fmt: skip
    formats = {layer.name: layer.format for layer in result.layers}
    assert formats["easy"] < formats["hard"] and {"int3", "int5", "int6"} & set(formats.values())
    engine = intact.compile(result.proto)
    bits = [step.bits for step in engine.plan.steps if step.kind == "block_linear"]
    assert bits == [int(name[3:]) for name in formats.values()]
    x = {"x": rng.normal(size=(4, 64)).astype(np.float32)}
    wanted = intact.compile(result.proto, backend="reference").run(x)["y"]
    assert engine.run(x)["y"].tobytes() == wanted.tobytes()


def test_formats_of_single_layers_are_those_of_their_names(rng: np.random.Generator) -> None:
    result = intact.ptq.quantize_weights(
        network(rng), weights="int4", operator="BlockLinear", formats={"hard": "int6"}, progress=False
    )
    assert [layer.format for layer in result.layers] == ["int4", "int6"]
    with pytest.raises(QuantValueError, match="int99"):
        intact.ptq.quantize_weights(network(rng), formats={"hard": "int99"})

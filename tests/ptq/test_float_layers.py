"""Layers left in float: where outputs are poor, those that lose most for their time, in a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import intact
from intact.errors import QuantValueError
from intact.graph import load
from intact.placement import explain, place, read_placement
from intact.ptq import POOR_DB, QuantizedModel, quantize
from intact.ptq.budget_search import Upgrade
from intact.ptq.mixed.precision_search import (
    Cost,
    Form,
    UnitGroup,
    UnitTrials,
    count_worthwhile,
    greedy_steps,
    is_hopeless,
)
from intact.ptq.mixed.predicted_time import PredictedTime, shapes_of
from intact.ptq.scope.settings import FLOAT_BUDGET, Settings
from intact.ptq.stages.int16_activations import Unit


def quiet(model: Any, data: Any, **options: Any) -> QuantizedModel:
    return quantize(model, data, progress=False, **{"equalization": False} | options)


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((32, 8, 12, 12)).astype(np.float32)


@pytest.fixture
def poor_net(build: Any) -> onnx.ModelProto:
    """Channels of sizes from 0.001 to 100 in front of a small layer that brings them to one size.

    Behind it a Clip with a negative bound, and two large layers.
    """
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    sizes = np.logspace(-3, 2, 8).astype(np.float32).reshape(8, 1, 1, 1)
    nodes = [
        ("Conv", "x w0", "wide", {"pads": [1, 1, 1, 1]}), ("Sigmoid", "wide", "gate"),
        ("Mul", "wide gate", "wider"), ("Conv", "wider w1", "even"), ("Clip", "even low high", "bounded"),
        ("Conv", "bounded w2", "a", {"pads": [1, 1, 1, 1]}), ("Relu", "a", "b"),
        ("Conv", "b w3", "y", {"pads": [1, 1, 1, 1]}),
    ]  # fmt: skip
    return build(
        nodes, {"x": ["N", 8, 12, 12]}, {"y": ["N", 8, 12, 12]}, w0=normal(8, 8, 3, 3) * sizes,
        w1=normal(8, 8, 1, 1) / sizes.reshape(1, 8, 1, 1), low=np.float32(-1), high=np.float32(6),
        w2=normal(64, 8, 3, 3), w3=normal(8, 64, 3, 3),
    )  # fmt: skip


def layers(result: QuantizedModel) -> dict[str, str]:
    """Precision by the tensor that the layer's first node makes."""
    nodes = {node.name: node for node in load(result.proto).graph}
    return {
        nodes[layer.nodes[0]].outputs[0].name or "": layer.precision
        for layer in result.placement.layers
        if layer.nodes[0] in nodes
    }


def test_what_spoils_an_output_stays_in_float(poor_net: onnx.ModelProto, images: np.ndarray) -> None:
    plain = quiet(poor_net, images, float_budget=0)
    result = quiet(poor_net, images)
    assert plain.least_sqnr < POOR_DB and not plain.in_float
    assert result.least_sqnr > plain.least_sqnr + 3.0
    assert list(result.in_float) == ["wider"]
    assert "with 8 bits an output has" in result.in_float["wider"]
    results = layers(result)
    assert results["even"] == "float" and results["a"] == results["y"] == "int8"
    (row,) = [item for item in result.explain() if "more time" in item["reason"]]
    assert row["precision"] == "float"
    assert "tensors left in float" in repr(result)
    assert "wider" not in result.ranges and "wider" in plain.ranges


def test_the_file_runs_elsewhere_and_the_engine_runs_it_exactly(
    poor_net: onnx.ModelProto, images: np.ndarray
) -> None:
    result = quiet(poor_net, images)
    assert result.in_float
    feeds = {"x": images[:1]}
    got, exact = (
        intact.compile(result.proto, backend=backend).run(feeds)["y"] for backend in ("cpu", "reference")
    )
    np.testing.assert_array_equal(got, exact)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(result.proto.SerializeToString(), options)
    (want,) = session.run(None, feeds)
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()


def test_equal_data_give_equal_files(poor_net: onnx.ModelProto, images: np.ndarray) -> None:
    first, second = (quiet(poor_net, images[order]) for order in (slice(None), slice(None, None, -1)))
    assert first.in_float and first.proto.SerializeToString() == second.proto.SerializeToString()


def test_good_outputs_get_the_bytes_that_they_would_have_got(build: Any, images: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((8, 8, 3, 3)) / 9).astype(np.float32)
    model = build([("Conv", "x w", "y")], {"x": ["N", 8, 12, 12]}, {"y": ["N", 8, 10, 10]}, w=w)
    with_budget, without = (quiet(model, images, float_budget=part) for part in (0.4, 0))
    assert with_budget.least_sqnr >= POOR_DB
    assert with_budget.proto.SerializeToString() == without.proto.SerializeToString()


def test_no_layer_stays_that_the_budget_does_not_hold(poor_net: onnx.ModelProto, images: np.ndarray) -> None:
    assert not quiet(poor_net, images, float_budget=1e-6).in_float


def test_other_engines_and_16_bits_have_no_budget_unless_asked(
    poor_net: onnx.ModelProto, images: np.ndarray
) -> None:
    assert not quiet(poor_net, images, profile="onnxruntime").in_float
    assert not quiet(poor_net, images, bits16="auto").in_float
    assert Settings(profile="onnxruntime", float_budget=0.3).budget == 0.3
    assert Settings().budget == FLOAT_BUDGET and Settings().has_gate
    assert not Settings(profile="onnxruntime").has_gate and not Settings(float_budget=0.4).has_gate


def test_a_model_is_never_left_in_float_throughout(build: Any, images: np.ndarray) -> None:
    sizes = np.logspace(-3, 2, 8).astype(np.float32).reshape(8, 1, 1)
    rng = np.random.default_rng(0)
    model = build(
        [("Conv", "x w", "a"), ("MatMul", "a v", "y")], {"x": ["N", 8, 12, 12]}, {"y": ["N", 8, 10, 2000]},
        w=rng.standard_normal((8, 8, 3, 3)).astype(np.float32) / sizes,
        v=rng.standard_normal((10, 2000)).astype(np.float32),
    )  # fmt: skip
    result = quiet(model, images * sizes, float_budget=100.0, exclude=["MatMul"])
    assert result.least_sqnr < POOR_DB and not result.in_float
    assert sorted(layer.precision for layer in result.placement.layers) == ["float", "int8"]


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf"), True, "0.2"])
def test_a_budget_is_a_part_of_the_time(budget: Any, poor_net: onnx.ModelProto, images: np.ndarray) -> None:
    with pytest.raises(QuantValueError, match="float_budget"):
        quiet(poor_net, images, float_budget=budget)


def test_sequences_have_no_shape_and_are_in_nobodys_way(build: Any, images: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    nodes = [
        ("SplitToSequence", "x four", "parts", {"axis": 1}), ("SequenceAt", "parts one", "second"),
        ("Conv", "second w", "y"),
    ]  # fmt: skip
    model = build(
        nodes, {"x": ["N", 8, 12, 12]}, {"y": ["N", 4, 12, 12]}, four=np.int64(4), one=np.int64(1),
        w=rng.standard_normal((4, 4, 1, 1)).astype(np.float32),
    )  # fmt: skip
    shapes = shapes_of(load(model), {"x": images[:1]})
    assert "parts" not in shapes and shapes["y"] == (1, 4, 12, 12)


def group(name: str, error: float, time: float) -> UnitGroup:
    return UnitGroup((Unit((0, name, True), (name,), ()),), error, {"float": Cost(0.0, time)})


def take(budget: float, groups: list[UnitGroup]) -> list[UnitGroup]:
    steps = greedy_steps(groups, budget)
    return [step.item for step in steps[: count_worthwhile(steps, sum(group.error for group in groups))]]


def test_each_tenth_of_the_time_must_halve_the_error() -> None:
    cheap, little = group("a", 0.6, 0.05), group("b", 0.01, 0.05)
    groups = [group("c", 0.1, 0.6), little, cheap, group("d", 0.29, 0.9)]
    assert take(1.0, groups) == [cheap]
    assert take(0.04, groups) == []
    assert take(1.0, []) == []


def test_layers_that_help_together_are_taken_together() -> None:
    """None of eight equal ones halves the error for its time; all of them take nearly all of it."""
    equal = [group(str(i), 0.125, 0.04) for i in range(8)]
    assert take(1.0, equal) == equal
    assert take(0.1, equal) == []


class _EvenTrials(UnitTrials):
    """Units of an equal error and time each, and how often trials were asked for by `weights`."""

    def __init__(self, time: float) -> None:
        self.each, self.requests = time, list[bool]()

    def can_widen(self, unit: Unit) -> bool:
        return True

    def errors(self, parts: Sequence[Sequence[Unit]], weights: bool) -> list[float]:
        self.requests.append(weights)
        return [0.01 * len(part) for part in parts]

    def time(self, units: Sequence[Unit], form: Form) -> float:
        return self.each * len(units) * (2 if form == "float" else 1)


@pytest.mark.parametrize("time, hopeless", [(0.2, True), (0.01, False)])
def test_16_bits_are_not_tried_where_they_could_not_pay(time: float, hopeless: bool) -> None:
    """Errors spread evenly over units that cost a fifth of the time each: half of them cannot go."""
    units = [Unit((0, f"t{i}", True), (f"n{i}",), ()) for i in range(8)]
    trials = _EvenTrials(time)
    groups = trials.measure(units, budget=0.4)
    assert (groups == []) == hopeless and (False in trials.requests) != hopeless
    assert len(_EvenTrials(time).measure(units)) == 8, "without a budget all is measured"


@pytest.mark.parametrize("gain, hopeless", [(0.2, True), (0.3, False)])
def test_a_proposal_that_leaves_three_quarters_is_not_finished(gain: float, hopeless: bool) -> None:
    item = group("a", 1.0, 0.1)
    assert is_hopeless([item], [Upgrade(item, "float", gain, 0.1)]) == hopeless
    assert is_hopeless([item], [Upgrade(item, "float", gain, 0.1)], error=2.0), "there are others"


def test_time_is_told_by_products_and_elements(poor_net: onnx.ModelProto, images: np.ndarray) -> None:
    model = load(poor_net)
    placed = place(model, "intact")
    shapes = shapes_of(model, {"x": images[:1]})
    assert shapes["a"] == (1, 64, 12, 12) and shapes["x"] == (1, 8, 12, 12)
    predicted = PredictedTime(model, placed, shapes)
    nodes = {node.outputs[0].name: node.name or "" for node in model.graph}

    def time_with_floats(*result: str) -> float:
        return predicted.time_difference([Unit((0, name, True), (name,), (nodes[name],)) for name in result])

    # Products alone: [outputs, inputs * taps] for each of 144 places.
    products = {"wide": 8 * 72 * 144, "even": 8 * 8 * 144, "a": 64 * 72 * 144, "y": 8 * 576 * 144}
    elements = {"wide": 16 * 144, "even": 16 * 144, "a": 72 * 144, "y": 72 * 144}
    for name in ("even", "a", "y"):
        more = 17 * products[name] + 20 * elements[name]
        assert time_with_floats(name) * predicted.total == pytest.approx(more)
    assert time_with_floats("a", "y") == pytest.approx(time_with_floats("a") + time_with_floats("y"))
    assert time_with_floats("a", "a") == time_with_floats("a"), "a layer is left in float once"


def test_a_saved_file_and_its_plan_say_that_the_budget_did_it(
    poor_net: onnx.ModelProto, images: np.ndarray, tmp_path: Path
) -> None:
    result = quiet(poor_net, images)
    result.save(tmp_path / "m.onnx")
    model = load(tmp_path / "m.onnx")
    name = next(node.name for node in model.graph if node.outputs[0].name == "even")
    for rows in (
        result.explain(),
        explain(read_placement(model)),
        explain(intact.compile(tmp_path / "m.onnx").plan),
    ):
        (row,) = [row for row in rows if name in row["nodes"]]
        assert row["precision"] == "float"
        assert str(row["reason"]).startswith(
            "in float: chosen by the float budget: with 8 bits an output has"
        )
        rest = [row for row in rows if not {name, "n_bounded"}.intersection(row["nodes"])]  # its Clip
        assert rest and not any("budget" in str(other["reason"]) for other in rest)
    again = quantize(tmp_path / "m.onnx", images, progress=False, float_budget=0)
    assert not any("budget" in str(row["reason"]) for row in explain(read_placement(again.model)))

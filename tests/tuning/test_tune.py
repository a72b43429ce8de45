"""`intact.tune` on a small network and a clock that counts: costs, answers, records, errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.tuning.clocks import steady

import intact
from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.graph import Session
from intact.ptq import quantize
from intact.tuning import TuneResult

LAYERS = 4  # of the network


PLAIN = {
    "method": "max",
    "equalization": False,
    "bias_correction": False,
    "progress": False,
    "clock": steady,
    "rounding": False,
}


def tune_net(net: onnx.ModelProto, data: np.ndarray, **options: object) -> TuneResult:
    return intact.tune(net, data, **(PLAIN | options))


def test_a_loose_target_keeps_everything_in_int8(net, data) -> None:
    result = tune_net(net, data, max_drop=100.0)
    assert result.met
    assert not result.best.formats
    assert result.best.seconds == pytest.approx(steady(result.proto))
    assert result.best.seconds < result.float_seconds


def test_no_loss_at_all_is_the_float_model(net, data) -> None:
    result = tune_net(
        net, data, max_drop=0.0, formats=["float"], evaluate=lambda engine: -relative_error(engine, net, data)
    )
    assert result.met
    assert set(result.best.formats.values()) == {"float"}
    assert len(result.best.formats) == LAYERS
    assert not any(node.op_type == "QuantizeLinear" for node in result.proto.graph.node)


def relative_error(engine, net: onnx.ModelProto, data: np.ndarray) -> float:
    """Relative squared error of the output, in parts per million."""
    want = Session(net.SerializeToString()).run({"x": data})["y"].astype(np.float64)
    error = float(((engine(data) - want) ** 2).sum() / (want**2).sum())
    return round(1e6 * error, 1)


def test_the_layer_that_loses_most_is_the_first_in_float(net, data) -> None:
    int8 = tune_net(
        net, data, max_drop=1e9, evaluate=lambda engine: -relative_error(engine, net, data), formats=["float"]
    )
    worst = max(int8.layers, key=lambda layer: layer.errors["uint8"])
    assert worst.name == "/fc1"  # it reads the outlier
    target = -0.5 * int8.best.score
    result = tune_net(
        net,
        data,
        max_drop=target,
        evaluate=lambda engine: -relative_error(engine, net, data),
        formats=["float"],
    )
    assert result.met
    assert result.best.formats == {"/fc1": "float"}
    assert {layer.name: layer.chosen for layer in result.layers}["/fc1"] == "float"


def test_overrides_make_the_answer_again(net, data) -> None:
    result = tune_net(
        net,
        data,
        max_drop=100.0,
        evaluate=lambda engine: -relative_error(engine, net, data),
        formats=["float"],
    )
    options = {name: value for name, value in PLAIN.items() if name != "clock"}
    again = quantize(net, data, overrides=result.overrides, **options)
    assert again.proto.SerializeToString(deterministic=True) == result.proto.SerializeToString(
        deterministic=True
    )


def test_costs_are_what_the_clock_says(net, data) -> None:
    result = tune_net(net, data, max_drop=100.0, formats=["float"])
    base = steady(result.proto)
    for layer in result.layers:
        options = {name: value for name, value in PLAIN.items() if name != "clock"}
        item = quantize(net, data, overrides={layer.name: {"format": "float"}}, float_budget=0, **options)
        assert base + layer.seconds["float"] == pytest.approx(max(steady(item.proto), base), rel=1e-6)


def test_predictions_of_additive_costs_are_exact(net, data) -> None:
    result = tune_net(
        net, data, max_drop=0.0, evaluate=lambda engine: -relative_error(engine, net, data), formats=["float"]
    )
    few = [trial for trial in result.trials if 0 < len(trial.formats) < 3]
    for item in few:
        assert item.predicted_seconds == pytest.approx(item.seconds, rel=0.1)


def test_twice_the_same(net, data) -> None:
    first, second = (tune_net(net, data, max_drop=0.01) for _ in range(2))
    assert first.to_json() == second.to_json()
    assert first.proto.SerializeToString(deterministic=True) == second.proto.SerializeToString(
        deterministic=True
    )


def test_a_record_spares_every_measurement(net, data, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    first = tune_net(net, data, max_drop=0.01, record=file)

    def fail_if_called(model: onnx.ModelProto) -> float:
        raise AssertionError("the record knows this")

    fail_if_called.key = steady.key
    again = tune_net(net, data, max_drop=0.01, record=file, clock=fail_if_called)
    assert again.to_json() == first.to_json()


def test_an_interrupted_run_goes_on(net, data, tmp_path: Path) -> None:
    file, calls = tmp_path / "record.json", []

    def stops(model: onnx.ModelProto) -> float:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return steady(model)

    stops.key = steady.key
    with pytest.raises(KeyboardInterrupt):
        tune_net(net, data, max_drop=0.01, record=file, clock=stops)
    remaining = json.loads(file.read_text())
    assert sum(len(table) for table in remaining["latencies"].values()) == 3
    result = tune_net(net, data, max_drop=0.01, record=file)
    assert result.to_json() == tune_net(net, data, max_drop=0.01).to_json()


def test_a_metric_that_nobody_names_is_measured_again(net, data, tmp_path: Path) -> None:
    file, calls = tmp_path / "record.json", []

    def evaluate(engine) -> float:
        calls.append(engine)
        return -relative_error(engine, net, data)

    first = tune_net(net, data, max_drop=10.0, record=file, evaluate=evaluate)
    once = len(calls)
    assert tune_net(net, data, max_drop=10.0, record=file, evaluate=evaluate).to_json() == first.to_json()
    assert len(calls) == 2 * once
    assert tune_net(net, data, record=file).float_score == pytest.approx(100)


def test_other_data_are_another_study(net, data, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    tune_net(net, data, record=file)
    tune_net(net, 2 * data, record=file)
    assert len(json.loads(file.read_text())["studies"]) == 2


@pytest.mark.parametrize("content", [
    "", "[]", "{}", '{"version": 2}', "[" * 10**5,
    '{"version": 1, "latencies": {"m": {"s": "x"}}, "studies": {}}',
])  # fmt: skip
def test_a_record_that_is_none_is_refused(net, data, tmp_path: Path, content: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(content)
    with pytest.raises(FileFormatError, match="record"):
        tune_net(net, data, record=file)
    assert file.read_text() == content


@pytest.mark.parametrize("wrong", [
    {"max_drop": float("nan")}, {"max_drop": -1}, {"budget": 0}, {"trials": 0}, {"formats": ["int3.5"]},
    {"formats": ["uint8"]}, {"evaluate": lambda engine: None}, {"evaluate": lambda engine: float("inf")},
    {"clock": lambda model: 0.0}, {"clock": lambda model: "soon"},
])  # fmt: skip
def test_what_is_wrong_is_said(net, data, wrong: dict[str, object]) -> None:
    with pytest.raises(QuantValueError):
        tune_net(net, data, **wrong)


def test_rounding_is_tried_first_because_it_costs_no_time(net, data) -> None:
    def evaluate(engine) -> float:
        return -relative_error(engine, net, data)

    plain, free = (
        tune_net(net, data, max_drop=1e9, evaluate=evaluate, rounding=how) for how in (False, "auto")
    )
    assert free.best.score > plain.best.score
    assert free.best.seconds == plain.best.seconds
    assert free.settings["rounding"].startswith("fitted")
    assert (
        tune_net(net, data, max_drop=1e9, evaluate=lambda engine: 1.0, rounding="auto").settings["rounding"]
        == "fitted in layers of few weights"
    )


def test_a_target_out_of_reach_is_said(net, data) -> None:
    result = tune_net(
        net, data, max_drop=0.0, evaluate=lambda engine: -relative_error(engine, net, data), formats=["int8"]
    )
    assert not result.met
    assert result.best.score == max(trial.score for trial in result.trials)


def test_the_float_model_is_judged_once(net, data) -> None:
    judged = []

    def evaluate(engine) -> float:
        judged.append(engine)
        return -relative_error(engine, net, data)

    result = tune_net(net, data, max_drop=1e9, evaluate=evaluate, rounding="auto")
    assert len(result.trials) <= 2
    assert len(judged) == 1 + 2 + len(result.trials) - 1


def test_no_data_are_said(net) -> None:
    with pytest.raises(IntactError, match="data"):
        tune_net(net, np.zeros((0, 32), np.float32), clock=None)


def test_statistics_are_no_data(net, data) -> None:
    with pytest.raises(QuantValueError, match="statistics"):
        tune_net(net, intact.calibrate(net, data, progress=False))


def test_modules_are_told_to_be_exported(data) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(QuantValueError, match="export"):
        intact.tune(torch.nn.Linear(2, 2), data)


def of_signed(model: onnx.ModelProto) -> float:
    """A clock that likes int8 activations: all layers get them, none is in float."""
    zeros = [item for item in model.graph.initializer if item.name.endswith("zero_point")]
    return 1.0 - 0.01 * sum(zero.data_type == onnx.TensorProto.INT8 for zero in zeros)


def test_nodes_that_are_fused_behind_a_product_are_not_named(net, data) -> None:
    """An override of such a node changes nothing, which is an error where no layer is in float."""
    result = tune_net(net, data, max_drop=100.0, formats=["int8"], clock=of_signed)
    assert result.met and set(result.best.formats.values()) == {"int8"}
    options = {name: value for name, value in PLAIN.items() if name != "clock"}
    quantize(net, data, overrides=result.overrides, **options)

"""Quality is measured on samples that ranges do not know, and outputs reach the gate, whatever that takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.graph import Session, load
from intact.ptq import GATE_DB, quantize
from intact.ptq.measure.holdout_halves import holdout_halves
from intact.ptq.measure.holdout_samples import HALVES_MOST, HoldoutSample, digest_of, halves_of
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.prepare_model import prepare_state

RNG = np.random.default_rng(0)


def perceptron(*, layers: int = 3, spread: float = 0.0) -> onnx.ModelProto:
    """Build convolutions of 1 x 1, none of which can have dynamic ranges; channels differ by `spread`."""
    arrays, nodes, x = dict[str, Any](), [], "x"
    sizes = np.exp(spread * np.linspace(-1, 1, 16))
    for index in range(layers):
        weight = RNG.standard_normal((16, 16, 1, 1)) / 4
        shape = (16, 1, 1, 1) if index % 2 == 0 else (1, 16, 1, 1)
        weight *= (sizes if index % 2 == 0 else 1 / sizes).reshape(shape)
        arrays[f"w{index}"], y = weight.astype(np.float32), f"y{index}"
        nodes.append(helper.make_node("Conv", [x, f"w{index}"], [y], name=f"conv{index}"))
        if index < layers - 1:
            nodes.append(helper.make_node("Tanh", [y], [f"{y}.act"], name=f"act{index}"))
            y = f"{y}.act"
        x = y
    return onnx_model(nodes, {"x": ["n", 16, 1, 1]}, {x: ["n", 16, 1, 1]}, arrays)


def pixels(count: int, spread: float = 0.0) -> np.ndarray:
    sizes = np.exp(spread * RNG.standard_normal((count, 1, 1, 1)))
    return (RNG.standard_normal((count, 16, 1, 1)) * sizes).astype(np.float32)


def engine_sqnr(model: onnx.ModelProto, quantized: Any, x: np.ndarray) -> float:
    """Signal to noise of the engine over all of `x`, in dB."""
    (want,) = Session(model.SerializeToString()).run({"x": x}).values()
    got = intact.compile(quantized, threads=1)(x)
    return float(10 * np.log10(np.square(want).sum() / np.square(got - want).sum()))


def samples_of(x: np.ndarray) -> list[HoldoutSample]:
    return [HoldoutSample(digest_of({"x": row[None]}), {"x": row[None]}, {}) for row in x]


def test_a_half_has_the_statistics_of_all_other_data() -> None:
    data = pixels(40, 1.0)
    state = with_statistics(prepare_state(perceptron(), data, Settings(progress=False)))
    assert state is not None and state.calibration is not None
    runs = samples_of(data[:8])
    halves = holdout_halves(state.model, state.calibration, ["x", "y0.act"], runs, has_run=False)
    for half, indices in zip(halves, (np.arange(0, 8, 2), np.arange(1, 8, 2)), strict=True):
        rest = with_statistics(
            prepare_state(perceptron(), np.delete(data, indices, 0), Settings(progress=False))
        )
        assert rest is not None and rest.calibration is not None
        counted, want = half.calibration["x"], rest.calibration["x"]
        assert counted.count == want.count == 16 * 36
        np.testing.assert_allclose(counted.max, want.max, rtol=1e-3)
        np.testing.assert_allclose(counted.min, want.min, rtol=1e-3)
        assert {id(sample) for sample in half.runs} == {id(runs[index]) for index in indices}


def test_few_stacked_samples_are_cut_and_single_ones_make_no_halves() -> None:
    x, y = pixels(5), pixels(5)
    stack = HoldoutSample(b"", {"x": x}, {"y": y}, stacked=5)
    (first,), (second,) = halves_of([stack])
    np.testing.assert_array_equal(first.feeds["x"], x[::2])
    np.testing.assert_array_equal(second.outputs["y"], y[1::2])
    assert (first.stacked, second.stacked) == (3, 2)
    assert halves_of(samples_of(x[:3])) == ([], [])
    assert [len(half) for half in halves_of(samples_of(x))] == [3, 2]
    assert quantize(perceptron(), x[:1], progress=False).unseen_sqnr == {}


def test_only_some_samples_are_counted_again() -> None:
    data = pixels(3 * HALVES_MOST)
    state = with_statistics(prepare_state(perceptron(), data, Settings(progress=False)))
    assert state is not None and state.calibration is not None
    halves = holdout_halves(state.model, state.calibration, ["x"], samples_of(data), has_run=False)
    assert sum(len(half.runs) for half in halves) == HALVES_MOST


def test_the_figure_is_near_that_of_inputs_to_come() -> None:
    """A few loud samples among many: each has the range of its own kind, as long as it is seen."""
    model, data, later = perceptron(layers=1), pixels(24, 2.0), pixels(400, 2.0)
    result = quantize(model, data, progress=False, float_budget=0)
    (seen,), (unseen,) = result.sqnr.values(), result.unseen_sqnr.values()
    actual = engine_sqnr(model, result, later)
    assert unseen < seen - 3 and abs(unseen - actual) < abs(seen - actual)
    assert "with ranges of other samples" in repr(result)


def test_outputs_of_no_use_get_16_bits_or_float_until_they_reach_the_gate() -> None:
    model, data, later = perceptron(layers=7, spread=4.0), pixels(64), pixels(64)
    plain = quantize(model, data, progress=False, float_budget=0, equalization=False)
    little = quantize(model, data, progress=False, float_budget=1e-6, equalization=False)
    result = quantize(model, data, progress=False, equalization=False)
    assert plain.least_sqnr < GATE_DB and not little.bits16 and not little.in_float
    assert min(result.unseen_sqnr.values()) >= GATE_DB and engine_sqnr(model, result, later) >= GATE_DB - 1
    raised = result.bits16 | result.in_float
    assert len(raised) > 0 and len(result.ranges) > 0 and result.extra_time > 0
    assert all("its values reach from" in why for why in raised.values())
    assert "more time for these, predicted" in repr(result)


def test_a_good_output_gets_the_bytes_of_8_bits() -> None:
    model, data = perceptron(), np.clip(pixels(64), -1, 1)
    plain, result = (quantize(model, data, progress=False, **more) for more in ({"float_budget": 0}, {}))
    assert min(result.unseen_sqnr.values()) > GATE_DB + 1 and result.extra_time == 0
    assert plain.proto == result.proto


@pytest.mark.parametrize("order", [slice(None, None, -1), slice(None)])
def test_equal_data_give_equal_files(order: slice) -> None:
    model, data = perceptron(layers=5, spread=4.0), pixels(48)
    first, second = (
        quantize(model, some, progress=False, equalization=False) for some in (data, data[order])
    )
    assert first.unseen_sqnr == second.unseen_sqnr
    assert load(first.proto) is not None and first.proto == second.proto


def test_formats_that_few_samples_chose_are_named() -> None:
    model = perceptron(layers=7, spread=4.0)
    few, many = (quantize(model, pixels(n), progress=False, equalization=False) for n in (6, 64))
    assert few.bits16 | few.in_float and many.bits16 | many.in_float
    assert any("on 6 samples" in line for line in few.warnings)
    assert not any("samples" in line for line in many.warnings)


@pytest.mark.parametrize("options", [{"activations": "int4"}, {"activations": "uint4"}])
def test_an_output_of_no_use_is_named_whatever_was_asked_for(options: dict[str, Any]) -> None:
    result = quantize(perceptron(), pixels(64), progress=False, **options)
    assert min(result.unseen_sqnr.values()) < GATE_DB
    assert any(f"is of little use below {GATE_DB:g}" in line for line in result.warnings)


@pytest.mark.parametrize("weights", ["uint8", "uint4", "uint16"])
def test_weights_with_both_signs_have_no_unsigned_codes(weights: str) -> None:
    with pytest.raises(intact.IntactError, match=f"'w0'.*{weights} for values down to -"):
        quantize(perceptron(), pixels(8), progress=False, weights=weights)

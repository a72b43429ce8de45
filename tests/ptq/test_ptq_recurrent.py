"""Recurrent layers: what their weights' rounding does to the mean, and inputs that 8 bits are too few for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import intact
from intact.graph import Session, load
from intact.placement import place
from intact.ptq import POOR_DB, QuantizedModel, quantize
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.mixed.predicted_time import PredictedTime, shapes_of
from intact.ptq.scope.quantization_ranges import QuantizedWeight, weight_ends
from intact.ptq.stages.bias_correction import mean_errors
from intact.ptq.stages.int16_activations import Unit
from intact.spec import Format, QuantSpec

STEPS, IN, HIDDEN = 12, 48, 96
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(build: Any, cell: str, loud: float, *, directions: int = 1, bias: bool = True) -> onnx.ModelProto:
    """A recurrent layer that listens to the quiet ones of its inputs, `loud` times the loudest of them."""
    rng, rows = np.random.default_rng(0), GATES[cell] * HIDDEN

    def normal(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    weights = {"w": normal(directions, rows, IN), "r": normal(directions, rows, HIDDEN) / 2}
    weights["w"][:, :, 0] /= loud
    if bias:
        weights["b"] = normal(directions, 2 * rows)
    direction = "bidirectional" if directions == 2 else "forward"
    output = {"hidden_size": HIDDEN, "direction": direction}
    return build(
        [(cell, "x w r b" if bias else "x w r", "y", output)],
        {"x": [STEPS, 1, IN]}, {"y": [STEPS, directions, 1, HIDDEN]}, **weights,
    )  # fmt: skip


def batches(loud: float, mean: float = 0.0) -> list[dict[str, NDArray[np.float32]]]:
    rng = np.random.default_rng(1)
    result = []
    for _ in range(16):
        x = rng.standard_normal((STEPS, 1, IN)).astype(np.float32) + np.float32(mean)
        x[:, :, 0] *= loud
        result.append({"x": x})
    return result


def quiet(model: onnx.ModelProto, data: Any, **options: Any) -> QuantizedModel:
    return quantize(model, data, progress=False, **options)


@pytest.mark.parametrize("cell", GATES)
def test_outputs_that_are_fair_get_better_inputs_of_recurrent_layers(build: Any, cell: str) -> None:
    model, data = layer(build, cell, 5.0), batches(5.0)
    plain, result = quiet(model, data, float_budget=0), quiet(model, data)
    assert plain.least_sqnr > POOR_DB, "else any layer would get them"
    assert result.least_sqnr > plain.least_sqnr + 3
    assert list(result.bits16) == ["x"]
    (row,) = [item for item in result.explain() if item["op_type"] == cell]
    assert row["precision"] == "int8" and "more time" in str(row["reason"])
    got, exact = (
        intact.compile(result.proto, backend=backend).run(data[0])["y"] for backend in ("cpu", "reference")
    )
    np.testing.assert_array_equal(got, exact)


def test_outputs_that_are_good_get_better_inputs_of_recurrent_layers_too(build: Any) -> None:
    model, data = layer(build, "GRU", 1.0), [{"x": np.sin(feeds["x"])} for feeds in batches(1.0)]
    for tensor in model.graph.initializer[:2]:  # of which codes lose nothing: what is lost is the input's
        w = onnx.numpy_helper.to_array(tensor)
        steps = 2.0 ** np.ceil(np.log2(np.abs(w).max(-1, keepdims=True) / 127))
        codes = np.rint(w / steps)
        codes[..., 1] = 127
        tensor.CopyFrom(onnx.numpy_helper.from_array((codes * steps).astype("f4"), tensor.name))
    plain, result = quiet(model, data, float_budget=0), quiet(model, data)
    assert plain.least_sqnr > 40
    assert list(result.bits16) == ["x"] and result.least_sqnr > plain.least_sqnr + 3


def test_layers_of_another_kind_are_left_as_they_are(build: Any) -> None:
    rng, data = np.random.default_rng(0), batches(5.0)
    w = (rng.standard_normal((IN, 8)) / 7).astype(np.float32)
    w[0] /= 5
    model = build([("MatMul", "x w", "y")], {"x": [STEPS, 1, IN]}, {"y": [STEPS, 1, 8]}, w=w)
    result = quiet(model, data)
    assert POOR_DB < result.least_sqnr < 40 and not result.bits16 and not result.in_float


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("cell", GATES)
def test_the_mean_error_of_the_weights_goes_into_the_bias_of_the_inputs(
    build: Any, cell: str, directions: int, bias: bool
) -> None:
    model = load(layer(build, cell, 1.0, directions=directions, bias=bias))
    data = batches(1.0, mean=2.0)
    (node,) = model.graph
    tensor = model.graph.initializers["w"].const_value
    assert tensor is not None
    array, spec = tensor.numpy(), QuantSpec(Format.parse("int4"), axis=1)
    weight = QuantizedWeight(((node.name or "", 1),), array, spec, weight_ends(array, spec))
    runs = [HoldoutSample(bytes([i]), feeds, {}) for i, feeds in enumerate(data)]
    (result,) = mean_errors(model, [weight], runs)
    mean = np.mean([feeds["x"] for feeds in data], axis=(0, 1, 2), dtype=np.float64)
    rows = GATES[cell] * HIDDEN
    shape = model.graph.initializers[result.bias].const_value
    assert shape is not None and tuple(shape.shape) == (directions, 2 * rows) and result.added is not bias
    error = result.error.reshape(directions, 2, rows)
    np.testing.assert_allclose(error[:, 0], weight.rounding_error @ mean, atol=1e-5)
    assert not error[:, 1].any()


def test_a_bias_that_was_added_goes_again_in_front_of_other_inputs(build: Any) -> None:
    rng, rows = np.random.default_rng(0), 4 * HIDDEN
    w = rng.standard_normal((1, rows, IN)).astype(np.float32) / 7
    r = rng.standard_normal((1, rows, HIDDEN)).astype(np.float32) / 7
    model = build(
        [("LSTM", "x w r", "y", {"hidden_size": HIDDEN})],
        {"x": [STEPS, 1, IN]}, {"y": [STEPS, 1, 1, HIDDEN]}, w=w, r=r,
    )  # fmt: skip
    node = model.graph.node[0]
    node.input.extend(["", "", "h"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, HIDDEN), np.float32), "h"))
    data = batches(1.0)
    on, off = (quiet(model, data, bias_correction=switch) for switch in (True, False))
    biases = [next(n for n in item.proto.graph.node if n.op_type == "LSTM").input[3] for item in (on, off)]
    assert biases[0] and not biases[1]
    session = Session(off.proto.SerializeToString())
    assert session.run(data[0])["y"].shape == (STEPS, 1, 1, HIDDEN)


def test_products_of_states_count_in_any_form(build: Any) -> None:
    data = batches(1.0)[0]
    totals = []
    for directions in (1, 2):
        model = load(layer(build, "LSTM", 1.0, directions=directions))
        placed = place(model, "intact")
        predicted = PredictedTime(model, placed, shapes_of(model, data))
        (node,) = model.graph
        inputs, states = (STEPS * directions * 4 * HIDDEN * size for size in (IN, HIDDEN))
        elements = STEPS * (IN + directions * HIDDEN)
        assert predicted.total == inputs + 45 * states + 140 * elements
        more = (
            predicted.time_difference([Unit((0, "x", True, None), ("x",), (node.name or "",))])
            * predicted.total
        )
        assert more == pytest.approx(17 * inputs + 20 * elements)
        floats = replace(placed, layers=tuple(replace(item, precision="float") for item in placed.layers))
        totals.append(PredictedTime(model, floats, shapes_of(model, data)).total)
    assert totals[1] > 1.8 * totals[0]

"""LSTM, GRU and RNN from files: quantized or float, in both directions, with states and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import intact
from intact.engine.lower import lower

STEPS, BATCH, IN, HIDDEN = 5, 3, 16, 6
CELLS = {
    "LSTM": ("LSTM", 4, {}),
    "GRU": ("GRU", 3, {}),
    "GRU.reset_after": ("GRU", 3, {"linear_before_reset": 1}),
    "RNN": ("RNN", 1, {}),
    "RNN.relu": ("RNN", 1, {"activations": ["Relu"]}),
}


def _layer(g: Any, cell: str, direction: str = "forward", *, codes: bool = True, axis: int | None = 1,
           lengths: bool = False, states: bool = True, wide: str = "", **more: Any) -> list[str]:  # fmt: skip
    """One layer, and what it makes."""
    op_type, gates, cell_options = CELLS[cell]
    directions = 2 if direction == "bidirectional" else 1
    rows = gates * HIDDEN
    x = g.input("x", [STEPS, BATCH, IN])
    x, w = (
        (
            g.pair(x, 2e-4, 20000 if wide == "uint16" else 0, wide) if wide else g.pair(x),
            g.weight(directions, rows, IN, axis=axis),
        )
        if codes
        else (x, g.floats(directions, rows, IN))
    )
    inputs = [x, w, g.floats(directions, rows, HIDDEN), g.floats(directions, 2 * rows)]
    inputs.append(g.input("lengths", [BATCH], TensorProto.INT32) if lengths else "")
    if states:
        inputs += [g.input(f"s{i}", [directions, BATCH, HIDDEN]) for i in range(2 if cell == "LSTM" else 1)]
    if "activations" in cell_options:
        cell_options = {"activations": cell_options["activations"] * directions}
    attributes = {"hidden_size": HIDDEN, "direction": direction, **cell_options, **more}
    layer_outputs = g.node(op_type, *inputs, name="layer", outputs=3 if cell == "LSTM" else 2, **attributes)
    return [str(name) for name in layer_outputs]


def _feeds(model: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    feeds: dict[str, np.ndarray] = {}
    for graph_input in model.graph.input:
        shape = [d.dim_value for d in graph_input.type.tensor_type.shape.dim]
        reals = rng.standard_normal(shape).astype(np.float32)
        feeds[graph_input.name] = np.array([2, 5, 1], np.int32) if graph_input.name == "lengths" else reals
    return feeds


def _agree(model: Any, expected: Any = None) -> None:
    """The CPU equals the reference in every bit, and both are near what ONNX Runtime makes."""
    feeds = _feeds(model)
    cpu, reference = (
        [np.atleast_1d(v) for v in _outputs(intact.compile(model, backend=backend), feeds)]
        for backend in ("cpu", "reference")
    )
    for actual, other in zip(cpu, reference, strict=True):
        np.testing.assert_array_equal(actual, other)
    session = intact.graph.Session(model.SerializeToString())
    for actual, other in zip(cpu, session.run(feeds).values() if expected is None else expected, strict=True):
        np.testing.assert_allclose(actual, other, atol=2e-6)


def _outputs(engine: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    outputs = engine(*(feeds[name] for name in engine.plan.inputs))
    return [outputs] if isinstance(outputs, np.ndarray) else list(outputs)


@pytest.mark.rule("N52")
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_quantized_layers_equal_the_reference_and_follow_onnx_runtime(qdq, cell, direction):
    g = qdq()
    model = g.proto(*_layer(g, cell, direction, lengths=direction != "forward"))
    assert [step.kind for step in lower(model).steps] == ["quantize", "linear", "recurrent"]
    _agree(model)


@pytest.mark.parametrize("cell", CELLS)
def test_layers_in_float(qdq, cell):
    g = qdq()
    model = g.proto(*_layer(g, cell, "bidirectional", codes=False, lengths=True))
    assert [step.kind for step in lower(model).steps] == ["float_linear", "recurrent"]
    _agree(model)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kind", ["int16", "uint16"])
def test_inputs_of_16_bits_are_multiplied_in_integers(qdq, cell, kind):
    g = qdq()
    model = g.proto(*_layer(g, cell, "bidirectional", wide=kind))
    plan = lower(model)
    assert [step.kind for step in plan.steps] == ["split_quantize", "linear", "recurrent"]
    assert any("its inputs come in 16 bits" in layer.reason for layer in plan.layers)
    _agree(model)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_scales_of_weights_are_of_a_tensor_a_direction_or_a_row(qdq, axis):
    g = qdq()
    model = g.proto(*_layer(g, "LSTM", "bidirectional", axis=axis, states=False))
    assert [step.kind for step in lower(model).steps] == ["quantize", "linear", "recurrent"]
    _agree(model)


def test_scales_that_are_summed_over_leave_the_product_in_float(qdq):
    g = qdq()
    plan = lower(g.proto(*_layer(g, "LSTM", axis=2)))
    assert [step.kind for step in plan.steps] == ["quantize", "dequantize", "float_linear", "recurrent"]


def test_weights_of_states_in_codes_are_dequantized_once(qdq):
    g = qdq()
    x, rows = g.pair(g.input("x", [STEPS, BATCH, IN])), 4 * HIDDEN
    y = g.node("LSTM", x, g.weight(1, rows, IN, axis=1), g.weight(1, rows, HIDDEN, axis=1), outputs=3,
               hidden_size=HIDDEN)  # fmt: skip
    model = g.proto(y[0])
    assert [step.kind for step in lower(model).steps] == ["quantize", "linear", "recurrent"]
    _agree(model)


def test_codes_of_states_are_written_where_the_next_layer_reads_them(qdq):
    g = qdq()
    first = _layer(g, "GRU", states=False)[0]
    codes = g.quantize(first, 1 / 127)
    flat = g.node("Squeeze", g.dequantize(codes, 1 / 127), g.ints(1))
    w = g.weight(1, 4 * HIDDEN, HIDDEN, axis=1)
    y, _, _ = g.node("LSTM", flat, w, g.floats(1, 4 * HIDDEN, HIDDEN), outputs=3, hidden_size=HIDDEN)
    model = g.proto(y)
    kinds = [step.kind for step in lower(model).steps]
    assert kinds == ["quantize", "linear", "recurrent", "reshape", "linear", "recurrent"]
    _agree(model)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_batch_first(qdq, direction):
    """ONNX Runtime has no such layout: it makes the same of the batch in the middle."""
    g, other = qdq(), qdq()
    middle = other.proto(*_layer(other, "LSTM", direction))
    layer_outputs = _layer(g, "LSTM", direction, layout=1)
    for graph_input in g.inputs:
        shape = graph_input.type.tensor_type.shape
        sizes = [dim.dim_value for dim in shape.dim]
        for dim, size in zip(shape.dim, [sizes[1], sizes[0], sizes[2]], strict=True):
            dim.dim_value = size
    model = g.proto(*layer_outputs)
    feeds = _feeds(model)
    turned = {name: np.moveaxis(array, 0, 1) for name, array in feeds.items()}
    y, *last = _outputs(intact.compile(middle, backend="reference"), turned)
    expected = [np.moveaxis(y, 2, 0), *(np.moveaxis(state, 1, 0) for state in last)]
    for backend in ("cpu", "reference"):
        for graph_input, want in zip(
            _outputs(intact.compile(model, backend=backend), feeds), expected, strict=True
        ):
            np.testing.assert_array_equal(graph_input, want)


@pytest.mark.parametrize(
    ("cell", "more", "why"),
    [
        ("LSTM", {"clip": 3.0}, "it clips what goes into its gates to 3"),
        ("LSTM", {"input_forget": 1}, "it couples its input and forget gates"),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"]}, "its functions are HardSigmoid, Tanh"),
    ],
)
def test_rare_forms_run_in_onnx_runtime(qdq, cell, more, why):
    g = qdq()
    plan = lower(g.proto(*_layer(g, cell, **more)))
    assert [step.kind for step in plan.steps if step.kind in ("recurrent", "onnx")] == ["onnx"]
    assert any(why in layer.reason for layer in plan.layers)


def test_functions_that_are_the_usual_ones_may_be_said(qdq):
    g = qdq()
    plan = lower(g.proto(*_layer(g, "LSTM", activations=["sigmoid", "tanh", "TANH"])))
    assert "recurrent" in [step.kind for step in plan.steps]


def test_only_what_is_read_is_written(qdq):
    g = qdq()
    plan = lower(g.proto(_layer(g, "LSTM")[2]))
    step = plan.steps[-1]
    assert (step.y, step.last_h, step.last_c) == ("", "", "layer.2")

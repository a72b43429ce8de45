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
           lengths: bool = False, states: bool = True, **more: Any) -> list[str]:  # fmt: skip
    """One layer, and what it makes."""
    op_type, gates, said = CELLS[cell]
    directions = 2 if direction == "bidirectional" else 1
    rows = gates * HIDDEN
    x = g.input("x", [STEPS, BATCH, IN])
    x, w = (g.pair(x), g.weight(directions, rows, IN, axis=axis)) if codes else (x, g.floats(directions, rows, IN))
    inputs = [x, w, g.floats(directions, rows, HIDDEN), g.floats(directions, 2 * rows)]
    inputs.append(g.input("lengths", [BATCH], TensorProto.INT32) if lengths else "")
    if states:
        inputs += [g.input(f"s{i}", [directions, BATCH, HIDDEN]) for i in range(2 if cell == "LSTM" else 1)]
    if "activations" in said:
        said = {"activations": said["activations"] * directions}
    attributes = {"hidden_size": HIDDEN, "direction": direction, **said, **more}
    made = g.node(op_type, *inputs, name="layer", outputs=3 if cell == "LSTM" else 2, **attributes)
    return [str(name) for name in made]


def _feeds(model: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    feeds: dict[str, np.ndarray] = {}
    for one in model.graph.input:
        shape = [d.dim_value for d in one.type.tensor_type.shape.dim]
        reals = rng.standard_normal(shape).astype(np.float32)
        feeds[one.name] = np.array([2, 5, 1], np.int32) if one.name == "lengths" else reals
    return feeds


def _agree(model: Any, expected: Any = None) -> None:
    """The CPU equals the reference in every bit, and both are near what ONNX Runtime makes."""
    feeds = _feeds(model)
    cpu, reference = (
        [np.atleast_1d(v) for v in _outputs(intact.compile(model, backend=backend), feeds)]
        for backend in ("cpu", "reference")
    )
    for one, other in zip(cpu, reference, strict=True):
        np.testing.assert_array_equal(one, other)
    session = intact.graph.Session(model.SerializeToString())
    for one, other in zip(cpu, session.run(feeds).values() if expected is None else expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


def _outputs(engine: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    made = engine(*(feeds[name] for name in engine.plan.inputs))
    return [made] if isinstance(made, np.ndarray) else list(made)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_quantized_layers_equal_the_reference_and_follow_onnx_runtime(qdq, cell, direction):
    g = qdq()
    model = g.proto(*_layer(g, cell, direction, lengths=direction != "forward"))
    assert [step.kind for step in lower(model).steps] == ["quantize", "linear", "recurrent"]
    _agree(model)

"""GridSample runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, reason_of_fallback


@pytest.mark.rule("N59")
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("opset", [16, 20])
def test_images_at_places(qdq, lower_graph, opset, mode, padding, align):
    g = qdq(opset)
    rng = np.random.default_rng(0)
    x, grid = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-1.6, 1.6, (2, 7, 8, 2))
    x, grid = add_inputs(g, x=x.astype(np.float32), grid=grid.astype(np.float32))
    name = {"linear": "bilinear"}.get(mode, mode) if opset < 20 else mode
    y = g.node("GridSample", x, grid, mode=name, padding_mode=padding, align_corners=align)
    assert lower_graph(g, y).agree(1e-6).kinds == ["grid_sample"]


def test_images_between_layers_at_places(qdq, lower_graph):
    """Behind a convolution images lie channels last, and a pair behind makes codes."""
    g = qdq()
    x = g.conv(g.pair(g.input("x", ["n", 3, 6, 6])), 3, 8)
    grid = g.node("Tanh", g.input("grid", ["n", 4, 5, 2]))
    y = g.conv(g.pair(g.node("GridSample", x, grid)), 8, 4)
    assert "onnx" not in lower_graph(g, g.quantize(y), sizes={"n": 2}).agree().kinds


def test_cubic_samples_are_left_to_onnx_runtime(qdq):
    g = qdq()
    y = g.node("GridSample", g.input("x", ["n", 4, 5, 6]), g.floats(2, 3, 3, 2), mode="cubic")
    assert "its mode is 'cubic'" in reason_of_fallback(g, y)

"""DFT runs natively, as ONNX Runtime and NumPy have it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("axis", [1, 2, None])
@pytest.mark.parametrize(("parts", "how"), [(1, {}), (2, {}), (1, {"onesided": 1}), (1, {"inverse": 1}),
                                            (2, {"inverse": 1})], ids=str)  # fmt: skip
@pytest.mark.parametrize("length", [None, 5, 12])
def test_transforms(qdq, lower_graph, parts, axis, how, length):
    g = qdq(opset=20)
    x = g.input("x", [2, 6, 9, parts])
    length_input = "" if length is None else g.constant(np.array(length))
    y = g.node("DFT", x, length_input, *([] if axis is None else [g.constant(np.array(axis))]), **how)
    lowered = lower_graph(g, y).exact()
    assert "onnx" not in lowered.kinds and "float_linear" in lowered.kinds
    x = lowered.feeds["x"][..., 0] + (1j * lowered.feeds["x"][..., 1] if parts == 2 else 0)
    transform = np.fft.ifft if "inverse" in how else np.fft.fft
    want = transform(x, length, 2 if axis is None else axis)
    if "onesided" in how:
        want = want.take(range(want.shape[2 if axis is None else axis] // 2 + 1), 2 if axis is None else axis)
    (got,) = (lowered.values[name] for name in lowered.plan.outputs)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), atol=2e-5)


def test_of_a_long_row_it_is_left_to_a_fast_one(qdq, lower_graph):
    g = qdq(opset=20)
    lowered = lower_graph(g, g.node("DFT", g.input("x", [1, 2048, 1])))
    assert "its matrix would have" in lowered.step("onnx").reason

"""STFT runs natively, as ONNX Runtime has it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("onesided", [None, 0, 1])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(
    ("shape", "frame_length"), [([2, 50], True), ([2, 50, 1], True), ([1, 50, 1], False)]
)
def test_of_frames(qdq, lower_graph, shape, frame_length, windowed, onesided):
    g = qdq(opset=17)
    x = g.input("x", shape)
    window = np.hanning(12).astype(np.float32) if windowed else np.ones(12, np.float32)
    window_input = g.constant(window) if windowed else ""
    length = g.constant(np.array(12)) if frame_length or not windowed else ""
    how = {} if onesided is None else {"onesided": onesided}
    y = g.node("STFT", x, g.constant(np.array(5)), window_input, length, **how)
    lowered = lower_graph(g, y).exact()
    assert "onnx" not in lowered.kinds and "float_conv" in lowered.kinds
    signal = lowered.feeds["x"].reshape(shape[:2])
    frames = np.stack([signal[:, at : at + 12] for at in range(0, 39, 5)], 1)
    want = (np.fft.fft if onesided == 0 else np.fft.rfft)(frames * window)
    (got,) = (lowered.values[name] for name in lowered.plan.outputs)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), atol=2e-5)


@pytest.mark.parametrize(("shape", "length", "reason"), [
    ([1, 50, 2], 12, "it transforms float32 of the sizes 1, 50, 2"),
    ([1, 9000], 4096, "its matrix would have"),
])  # fmt: skip
def test_frames_that_are_left(qdq, lower_graph, shape, length, reason):
    g = qdq(opset=17)
    y = g.node("STFT", g.input("x", shape), g.constant(np.array(5)), "", g.constant(np.array(length)))
    assert reason in lower_graph(g, y).step("onnx").reason

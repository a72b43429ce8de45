"""Discrete Fourier transforms run natively, as ONNX Runtime and NumPy have them."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("axis", [1, 2, None])
@pytest.mark.parametrize(("parts", "how"), [(1, {}), (2, {}), (1, {"onesided": 1}), (1, {"inverse": 1}),
                                            (2, {"inverse": 1})], ids=str)  # fmt: skip
@pytest.mark.parametrize("length", [None, 5, 12])
def test_transforms(qdq, lowered, parts, axis, how, length):
    g = qdq(opset=20)
    x = g.input("x", [2, 6, 9, parts])
    given = "" if length is None else g.constant(np.array(length))
    y = g.node("DFT", x, given, *([] if axis is None else [g.constant(np.array(axis))]), **how)
    found = lowered(g, y).exact()
    assert "onnx" not in found.kinds and "float_linear" in found.kinds
    x = found.feeds["x"][..., 0] + (1j * found.feeds["x"][..., 1] if parts == 2 else 0)
    transform = np.fft.ifft if "inverse" in how else np.fft.fft
    want = transform(x, length, 2 if axis is None else axis)
    if "onesided" in how:
        want = want.take(range(want.shape[2 if axis is None else axis] // 2 + 1), 2 if axis is None else axis)
    (got,) = (found.values[name] for name in found.plan.outputs)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), atol=2e-5)


def test_of_a_long_row_it_is_left_to_a_fast_one(qdq, lowered):
    g = qdq(opset=20)
    found = lowered(g, g.node("DFT", g.input("x", [1, 2048, 1])))
    assert "its matrix would have" in found.step("onnx").reason


@pytest.mark.parametrize("onesided", [None, 0, 1])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(("shape", "told"), [([2, 50], True), ([2, 50, 1], True), ([1, 50, 1], False)])
def test_of_frames(qdq, lowered, shape, told, windowed, onesided):
    g = qdq(opset=17)
    x = g.input("x", shape)
    window = np.hanning(12).astype(np.float32) if windowed else np.ones(12, np.float32)
    held = g.constant(window) if windowed else ""
    length = g.constant(np.array(12)) if told or not windowed else ""
    how = {} if onesided is None else {"onesided": onesided}
    y = g.node("STFT", x, g.constant(np.array(5)), held, length, **how)
    found = lowered(g, y).exact()
    assert "onnx" not in found.kinds and "float_conv" in found.kinds
    signal = found.feeds["x"].reshape(shape[:2])
    frames = np.stack([signal[:, at : at + 12] for at in range(0, 39, 5)], 1)
    want = (np.fft.fft if onesided == 0 else np.fft.rfft)(frames * window)
    (got,) = (found.values[name] for name in found.plan.outputs)
    np.testing.assert_allclose(got, np.stack([want.real, want.imag], -1), atol=2e-5)


@pytest.mark.parametrize(("shape", "length", "reason"), [
    ([1, 50, 2], 12, "it transforms float32 of the sizes 1, 50, 2"),
    ([1, 9000], 4096, "its matrix would have"),
])  # fmt: skip
def test_frames_that_are_left(qdq, lowered, shape, length, reason):
    g = qdq(opset=17)
    y = g.node("STFT", g.input("x", shape), g.constant(np.array(5)), "", g.constant(np.array(length)))
    assert reason in lowered(g, y).step("onnx").reason

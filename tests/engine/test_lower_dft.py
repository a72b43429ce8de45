"""DFT runs natively, as ONNX Runtime and NumPy have it."""

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

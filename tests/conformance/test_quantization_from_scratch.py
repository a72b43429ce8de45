"""The three listings of the tutorial "quantization from scratch", array by array as it prints them.

It computes its scales in float64; ours are float32, so its two printed scales are compared after rounding.
"""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import QuantSpec

MINMAX_SCALE, SYMMETRIC_SCALE = 0.00906828525019627, 0.01020658016204834


@pytest.fixture
def data() -> np.ndarray:
    x = np.random.RandomState(8215).randn(3).astype(np.float32)
    assert np.array_str(x) == "[ 0.21535037  1.2962357  -1.0161772 ]"
    return x


def minmax_scale(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point of the whole int8 grid over the data's own range, which holds 0."""
    return nx.affine_from_range(*nx.minmax(data), QuantSpec(symmetric=False))


@pytest.mark.rule("N36")
def test_general_procedure_without_a_zero_point(data):
    """The width's scale with zero point 0: the largest value leaves the grid and is clipped."""
    scale, _ = minmax_scale(data)
    assert scale == np.float32(MINMAX_SCALE)
    unclamped = nx.quantize(data, scale, 0, QuantSpec("int16"))  # a grid that has room for 143
    assert np.array_str(unclamped.astype(np.float64)) == "[  24.  143. -112.]"
    q = nx.quantize(data, scale, 0, QuantSpec())
    assert np.array_str(q.astype(np.float64)) == "[  24.  127. -112.]"
    back = nx.dequantize(q, scale, 0, QuantSpec())
    assert np.array_str(back) == "[ 0.21763885  1.1516722  -1.0156479 ]"
    assert np.array_str(back - data) == "[ 0.00228848 -0.14456344  0.00052929]"
    assert (nx.fake_quantize(data, scale, 0, QuantSpec()) == back).all()


@pytest.mark.rule("N36")
def test_symmetric(data):
    spec = QuantSpec(narrow=True)
    scale = nx.scale_from_amax(nx.absmax(data), spec)
    assert scale == np.float32(SYMMETRIC_SCALE)
    q = nx.quantize(data, scale, 0, spec)
    assert np.array_str(q.astype(np.float64)) == "[  21.  127. -100.]"
    back = nx.dequantize(q, scale, 0, spec)
    assert np.array_str(back) == "[ 0.21433818  1.2962357  -1.020658  ]"
    assert np.array_str(back - data) == "[-0.00101219  0.         -0.00448084]"


@pytest.mark.rule("N6", "N36")
def test_asymmetric(data):
    spec = QuantSpec(symmetric=False)
    scale, zero_point = minmax_scale(data)
    assert scale == np.float32(MINMAX_SCALE)
    assert zero_point == -16
    q = nx.quantize(data, scale, zero_point, spec)
    assert np.array_str(q.astype(np.float64)) == "[   8.  127. -128.]"
    back = nx.dequantize(q, scale, zero_point, spec)
    assert np.array_str(back) == "[ 0.21763885  1.2967647  -1.0156479 ]"
    assert np.array_str(back - data) == "[0.00228848 0.00052905 0.00052929]"

"""The numeric examples of TensorRT's Quantize pages: the cookbook's three outputs, the operator page's two.

The cookbook's pages need the reciprocal form (`quantize_reciprocal`); division gives 64 where it prints 63.
"""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import QuantSpec

DATA = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)

# As printed, one channel of 4 x 5 values per line.
PER_TENSOR = """
0 2 4 6 8 11 13 15 17 19 21 23 25 28 30 32 34 36 38 40
42 44 47 49 51 53 55 57 59 61 63 66 68 70 72 74 76 78 80 83
85 87 89 91 93 95 97 99 102 104 106 108 110 112 114 116 119 121 123 125
"""
PER_AXIS = """
0 2 4 6 8 11 13 15 17 19 21 23 25 28 30 32 34 36 38 40
21 22 23 24 25 26 28 29 30 31 32 33 34 35 36 37 38 39 40 41
21 22 22 23 23 24 24 25 25 26 26 27 28 28 29 29 30 30 31 31
"""
WITH_ZERO_POINTS = """
0 6 13 19 25 32 38 44 51 57 64 70 76 83 89 95 102 108 114 121
64 67 70 73 76 79 83 86 89 92 95 98 102 105 108 111 114 117 121 124
85 87 89 91 93 95 97 99 102 104 106 108 110 112 114 116 119 121 123 125
"""


def printed(page: str) -> np.ndarray:
    return np.array(page.split(), int).reshape(DATA.shape)


def test_cookbook_first_listing_needs_the_reciprocal():
    scale, spec = np.array([60 / 127], np.float32), QuantSpec(axis=0)
    q = nx.quantize_reciprocal(DATA, scale, 0, spec)
    assert (q == printed(PER_TENSOR)).all()
    assert (nx.dequantize(q, np.float32([1]), 0, spec) == printed(PER_TENSOR)).all()
    # The one value in sixty where the division of ONNX, and of `quantize`, differs: 30 / (60 / 127) is 63.5.
    differs = nx.quantize(DATA, scale, 0, spec) != printed(PER_TENSOR)
    assert DATA[differs].tolist() == [30.0]


def test_cookbook_second_listing_per_axis():
    scale = np.array([60 / 127, 120 / 127, 240 / 127], np.float32)
    assert (nx.quantize_reciprocal(DATA, scale, 0, QuantSpec(axis=1)) == printed(PER_AXIS)).all()


@pytest.mark.parametrize("form", [nx.quantize_reciprocal, nx.quantize], ids=lambda f: f.__name__)
def test_cookbook_third_listing_prints_codes_without_the_zero_points(form):
    """The page sets zero points -60, -96 and -106, but prints round(x / scale), as it is here with 0."""
    scale, spec = np.array([20 / 127, 40 / 127, 60 / 127], np.float32), QuantSpec(axis=1)
    assert (form(DATA, scale, 0, spec) == printed(WITH_ZERO_POINTS)).all()
    asymmetric = spec.with_(symmetric=False)
    shifted = form(DATA, scale, [-60, -96, -106], asymmetric)
    assert (shifted == printed(WITH_ZERO_POINTS) + np.reshape([-60, -96, -106], (3, 1, 1))).all()


@pytest.mark.parametrize("axis", [None, 3], ids=["per-tensor", "axis3"])
def test_operator_page_first_example(axis):
    """Inputs are printed with two digits, hence 0.01; a one-element scale is per-tensor on any axis."""
    x = [[[0.56, 0.89, 1.4], [-0.56, 0.39, 6.0], [0.67, 0.11, -3.6]]]
    want = [[[0.56, 0.89, 1], [-0.56, 0.39, 1.0], [0.67, 0.11, -1.0]]]
    scale, spec = np.array([1 / 127], np.float32), QuantSpec(axis=axis)
    x = np.array(x, np.float32).reshape(1, 1, 3, 3)  # the data lacks one axis of its declared input
    q = nx.quantize_reciprocal(x, scale, 0, spec)
    assert q[0, 0, 2, 2] == -128
    np.testing.assert_allclose(nx.dequantize(q, scale, 0, spec)[0], want, rtol=0, atol=0.01)


def test_operator_page_block_quantization():
    weights = np.array(
        [
            [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
            [1.1, 1.2, 2.1, 2.2, 3.1, 3.2, 4.1, 4.2],
            [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
            [4.1, 4.2, 5.1, 5.2, 6.1, 6.2, 7.1, 7.2],
        ],
        np.float32,
    )
    scale = np.array([[1, 1, 2, 2, 3, 3, 4, 4], [4, 4, 5, 5, 6, 6, 7, 7]], np.float32)
    spec = QuantSpec("int4", axis=0, block_size=2)
    q = nx.quantize(weights, scale, 0, spec)
    assert nx.granule_shape(weights.shape, spec) == scale.shape
    assert (q == nx.quantize_reciprocal(weights, scale, 0, spec)).all()
    assert nx.store(q, spec).dtype == spec.format.storage_dtype
    assert (nx.dequantize(q, scale, 0, spec) == np.repeat(scale, 2, axis=0)).all()

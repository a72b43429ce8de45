"""The numeric examples of TensorRT's Quantize pages: the cookbook's three outputs, the operator page's two.

The cookbook's pages need the reciprocal form (`quantize_reciprocal`); division gives 64 where it prints 63.
"""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import QuantSpec

DATA = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)


@pytest.mark.rule("N35")
def test_cookbook_first_listing_needs_the_reciprocal(listing_values):
    scale, spec = np.array([60 / 127], np.float32), QuantSpec(axis=0)
    q = nx.quantize_reciprocal(DATA, scale, 0, spec)
    assert (q == listing_values("per_tensor")).all()
    assert (nx.dequantize(q, np.float32([1]), 0, spec) == listing_values("per_tensor")).all()
    # The one value in sixty where the division of ONNX, and of `quantize`, differs: 30 / (60 / 127) is 63.5.
    differs = nx.quantize(DATA, scale, 0, spec) != listing_values("per_tensor")
    assert DATA[differs].tolist() == [30.0]


@pytest.mark.rule("N35")
def test_cookbook_second_listing_per_axis(listing_values):
    scale = np.array([60 / 127, 120 / 127, 240 / 127], np.float32)
    assert (nx.quantize_reciprocal(DATA, scale, 0, QuantSpec(axis=1)) == listing_values("per_axis")).all()


@pytest.mark.rule("N35")
@pytest.mark.parametrize("form", [nx.quantize_reciprocal, nx.quantize], ids=lambda f: f.__name__)
def test_cookbook_third_listing_prints_codes_without_the_zero_points(form, listing_values):
    """The page sets zero points -60, -96 and -106, but prints round(x / scale), as it is here with 0."""
    scale, spec = np.array([20 / 127, 40 / 127, 60 / 127], np.float32), QuantSpec(axis=1)
    assert (form(DATA, scale, 0, spec) == listing_values("zero_points")).all()
    asymmetric = spec.with_(symmetric=False)
    shifted = form(DATA, scale, [-60, -96, -106], asymmetric)
    assert (shifted == listing_values("zero_points") + np.reshape([-60, -96, -106], (3, 1, 1))).all()


@pytest.mark.rule("N35")
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


@pytest.mark.rule("N35")
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

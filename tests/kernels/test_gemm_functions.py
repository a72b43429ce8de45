"""Codes of functions behind sums, by every kernel of family "gemm", against numerics, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.convolutions import Layer, assert_equal, layer


@pytest.mark.parametrize("function", ["gelu", "gelu_tanh", "silu", "hard_swish", "sigmoid"])
@pytest.mark.parametrize(
    ("scale", "zero_point", "bounds", "reach"),
    [
        (3 / 128, 128, (0, 255), 1),
        (0.1, 3, (0, 255), 1),
        (0.002, 128, (0, 255), 1),
        (0.05, 10, (20, 200), 1),
        (9.0, 0, (0, 9), 1),
        (0.75, 17, (0, 255), 16),
    ],
    ids=["signed", "coarse", "fine", "bounded", "hardly any", "far"],
)
def test_codes_of_functions_wherever_they_change(gemm_kernel, function, scale, zero_point, bounds, reach):
    """A sum for each step of 1/1300 from -12 to 12, or `reach` times as far, by 65 multipliers and biases: of
    2 million floats, a few hundred lie where a cheaper evaluation would round to the other code."""
    conv_layer = everywhere(reach, function=function, scale=float(np.float32(scale)), zero_point=zero_point)
    conv_layer.bounds = bounds
    assert_equal(conv_layer, gemm_kernel)


def everywhere(reach: float = 1, **options: Any) -> Layer:
    """A layer whose sums are all steps of 1/1300 from -12 to 12, or `reach` times as far."""
    pairs = np.stack(np.meshgrid(np.arange(0, 255), np.arange(0, 127)))
    return Layer(
        pairs.reshape(1, 2, 127, 255).astype(np.uint8),
        np.repeat(np.array([[127, 1]], np.int8), 65, 0).reshape(65, 1, 1, 2),
        multiplier=reach * np.linspace(6.5e-4, 8.5e-4, 65).astype(np.float32),
        bias=np.linspace(-1, 1.5, 65).astype(np.float32),
        integer_bias=np.full(65, -(127 * 254 + 126) // 2, np.int32),
        **options,
    )


@pytest.mark.parametrize("function", ["silu", "hard_swish"])
@pytest.mark.parametrize(("factor", "offset"), [(0.31, 0.4), (3.7, -11.0), (1.0, 90.0), (-1.3, 0.2)])
def test_codes_of_functions_that_are_scaled_and_moved(gemm_kernel, function, factor, offset):
    conv_layer = everywhere(function=function, scale=float(np.float32(0.07)), zero_point=9)
    conv_layer.factors, conv_layer.offsets = np.full(65, factor, np.float32), np.full(65, offset, np.float32)
    assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("function", ["gelu", "silu", "hard_swish"])
@pytest.mark.parametrize("what", ["both", "factors", "offsets", "hardly any", "a negative one"])
def test_codes_of_functions_whose_channels_are_scaled_and_moved_apart(gemm_kernel, function, what):
    conv_layer = everywhere(function=function, scale=float(np.float32(0.07)), zero_point=40)
    factors = np.float32(3.7) / 2 ** (np.arange(65) % 5).astype(np.float32)
    if what == "hardly any":
        factors[::3] = 1e-3
    if what == "a negative one":
        factors[11] = -0.5
    if what != "offsets":
        conv_layer.factors = factors
    if what != "factors":
        conv_layer.offsets = np.linspace(-1.5, 2, 65).astype(np.float32)
    assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("size", [1e-12, 1e-30, 1e-44])
def test_functions_of_numbers_close_to_0(gemm_kernel, size):
    rng = np.random.default_rng(0)
    multiplier = np.full(80, size, np.float32)
    conv_layer = layer(
        rng, c=20, h=4, w=4, out=80, kernel=(1, 1), multiplier=multiplier, function="gelu", scale=1e-3
    )
    conv_layer.bias[:] = 0
    assert_equal(conv_layer, gemm_kernel)
    conv_layer.floats = True
    assert_equal(conv_layer, gemm_kernel)

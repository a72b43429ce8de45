"""The full text of every error of the integer layers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.spec import FP8E4M3, QuantSpec

S8 = QuantSpec()
MULTIPLIER = "look for a scale or a weight that is far from the others"
LAYOUT = "check the layout; scales and weights keep the float layer's"


@pytest.mark.rule("N20")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda: nx.prove_accumulator([5, 2**31]),
            "output channel 1: got sums up to 2147483648, want sums below 2**31. "
            "Fix: split the reduction, or keep the layer in float",
            id="bound",
        ),
        pytest.param(
            lambda: nx.linear(np.full((1, 3), 32767), np.full((1, 3), 32767), 0),
            "accumulator: got a sum of magnitude 3221028867, want sums below 2**31. "
            "Fix: split the reduction, or keep the layer in float",
            id="sum",
        ),
        pytest.param(
            lambda: nx.matmul([[2**30]], [[2**30]], 0, 0),
            "accumulator: got partial sums up to 1.15292e+18, want sums below 2**31. "
            "Fix: split the reduction, or keep the layer in float",
            id="partial-sums",
        ),
        pytest.param(
            lambda: nx.linear([[1.0]], [[1]], 0),
            "x: got dtype float64, want integer codes. Fix: quantize it first",
            id="float_steps",
        ),
        pytest.param(
            lambda: nx.linear([[1, 2]], [[1]], 0),
            f"shape: got (1, 2) with (1, 1), want x [..., k] and w [o, k]. Fix: {LAYOUT}",
            id="linear-shape",
        ),
        pytest.param(
            lambda: nx.matmul([[1, 2]], [[1]], 0, 0),
            f"shape: got (1, 2) with (1, 1), want a [..., i, k] and b [..., k, j]. Fix: {LAYOUT}",
            id="matmul-shape",
        ),
        pytest.param(
            lambda: nx.linear([[1]], [[1]], 0, [0, 0]),
            f"shape: got (1, 1) with (2,), want one w_zero_point, or one for each output channel. "
            f"Fix: {LAYOUT}",
            id="weight-zero-points",
        ),
        pytest.param(
            lambda: nx.linear([[1]], [[1]], 0, 0, [1, 2]),
            f"shape: got (2,) with (1, 1), want one int32 bias for each channel of axis -1. Fix: {LAYOUT}",
            id="bias-shape",
        ),
        pytest.param(
            lambda: nx.conv(np.zeros((1, 3, 4), int), np.zeros((2, 2, 1), int), 0),
            "shape: got x (1, 3, 4) with w (2, 2, 1) in 1 groups, want x [n, channels, *sizes] with "
            "w [out, channels / groups, *kernel], 1 to 3 sizes. "
            "Fix: check the layout; channels and out must be multiples of groups",
            id="conv-shape",
        ),
        pytest.param(
            lambda: nx.conv(np.zeros((1, 1, 2), int), np.zeros((1, 1, 3), int), 0),
            "window: got 3 taps for a padded size of 2, want a window no larger than the padded input. "
            "Fix: pad more, or use a smaller kernel",
            id="window-too-large",
        ),
        pytest.param(
            lambda: nx.conv(np.zeros((1, 1, 2), int), np.zeros((1, 1, 1), int), 0, stride=0),
            "window: got kernel (1,), stride 0, padding 0, dilation 1, want 1 positive numbers each, "
            "padding not negative. Fix: give one integer, or one per spatial axis",
            id="stride-0",
        ),
        pytest.param(
            lambda: nx.max_pool(np.zeros((1, 1, 2), int), 2, padding=2),
            "padding: got ((2, 2),) with kernel (2,), want at least one value in every window. "
            "Fix: pad by less than the kernel",
            id="pool-padding",
        ),
        pytest.param(
            lambda: nx.max_pool(np.zeros((1, 2), int), 2),
            "x: got shape (1, 2), want [n, channels, *sizes]. Fix: add the batch and channel axes",
            id="pool-shape",
        ),
        pytest.param(
            lambda: nx.requantize(np.zeros((2, 3), int), [1.0, 1.0], 0.0, 1.0, 0, S8),
            "multiplier: got shape (2,) for accumulators of shape (2, 3), want one number, or one for each "
            "channel of axis 1. Fix: pass the channel axis: 1 behind conv, -1 behind linear",
            id="requantize-channels",
        ),
        pytest.param(
            lambda: nx.requantize([[0]], 1.0, 0.0, 1.0, 0, QuantSpec(FP8E4M3)),
            "format: got fp8e4m3, want an integer format behind an integer layer. "
            "Fix: keep the output in float",
            id="float-format",
        ),
        pytest.param(
            lambda: nx.requantize([[0]], 1.0, 0.0, 1.0, 128, S8),
            "zero_point: got 128, want integers in [-128, 127] for int8 per-tensor. "
            "Fix: compute it with affine_from_range, or use 0 for a symmetric grid",
            id="zero-point",
        ),
        pytest.param(
            lambda: nx.multipliers(1.0, 1.0, 2.0**-96),
            f"multiplier: got 7.92282e+28, want a magnitude below 2**95. Fix: {MULTIPLIER}",
            id="multiplier",
        ),
        pytest.param(
            lambda: nx.scale_bias([0.0, math.nan]),
            f"bias: got nan, want a magnitude below 2**95. Fix: {MULTIPLIER}",
            id="bias",
        ),
        pytest.param(
            lambda: nx.ratio(2.0**96, 1.0),
            f"ratio: got 7.92282e+28, want a magnitude below 2**95. Fix: {MULTIPLIER}",
            id="ratio",
        ),
        pytest.param(
            lambda: nx.fold_batchnorm(1.0, 0.0, 0.0, [1.0, -1.0], 1e-5),
            "var + eps: got -0.99999, want positive values. Fix: repair the BatchNorm's statistics",
            id="variance",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(QuantValueError) as caught:
        call()
    assert str(caught.value) == message

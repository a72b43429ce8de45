"""Codes of functions behind sums of products, where a cheaper evaluation would round to another code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.kernels.kinds.layers import Layer, layer
from tests.one_step import check

from intact.engine.steps import Codes


def everywhere(function: str, scale: float, zero: int, reach: float = 1, **channels: Any) -> Layer:
    """A layer whose sums are all steps of 1/1300 from -12 to 12, or `reach` times as far."""
    pairs = np.stack(np.meshgrid(np.arange(0, 255), np.arange(0, 127)))
    return Layer(
        pairs.reshape(1, 2, 127, 255).astype(np.uint8),
        np.repeat(np.array([[127, 1]], np.int8), 65, 0).reshape(65, 1, 1, 2),
        multiplier=reach * np.linspace(6.5e-4, 8.5e-4, 65).astype(np.float32),
        bias=np.linspace(-1, 1.5, 65).astype(np.float32),
        integer_bias=np.full(65, -(127 * 254 + 126) // 2, np.int32),
        y=Codes(float(np.float32(scale)), zero, False, 0, 255),
        options={"activation": function},
        channels={name: np.float32(np.broadcast_to(v, 65)) for name, v in channels.items()},
    )


@pytest.mark.parametrize("function", ["gelu", "gelu_tanh", "silu", "hard_swish", "sigmoid"])
@pytest.mark.parametrize(
    ("scale", "zero", "reach"),
    [(3 / 128, 128, 1), (0.1, 3, 1), (0.002, 128, 1), (9.0, 0, 1), (0.75, 17, 16)],
    ids=["signed", "coarse", "fine", "hardly any", "far"],
)
def test_codes_of_functions_wherever_they_change(
    function: str, scale: float, zero: int, reach: float
) -> None:
    """A sum for each step, by 65 multipliers and biases: of 2 million floats, a few hundred lie where bounds
    of the code do not decide."""
    check(everywhere(function, scale, zero, reach).case(), moves=False)


@pytest.mark.parametrize("function", ["silu", "hard_swish"])
@pytest.mark.parametrize(("factor", "offset"), [(0.31, 0.4), (3.7, -11.0), (1.0, 90.0), (-1.3, 0.2)])
def test_codes_of_functions_that_are_scaled_and_moved(function: str, factor: float, offset: float) -> None:
    check(everywhere(function, 0.07, 9, factors=factor, offsets=offset).case(), moves=False)


@pytest.mark.parametrize("function", ["gelu", "silu", "hard_swish"])
@pytest.mark.parametrize("channels", ["both", "factors", "offsets", "hardly any", "a negative one"])
def test_codes_of_functions_whose_channels_are_scaled_and_moved_apart(function: str, channels: str) -> None:
    factors, offsets = np.float32(3.7) / 2 ** (np.arange(65) % 5), np.linspace(-1.5, 2, 65)
    if channels == "hardly any":
        factors[::3] = 1e-3
    if channels == "a negative one":
        factors[11] = -0.5
    both = {"factors": factors, "offsets": offsets}
    used = {channels: both[channels]} if channels in both else both
    check(everywhere(function, 0.07, 40, **used).case(), moves=False)


@pytest.mark.parametrize("size", [1e-12, 1e-30, 1e-44])
def test_functions_of_numbers_close_to_0(size: float) -> None:
    drawn = layer(
        np.random.default_rng(0), c=20, h=4, w=4, out=80, kernel=(1, 1), bias=np.zeros(80, np.float32),
        multiplier=np.full(80, size, np.float32), options={"activation": "gelu"},
        y=Codes(float(np.float32(1e-3)), 0, False, 0, 255),
    )  # fmt: skip
    check(drawn.case())
    check(replace(drawn, y=None).case())


def by_channel(channels: int, kernel: int, stride: int, height: int, width: int) -> Layer:
    """A depthwise layer of bytes whose reals reach from far below 0 to beyond the grid's end."""
    rng = np.random.default_rng(channels)
    pad = kernel // 2
    window = {"strides": (stride, stride), "pads": (pad,) * 4, "groups": channels}
    weight = rng.integers(-128, 128, (channels, kernel, kernel, 1)).astype(np.int8)
    return Layer(
        rng.integers(0, 256, (1, channels, height, width)).astype(np.uint8), weight, zero=77, window=window,
        multiplier=(rng.uniform(0.5, 1.5, channels) * 2**-13 / kernel).astype(np.float32),
        bias=rng.standard_normal(channels).astype(np.float32),
        y=Codes(float(np.float32(0.02)), 11, False, 0, 255),
    )  # fmt: skip


@pytest.mark.parametrize("channels", [16, 24, 64, 152])
@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("function", ["silu", "hard_swish", "gelu"])
def test_functions_behind_depthwise_layers(channels: int, kernel: int, stride: int, function: str) -> None:
    """Blocks of 16, 32 and 64 lanes, whole and not."""
    plain = by_channel(channels, kernel, stride, 9, 83)
    plain.options = {"activation": function}
    check(plain.case(), moves=False)
    same = np.full(channels, 0.75, np.float32)
    check(replace(plain, channels={"factors": same, "offsets": same}).case(), moves=False)


@pytest.mark.parametrize("numbers", ["none", "one", "each"])
@pytest.mark.parametrize("channels", [1, 3, 5, 16, 24, 48, 64, 200])
def test_epilogues_of_depthwise_layers(channels: int, numbers: str) -> None:
    """Functions, slopes and gains, with a residual and without, to codes and to floats; neighbouring pixels
    of few channels are worked on together."""
    rng = np.random.default_rng(channels)
    count = {"none": 0, "one": 1, "each": channels}[numbers]
    per_channel = {
        n: rng.uniform(-1, 2, count).astype(np.float32) for n in ("factors", "offsets", "gain", "shift")
    }
    for function in ("silu", "hard_swish", ""):
        drawn = by_channel(channels, 3, 1, 5, 64)
        used = per_channel if function else {"gain": per_channel["gain"], "slope": per_channel["offsets"]}
        drawn.channels = used if count else {}
        drawn.options = {"activation": function}
        for whole in (drawn, drawn.with_residual(rng, 0.01, 9)):
            check(whole.case(), moves=False)
            check(replace(whole, y=None).case(), moves=False)


@pytest.mark.parametrize("multiplier", [2.0**60, -(2.0**60), 2.0**-3])
@pytest.mark.parametrize("weight", [127, -128])
@pytest.mark.parametrize("high", [127, 255])
def test_depthwise_layers_saturate_and_take_extreme_weights(
    multiplier: float, weight: int, high: int
) -> None:
    saturated = Layer(
        np.full((1, 40, 6, 6), high, np.uint8), np.full((40, 3, 3, 1), weight, np.int8), high=high,
        window={"groups": 40}, multiplier=np.full(40, multiplier, np.float32), bias=np.ones(40, np.float32),
        integer_bias=np.zeros(40, np.int32), y=Codes(1.0, 100, False, 0, 255),
        options={"low": 3, "high": 250},
    ).case()  # fmt: skip
    assert (saturated.want["y"] == (250 if (multiplier > 0) == (weight > 0) else 3)).all()
    check(saturated)

"""Inliers in 16-bit sums and outliers apart: for which weights, for any bytes, and in a damaged plan."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernels.convolutions import Layer, assert_equal

from intact import kernels
from intact.kernels import gemm
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.program import ARENA, View

GROUPING = "gemm_avx2"
HEADER = PANEL = 64
"""Bytes, as csrc/kernels/gemm/packed.h has them."""

pytestmark = pytest.mark.skipif(
    GROUPING not in [k.name for k in kernels.kernel_list() if k.available], reason="needs AVX2"
)


def evenly_spread(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def grouping(packed: np.ndarray) -> int:
    """1: groups that hold all bytes, or words; 2: groups that hold inliers."""
    return int(packed.view(np.int32)[2])


def test_weights_that_groups_would_split_are_grouped_for_inliers(rng):
    weight = evenly_spread(rng, (96, 1, 1, 256))
    packed = gemm.pack(weight, high=255, kernel=GROUPING)
    *groups, words = gemm.steps_by_group(packed, GROUPING)
    assert (grouping(packed), sum(groups), words) == (2, 6 * 64, 0)
    for other, high in (weight // 16, 255), (weight, 127):
        packed = gemm.pack(other, high=high, kernel=GROUPING)
        assert grouping(packed) == 1, "sums hold all bytes"
        assert gemm.steps_by_group(packed, GROUPING)[-1] == 0


@pytest.mark.parametrize("zero", [0, 40, 139, 255])
@pytest.mark.parametrize("share", [0, 0.003, 0.03, 0.5, 1])
def test_any_number_of_bytes_may_be_outliers(rng, share, zero):
    """No byte, a few, and so many that rows become words; of both signs; in the halo, too."""
    x = np.clip(rng.normal(zero, 20, (1, 256, 3, 17)), zero - 63, zero + 63)
    x = np.where(rng.random(x.shape) < share, rng.integers(0, 256, x.shape), x)
    conv_layer = Layer(np.clip(x, 0, 255).astype(np.uint8), evenly_spread(rng, (104, 1, 1, 256)), zero=zero)
    assert grouping(gemm.pack(conv_layer.weight, high=255, kernel=GROUPING)) == 2
    assert_equal(conv_layer, GROUPING)
    conv_layer.zero = 255 - zero  # not where the bytes are
    assert_equal(conv_layer, GROUPING)


@pytest.mark.parametrize("extreme", [-128, 127])
@pytest.mark.parametrize("byte", [0, 127, 128, 255])
def test_excesses_at_their_ends(byte, extreme):
    """The largest products of inliers and of excesses, wherever the inliers are, fit their sums."""
    weight = np.tile(np.int8([extreme, 0, 0, 0, extreme, extreme, 0, 0]), (96, 1, 1, 64))
    for zero in 0, 128, 255:
        x = np.full((1, 512, 2, 9), zero, np.uint8)
        x[:, 4:10, 1], x[:, 500, 0, ::3] = byte, byte
        conv_layer = Layer(x, weight, zero=zero)
        assert grouping(gemm.pack(weight, high=255, kernel=GROUPING)) == 2
        assert_equal(conv_layer, GROUPING)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("c", "kernel", "more"),
    [
        (228, 1, {}),
        (36, 3, {"pads": (1, 1, 1, 1)}),
        (36, 3, {"strides": (2, 1), "gap": 3}),
        (64, 3, {"dilations": (1, 2), "pads": (0, 2, 1, 1)}),
        (480, 1, {"groups": 2}),
    ],
)
def test_any_window(rng, c, kernel, more, threads):
    """Runs of any length, joined or not; panels of 8 and of 16 channels, and of several groups."""
    x = np.where(rng.random((2, c, 7, 9)) < 0.01, 255, rng.integers(0, 100, (2, c, 7, 9))).astype(np.uint8)
    groups = more.get("groups", 1)
    conv_layer = Layer(x, evenly_spread(rng, (200, kernel, kernel, c // groups)), threads=threads, **more)
    joined = groups == 1 and "dilations" not in more and "gap" not in more
    packed = gemm.pack(conv_layer.weight, high=255, groups=groups, joined=joined, kernel=GROUPING)
    assert grouping(packed) == 2
    assert_equal(conv_layer, GROUPING)


@pytest.mark.parametrize("damage", ["twice", "bytes", "groups"])
def test_steps_that_are_not_the_window_are_refused(rng, damage):
    """A step that a panel lacks would have no place: outliers would be multiplied by what lies elsewhere."""
    packed = gemm.pack(evenly_spread(rng, (96, 1, 1, 256)), high=255, kernel=GROUPING)
    numbers = packed.view(np.int32)
    if damage == "twice":
        numbers[(HEADER + 6 * PANEL) // 4] = numbers[(HEADER + 6 * PANEL) // 4 + 1]
    elif damage == "bytes":
        numbers[9] = 127  # the header's largest byte
    else:
        numbers[HEADER // 4 + 8 : HEADER // 4 + 16] = 0
    x = View(ARENA, 0, "uint8", (1, 1, 4, 256), (1024, 1024, 256, 1), holds=(0, 100))
    y = View(ARENA, 2048, "uint8", (1, 1, 4, 96), (384, 384, 96, 1))
    ones = np.ones(96, np.float32)
    with pytest.raises(ValueError, match=r"steps are damaged|another kernel"):
        gemm.conv(x, y, packed, BoundEpilogue(ones, ones, np.zeros(96, np.int32)), kernel=GROUPING)

"""Every kernel of family "gemm" against numerics, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.kernels.convolutions import WEIGHTS, Layer, assert_equal, layer, layers, widen

from intact import kernels, numerics
from intact.kernels import gemm
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.program import ARENA, View


@settings(max_examples=60, deadline=None)
@given(conv_layer=layers())
def test_any_convolution(gemm_kernel, conv_layer):
    assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("high", [127, 255])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_weights_at_their_ends(gemm_kernel, weights, high):
    rng = np.random.default_rng(3)
    assert_equal(layer(rng, c=64, out=40, high=high, weights=weights, zero=high // 2), gemm_kernel)


@pytest.mark.parametrize("pixels", [1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 49, 128])
def test_matrices_of_any_height(gemm_kernel, pixels):
    rng = np.random.default_rng(pixels)
    assert_equal(layer(rng, c=48, h=1, w=pixels, out=80, kernel=(1, 1)), gemm_kernel)


@pytest.mark.parametrize("out", [1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 129])
def test_any_number_of_channels(gemm_kernel, out):
    rng = np.random.default_rng(out)
    conv_layer = layer(rng, c=20, h=4, w=4, out=out, kernel=(1, 1))
    conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
    conv_layer.residual_multiplier = 0.25
    assert_equal(conv_layer, gemm_kernel)
    conv_layer.slopes = rng.uniform(-1, 2, out).astype(np.float32)
    assert_equal(conv_layer, gemm_kernel)
    conv_layer.residual = None
    assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("epilogue", ["shifted", "plain", "residual", "plain residual"])
@pytest.mark.parametrize("out", [112, 16, 5, 32, 27])
@pytest.mark.parametrize("inputs", [8, 12, 20, 64, 300, 516])
def test_whole_panels(gemm_kernel, inputs, out, epilogue):
    """Panels of 16 to 64 channels, of which all exist or some, any size of weights, any height of tile;
    residuals are overwritten."""
    rng = np.random.default_rng(inputs)
    for pixels in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 24, 29, 50):
        conv_layer = layer(rng, c=inputs, h=1, w=pixels, out=out, kernel=(1, 1), zero=5, bounds=(0, 201))
        if "residual" in epilogue:
            conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
            conv_layer.residual_multiplier, conv_layer.in_place = 0.37, True
        if "plain" not in epilogue:
            conv_layer.zero_point, conv_layer.bounds, conv_layer.residual_zero = 9, (3, 250), 128
        assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("ends", ["inside", "saturated"])
@pytest.mark.parametrize("weights", ["random", "gaussian", "small, large"])
def test_tiles_end_where_they_are_summed(gemm_kernel, weights, ends):
    """Panels of 8 and of 16 channels, of words, of groups in one part and in several, and both side by side;
    any height of tile, one row, residuals; reals beyond both ends of the grid, zero points at its ends."""
    rng = np.random.default_rng(8)
    for inputs, pixels in (4, 13), (12, 1), (20, 2), (24, 3), (36, 5), (64, 6), (100, 29), (1300, 27):
        for zero_point, residual_zero in (0, 0), (255, 255), (3, 0):
            conv_layer = layer(rng, c=inputs, h=1, w=pixels, out=40, kernel=(1, 1), weights=weights, zero=77)
            conv_layer.zero_point, conv_layer.bounds = (
                zero_point,
                (0, 255) if zero_point in (0, 255) else (9, 240),
            )
            if ends == "saturated":
                conv_layer.multiplier = (
                    np.where(np.arange(40) % 2, 50, -50).astype(np.float32) * conv_layer.multiplier
                )
            assert_equal(conv_layer, gemm_kernel)
            conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
            conv_layer.residual_multiplier, conv_layer.residual_zero = 0.37, residual_zero
            conv_layer.in_place = True
            assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("taps", [5, 7])
def test_whole_panels_of_windows(gemm_kernel, taps):
    """Steps in several runs, with fewer or more in the first than the sums of few rows need."""
    rng = np.random.default_rng(taps)
    assert_equal(layer(rng, c=3, h=9, w=17, out=112, kernel=(taps, taps), high=127), gemm_kernel)


def test_blocks_of_no_round_height(gemm_kernel):
    """Many pixels and few products: blocks as large as they get, of every width of panel."""
    rng = np.random.default_rng(5)
    for out in (16, 32, 48, 64):
        conv_layer = layer(rng, c=4, h=29, w=40, out=out, kernel=(1, 1))
        assert_equal(conv_layer, gemm_kernel)


def test_multipliers_that_prove_nothing(gemm_kernel):
    """Reals far beyond the grid and beyond int32 saturate; negative gains too."""
    rng = np.random.default_rng(0)
    multiplier = np.array([1e20, -1e20, 3.5, -3.5, 2**-20, 0, 1e-30, 0.5], np.float32)
    bias = np.array([0, 0, 1e25, -1e25, 1, 2, 0.5, -0.5], np.float32)
    for zero_point in (0, 3, 255):
        conv_layer = layer(
            rng, out=8, multiplier=multiplier, bias=bias, zero_point=zero_point, bounds=(2, 250)
        )
        assert_equal(conv_layer, gemm_kernel)
    slopes = np.float32([1e30, 3, -1e30, 0.1, 1e9, 1e-9, 0, -1])
    assert_equal(layer(rng, out=8, multiplier=multiplier, bias=bias, slopes=slopes), gemm_kernel)
    assert_equal(layer(rng, out=8, slopes=slopes), gemm_kernel)  # a slope alone leaves the bound


def test_ties_go_to_even(gemm_kernel):
    x = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8)
    weight = np.ones((16, 1, 1, 1), np.int8)
    half = np.full(16, 0.5, np.float32)
    none = np.zeros(16)
    conv_layer = Layer(
        x, weight, multiplier=half, bias=none, integer_bias=none.astype(np.int32), zero_point=1
    )
    assert_equal(conv_layer, gemm_kernel)


def test_a_large_layer_in_many_items(gemm_kernel):
    rng = np.random.default_rng(9)
    conv_layer = layer(rng, n=2, c=256, h=14, w=14, out=192, pads=(1, 1, 1, 1), weights="gaussian", high=127)
    assert_equal(conv_layer, gemm_kernel)


@settings(max_examples=60, deadline=None)
@given(conv_layer=layers(tiles=True))
def test_any_convolution_by_winograd(winograd_kernel, conv_layer):
    assert_equal(conv_layer, winograd_kernel)


@pytest.mark.parametrize("high", [127, 255])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_transforms_at_their_ends(winograd_kernel, weights, high):
    """The largest transformed inputs and weights fit 16 bits; sums of their products wrap."""
    rng = np.random.default_rng(3)
    conv_layer = layer(
        rng, c=96, h=9, w=10, out=40, high=high, weights=weights, zero=high // 2, pads=(1, 1, 1, 1)
    )
    assert_equal(conv_layer, winograd_kernel)


@pytest.mark.parametrize(("out", "size"), [(64, 56), (192, 14), (129, 21)])
def test_tiles_of_large_layers_in_many_items(winograd_kernel, out, size):
    rng = np.random.default_rng(9)
    conv_layer = layer(
        rng, n=2, c=32, h=size, w=size, out=out, pads=(1, 1, 1, 1), weights="gaussian", high=127
    )
    conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
    conv_layer.residual_multiplier = 0.25
    assert_equal(conv_layer, winograd_kernel)


def test_winograd_only_where_it_is_proved_exact():
    """Outputs have to stay below 2^25: 512 channels of full weights and bytes do not."""
    most = np.full((8, 3, 3, 512), 127, np.int8)
    assert not gemm.winograd_fits(most, high=255)
    assert not gemm.winograd_fits(-most, high=255)
    assert gemm.winograd_fits(most, high=57) and not gemm.winograd_fits(most, high=58)
    assert not gemm.winograd_fits(np.zeros((8, 3, 3, 48), np.int8), high=1)
    with pytest.raises(ValueError, match="do not fit"):
        gemm.pack_winograd(most, high=255)


def test_the_largest_output_that_winograd_may_reach(winograd_kernel):
    x, weight = np.full((1, 512, 6, 6), 57, np.uint8), np.full((16, 3, 3, 512), 127, np.int8)
    scale, none = np.full(16, 2**-18, np.float32), np.zeros(16)
    conv_layer = Layer(x, weight, high=57, floats=True, multiplier=scale, bias=none.astype(np.float32))
    assert conv_layer.reference().max() > 0.99 * 2**25 * 2**-18
    assert_equal(conv_layer, winograd_kernel)


@pytest.mark.parametrize(
    "shape", [(0, 3, 3, 32), (8, 3, 3, 0), (8, 0, 3, 4), (8, 3, 0, 4), (0, 0, 0, 0)], ids=str
)
def test_weights_without_elements_are_refused(gemm_kernel, shape):
    """Sizes that something is divided by: 0 output channels ended the process."""
    weight = np.zeros(shape, np.int8)
    with pytest.raises(ValueError, match="out of range"):
        gemm.pack(weight, high=255, kernel=gemm_kernel)
    for groups in (0, -1, 3):
        with pytest.raises(ValueError, match=r"out of range|do not divide"):
            gemm.pack(np.zeros((8, 1, 1, 4), np.int8), high=255, groups=groups, kernel=gemm_kernel)
    if shape[1:3] == (3, 3):
        assert not gemm.winograd_fits(weight, high=255)
        with pytest.raises(ValueError, match="do not fit"):
            gemm.pack_winograd(weight, high=255)


@pytest.mark.parametrize("shape", [(1, 56, 56, 0), (0, 56, 56, 64), (1, 0, 56, 64), (1, 56, 0, 64)], ids=str)
def test_winograd_never_pays_for_nothing(shape):
    _, h, w, out = shape
    y = View(ARENA, 0, "uint8", shape, (h * w * out, w * out, out, 1))
    for kernel in (k.name for k in kernels.kernel_list() if k.family == gemm.WINOGRAD and k.available):
        assert not gemm.winograd_pays(y, 64, kernel=kernel)
        assert not gemm.winograd_pays(square(1, 56, 64), 0, kernel=kernel)
        for threads in (0, -1):
            assert not gemm.winograd_pays(square(1, 56, 64), 64, threads=threads, kernel=kernel)


def test_winograd_where_it_pays():
    """A cost model decides: many outputs for each weight, and channels enough for the transforms."""

    def pays(size: int, channels: int, direct: str = "gemm_ref") -> bool:
        return gemm.winograd_pays(square(1, size, channels), channels, direct=direct)

    kernel = next(k.name for k in kernels.kernel_list() if k.family == gemm.WINOGRAD and k.chosen)
    assert (pays(56, 64) and pays(28, 128)) == (kernel != "winograd_ref")
    assert not pays(7, 512) and not pays(56, 16) and not pays(1, 64)
    if kernels.cpu_features()["amx"]:
        assert not pays(56, 64, "gemm_amx")


def square(n: int, size: int, channels: int) -> View:
    row = size * channels
    return View(ARENA, 0, "uint8", (n, size, size, channels), (size * row, row, channels, 1))


@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("channels", [12, 24, 40, 96, 132])
def test_windows_whose_rows_end_within_a_tile(gemm_kernel, channels, kernel, gap):
    """Pixels behind a row of the window, in the image, are no part of the sum."""
    rng = np.random.default_rng(channels)
    conv_layer = layer(rng, c=channels, h=11, w=13, n=2, out=40, kernel=kernel, zero=7)
    conv_layer.pads, conv_layer.gap = (kernel[0] // 2, kernel[1] // 2) * 2, gap
    assert_equal(conv_layer, gemm_kernel)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("zero", [0, 32768, 65535, 12345])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_codes_of_16_bits(gemm_kernel, weights, zero):
    """Int16 with zero point 0 (here 32768), and uint16: whole blocks, windows that are gathered and that lie
    in the image, and what is left over."""
    rng = np.random.default_rng(zero)
    for c, h, w, out, kernel in (64, 6, 8, 64, 1), (64, 7, 9, 32, 3), (20, 9, 11, 33, 3), (3, 5, 4, 7, 2):
        conv_layer = layer(rng, c=c, h=h, w=w, out=out, kernel=(kernel, kernel), weights=weights)
        conv_layer.pads = (kernel // 2,) * 4
        widen(conv_layer, rng, zero)
        assert_equal(conv_layer, gemm_kernel)
        conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
        conv_layer.residual_multiplier, conv_layer.in_place = 0.37, True
        assert_equal(conv_layer, gemm_kernel)
        conv_layer.zero_point, conv_layer.bounds, conv_layer.residual_zero = 9, (3, 250), 128
        assert_equal(conv_layer, gemm_kernel)
        conv_layer.residual, conv_layer.floats = None, True
        assert_equal(conv_layer, gemm_kernel)


@pytest.mark.parametrize("pixels", [1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 100])
def test_matrices_of_16_bits_of_any_height(gemm_kernel, pixels):
    rng = np.random.default_rng(pixels)
    for c, out in (64, 96), (200, 48), (36, 17):
        conv_layer = widen(layer(rng, c=c, h=1, w=pixels, out=out, kernel=(1, 1)), rng, 32768)
        assert_equal(conv_layer, gemm_kernel)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("zero", [0, 65535])
def test_sums_of_16_bits_at_the_edge_of_int32(gemm_kernel, zero, sign):
    """The largest that are proved to fit: sums of high bytes times 256 wrap around on the way."""
    weight = np.full((48, 1, 1, 259), sign * 127, np.int8)
    weight[..., -1] = sign * 2
    assert 2**31 - 2**16 < 65535 * int(np.abs(weight[0].astype(np.int64)).sum()) < 2**31
    x = np.full((1, 259, 3, 17), 65535 - zero, np.uint16)
    conv_layer = Layer(x, weight, zero=zero, floats=True, integer_bias=np.zeros(48, np.int32))
    conv_layer.multiplier, conv_layer.bias = np.full(48, 2**-25, np.float32), np.zeros(48, np.float32)
    assert abs(conv_layer.reference()).min() > 63.9
    assert_equal(conv_layer, gemm_kernel)


def test_low_bytes_lie_as_the_high_ones(gemm_kernel):
    conv_layer = layer(np.random.default_rng(0), c=8)
    packed = gemm.pack(conv_layer.weight, high=255, kernel=gemm_kernel)
    channels = conv_layer.weight.shape[0]
    plain = np.ones(channels, np.float32)
    epilogue = BoundEpilogue(plain, plain, np.zeros(channels, np.int32))
    x, y = square(1, 6, 8), square(1, 4, channels)
    none = np.zeros(channels, np.int32)
    gemm.conv(x, y, packed, epilogue, low=gemm.LowBytes(x, 7, none), kernel=gemm_kernel)
    for other in (square(1, 7, 8), square(1, 6, 4), square(2, 6, 8)):
        with pytest.raises(ValueError, match=r"sizes|lie as the high"):
            gemm.conv(x, y, packed, epilogue, low=gemm.LowBytes(other, 0, none), kernel=gemm_kernel)
    for low in gemm.LowBytes(x, 8, none), gemm.LowBytes(x, -1, none), gemm.LowBytes(x, 0, none[1:]):
        with pytest.raises(ValueError, match=r"rounded to multiples|correction of high bytes"):
            gemm.conv(x, y, packed, epilogue, low=low, kernel=gemm_kernel)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("zero", [0, 32768, 65535])
@pytest.mark.parametrize("shift", range(1, 8))
def test_joined_sums_are_rounded(gemm_kernel, shift, zero):
    """Half a unit goes up; what exact sums would need more than 32 bits for is rounded, not lost."""
    rng = np.random.default_rng(shift)
    for c, kernel in (20, (3, 3)), (1100, (1, 1)):
        conv_layer = widen(layer(rng, c=c, h=5, w=7, out=40, kernel=kernel), rng, zero)
        conv_layer.shift = shift
        assert_equal(conv_layer, gemm_kernel)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [300, 5000, 33_000])
def test_joined_sums_need_no_more_than_32_bits(gemm_kernel, size, sign):
    weight = np.full((40, 1, 1, size), 127 * sign, np.int8)
    conv_layer = Layer(np.full((1, size, 2, 9), 65535, np.uint16), weight, floats=True)
    conv_layer.integer_bias = np.zeros(40, np.int32)
    conv_layer.shift = numerics.shift_of_sums(numerics.accumulator_bound(weight, (0, 65535), 0))
    assert 1 <= conv_layer.shift <= 7
    assert (
        2**30
        <= np.abs(numerics.join_sums(*conv_layer.both_sums(), conv_layer.shift).astype(np.int64)).min()
        < 2**31
    )
    assert_equal(conv_layer, gemm_kernel)

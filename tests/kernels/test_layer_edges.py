"""Convolutions of codes where kernels change their way: sizes, weights and epilogues at their ends.

Each case runs on every kernel of families "gemm" and, where it takes it, "winograd".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kernels.kinds.draw import POSITIVE
from tests.kernels.kinds.layers import BYTES, WEIGHTS, Layer, layer, widen
from tests.one_step import check, forms

from intact import numerics
from intact.engine.steps import Codes
from intact.kernels import kernel_list

PLAIN = {"multiplier": np.full(16, 0.5, np.float32), "bias": np.zeros(16, np.float32)}


def grid(zero: int) -> Codes:
    """Codes of step 1."""
    return Codes(1.0, zero, False, 0, 255)


@pytest.mark.parametrize("high", [127, 255])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_weights_at_their_ends(weights: str, high: int) -> None:
    """Of Winograd's form, too: the largest transformed inputs and weights fit 16 bits; their sums wrap."""
    rng = np.random.default_rng(3)
    more = {"high": high, "weights": weights, "zero": high // 2, "out": 40}
    check(layer(rng, c=64, **more).case())
    check(layer(rng, c=96, h=9, w=10, window={"pads": (1, 1, 1, 1)}, **more).case())


@pytest.mark.parametrize("pixels", [1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 49, 128])
def test_matrices_of_any_height(pixels: int) -> None:
    check(layer(np.random.default_rng(pixels), c=48, h=1, w=pixels, out=80, kernel=(1, 1)).case())


@pytest.mark.parametrize("out", [1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 129])
def test_any_number_of_channels(out: int) -> None:
    rng = np.random.default_rng(out)
    plain = layer(rng, c=20, h=4, w=4, out=out, kernel=(1, 1))
    check(plain.with_residual(rng).case(), moves=False)
    sloped = replace(plain, channels={"slope": rng.uniform(-1, 2, out).astype(np.float32)})
    check(sloped.case(), moves=False)
    check(sloped.with_residual(rng).case(), moves=False)


@pytest.mark.parametrize("epilogue", ["shifted", "plain", "residual", "plain residual"])
@pytest.mark.parametrize("out", [112, 16, 5, 32, 27])
def test_whole_panels(out: int, epilogue: str) -> None:
    """Panels of 16 to 64 channels, of which all exist or some, any size of weights, any height of tile."""
    rng = np.random.default_rng(out)
    for inputs in (8, 12, 20, 64, 300, 516):
        for pixels in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 24, 29, 50):
            drawn = layer(rng, c=inputs, h=1, w=pixels, out=out, kernel=(1, 1), zero=5)
            drawn.options = {"low": 0, "high": 201} if "plain" in epilogue else {"low": 3, "high": 250}
            drawn.y = BYTES if "plain" in epilogue else grid(9)
            if "residual" in epilogue:
                drawn = drawn.with_residual(rng, zero=0 if "plain" in epilogue else 128)
            check(drawn.case(), moves=False)


@pytest.mark.parametrize("ends", ["inside", "saturated"])
@pytest.mark.parametrize("weights", ["random", "gaussian", "small, large"])
def test_tiles_end_where_they_are_summed(weights: str, ends: str) -> None:
    """Panels of 8 and of 16 channels, of words, of groups in one part and in several, and both side by side;
    any height of tile, one row, residuals; reals beyond both ends of the grid, zero points at its ends."""
    rng = np.random.default_rng(8)
    for inputs, pixels in (4, 13), (12, 1), (20, 2), (24, 3), (36, 5), (64, 6), (100, 29), (1300, 27):
        for zero, residual_zero in (0, 0), (255, 255), (3, 0):
            drawn = layer(rng, c=inputs, h=1, w=pixels, out=40, kernel=(1, 1), weights=weights, zero=77)
            drawn.y = grid(zero)
            drawn.options = {} if zero in (0, 255) else {"low": 9, "high": 240}
            if ends == "saturated":
                assert drawn.multiplier is not None
                drawn.multiplier = np.where(np.arange(40) % 2, 50, -50).astype(np.float32) * drawn.multiplier
            check(drawn.case(), moves=False)
            check(drawn.with_residual(rng, zero=residual_zero).case(), moves=False)


@pytest.mark.parametrize("taps", [5, 7])
def test_whole_panels_of_windows(taps: int) -> None:
    """Steps in several runs, with fewer or more in the first than the sums of few rows need."""
    check(layer(np.random.default_rng(taps), c=3, h=9, w=17, out=112, kernel=(taps, taps), high=127).case())


@pytest.mark.parametrize("kernel", [(3, 3), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("channels", [12, 24, 40, 96, 132])
def test_windows_whose_rows_end_within_a_tile(channels: int, kernel: tuple[int, int]) -> None:
    """Pixels behind a row of the window, in the image, are no part of the sum."""
    window = {"pads": (kernel[0] // 2, kernel[1] // 2) * 2}
    rng = np.random.default_rng(channels)
    check(layer(rng, c=channels, h=11, w=13, n=2, out=40, kernel=kernel, zero=7, window=window).case())


def test_blocks_of_no_round_height() -> None:
    """Many pixels and few products: blocks as large as they get, of every width of panel."""
    rng = np.random.default_rng(5)
    for out in (16, 32, 48, 64):
        check(layer(rng, c=4, h=29, w=40, out=out, kernel=(1, 1)).case(), moves=False)


@pytest.mark.parametrize(
    ("n", "c", "size", "out"), [(2, 256, 14, 192), (2, 32, 56, 64), (2, 32, 14, 192), (2, 32, 21, 129)]
)
def test_large_layers_in_many_items(n: int, c: int, size: int, out: int) -> None:
    rng = np.random.default_rng(9)
    window = {"pads": (1, 1, 1, 1)}
    large = layer(rng, n=n, c=c, h=size, w=size, out=out, window=window, weights="gaussian", high=127)
    check(large.with_residual(rng, 0.25).case(), moves=False)


def test_multipliers_that_prove_nothing() -> None:
    """Reals far beyond the grid and beyond int32 saturate; negative gains too."""
    rng = np.random.default_rng(0)
    far = {
        "multiplier": np.array([1e20, -1e20, 3.5, -3.5, 2**-20, 0, 1e-30, 0.5], np.float32),
        "bias": np.array([0, 0, 1e25, -1e25, 1, 2, 0.5, -0.5], np.float32),
    }
    for zero in (0, 3, 255):
        check(layer(rng, out=8, **far, y=grid(zero), options={"low": 2, "high": 250}).case(), moves=False)
    slope = {"slope": np.float32([1e30, 3, -1e30, 0.1, 1e9, 1e-9, 0, -1])}
    check(layer(rng, out=8, **far, channels=slope).case(), moves=False)
    check(layer(rng, out=8, channels=slope).case(), moves=False)  # a slope alone leaves the bound


def test_ties_go_to_even() -> None:
    x, weight = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8), np.ones((16, 1, 1, 1), np.int8)
    check(Layer(x, weight, **PLAIN, integer_bias=np.zeros(16, np.int32), y=grid(1)).case())


def test_winograd_only_where_it_is_proved_exact() -> None:
    """Outputs have to stay below 2^25: 512 channels of full weights and bytes do not."""
    most = np.full((8, 3, 3, 512), 127, np.int8)
    x = np.zeros((1, 512, 30, 30), np.uint8)
    for weight, high, fits in ((most, 255, False), (-most, 255, False), (most, 57, True), (most, 58, False)):
        case = Layer(x, weight, high=high).case()
        for kernel in winograd_kernels():
            runs = forms(case, trial=kernel, INTACT_FORCE_KERNEL=kernel)
            assert (runs == {kernel}) == fits, (high, kernel)
        check(case, moves=False, threads=(1,))


def test_the_largest_output_that_winograd_may_reach() -> None:
    x, weight = np.full((1, 512, 6, 6), 57, np.uint8), np.full((16, 3, 3, 512), 127, np.int8)
    constants = {"multiplier": np.full(16, 2**-18, np.float32), "bias": np.zeros(16, np.float32)}
    case = Layer(x, weight, high=57, y=None, **constants).case()
    assert case.want["y"].max() > 0.99 * 2**25 * 2**-18
    check(case)


def test_winograd_where_it_pays() -> None:
    """A cost model decides: many outputs for each weight, and channels enough for the transforms."""

    def has_tiles(size: int, channels: int, **settings: str) -> bool:
        rng = np.random.default_rng(0)
        window = {"pads": (1, 1, 1, 1)}
        drawn = layer(rng, c=channels, h=size, w=size, out=channels, window=window, weights="zero")
        return any("winograd" in form for form in forms(drawn.case(), **settings))

    assert not has_tiles(56, 64, INTACT_MAX_ISA="none")
    best = [k for k in winograd_kernels() if k != "winograd_ref"]
    plain = {"INTACT_FORCE_KERNEL": ",".join(["gemm_ref", *best[:1]])}
    assert (has_tiles(56, 64, **plain) and has_tiles(28, 128, **plain)) or not best
    assert not has_tiles(7, 512, **plain) and not has_tiles(56, 16, **plain) and not has_tiles(1, 64, **plain)


def winograd_kernels() -> list[str]:
    """The kernels of Winograd's form that this machine runs, best first."""
    return [k.name for k in kernel_list() if k.family == "winograd" and k.available]


@pytest.mark.rule("N62")
@pytest.mark.parametrize("zero", [0, 32768, 65535, 12345])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_codes_of_16_bits(weights: str, zero: int) -> None:
    """Int16 with zero point 0 (here 32768), and uint16: whole blocks, windows that are gathered and that lie
    in the image, and what is left over."""
    rng = np.random.default_rng(zero)
    for c, h, w, out, kernel in (64, 6, 8, 64, 1), (64, 7, 9, 32, 3), (20, 9, 11, 33, 3), (3, 5, 4, 7, 2):
        window = {"pads": (kernel // 2,) * 4}
        drawn = layer(rng, c=c, h=h, w=w, out=out, kernel=(kernel, kernel), weights=weights, window=window)
        wide = widen(drawn, rng, zero)
        check(wide.case(), moves=False)
        check(wide.with_residual(rng).case(), moves=False)
        check(replace(wide, y=None).case(), moves=False)


@pytest.mark.parametrize("pixels", [1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 100])
def test_matrices_of_16_bits_of_any_height(pixels: int) -> None:
    rng = np.random.default_rng(pixels)
    for c, out in (64, 96), (200, 48), (36, 17):
        check(widen(layer(rng, c=c, h=1, w=pixels, out=out, kernel=(1, 1)), rng, 32768).case(), moves=False)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("zero", [0, 65535])
def test_sums_of_16_bits_at_the_edge_of_int32(zero: int, sign: int) -> None:
    """The largest that are proved to fit: sums of high bytes times 256 wrap around on the way."""
    weight = np.full((48, 1, 1, 259), sign * 127, np.int8)
    weight[..., -1] = sign * 2
    assert 2**31 - 2**16 < 65535 * int(np.abs(weight[0].astype(np.int64)).sum()) < 2**31
    x = np.full((1, 259, 3, 17), 65535 - zero, np.uint16)
    constants = {"multiplier": np.full(48, 2**-25, np.float32), "bias": np.zeros(48, np.float32)}
    case = Layer(x, weight, zero=zero, y=None, integer_bias=np.zeros(48, np.int32), **constants).case()
    assert abs(case.want["y"]).min() > 63.9
    check(case)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("zero", [0, 32768, 65535])
@pytest.mark.parametrize("shift", range(1, 8))
def test_joined_sums_are_rounded(shift: int, zero: int) -> None:
    """Half a unit goes up; what exact sums would need more than 32 bits for is rounded, not lost."""
    rng = np.random.default_rng(shift)
    for c, kernel in (20, (3, 3)), (1100, (1, 1)):
        wide = widen(layer(rng, c=c, h=5, w=7, out=40, kernel=kernel), rng, zero)
        check(replace(wide, shift=shift).case(), moves=False)


@pytest.mark.rule("N62")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [300, 5000, 33_000])
def test_joined_sums_need_no_more_than_32_bits(size: int, sign: int) -> None:
    weight = np.full((40, 1, 1, size), 127 * sign, np.int8)
    shift = numerics.shift_of_sums(numerics.accumulator_bound(weight, (0, 65535), 0))
    assert 1 <= shift <= 7
    x = np.full((1, size, 2, 9), 65535, np.uint16)
    constants = {"multiplier": np.full(40, 2.0**-30, np.float32), "bias": np.zeros(40, np.float32)}
    case = Layer(x, weight, y=None, integer_bias=np.zeros(40, np.int32), shift=shift, **constants).case()
    assert 0.9 <= abs(case.want["y"]).min() < 2
    check(case, moves=False)


def test_codes_that_end_at_127() -> None:
    """Weights are packed otherwise where bytes are known to be small."""
    rng = np.random.default_rng(1)
    drawn = layer(rng, c=64, out=48, high=127, y=POSITIVE, options={"low": 0, "high": 127})
    check(drawn.case())

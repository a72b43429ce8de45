"""Every kernel of family "gemm" against numerics, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import kernels, numerics
from intact.kernels import gemm
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import ARENA, SLACK, NativeStep, Program, View
from intact.spec import QuantSpec

BYTES = QuantSpec("uint8")


@dataclass
class Layer:
    """A convolution of bytes; `pads` are (top, left, bottom, right)."""

    x: np.ndarray  # [n, c, h, w], bytes
    weight: np.ndarray  # [out, kernel_h, kernel_w, c / groups], int8
    zero: int = 0
    high: int = 255
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    multiplier: np.ndarray | None = None
    bias: np.ndarray | None = None
    integer_bias: np.ndarray | None = None
    zero_point: int = 0
    bounds: tuple[int, int] = (0, 255)
    residual: np.ndarray | None = None
    residual_multiplier: float = 0.0
    residual_zero: int = 0
    in_place: bool = False  # the output lies where the residual does
    floats: bool = False
    function: str = ""
    scale: float = 1.0
    factors: np.ndarray | None = None
    slopes: np.ndarray | None = None
    offsets: np.ndarray | None = None
    gap: int = 0  # bytes between the pixels of the input
    threads: int = 1

    def __post_init__(self) -> None:
        channels = self.weight.shape[0]
        taps = float(np.prod(self.weight.shape[1:]))
        spread = np.float32(1 / (64 * np.sqrt(taps) * 40))
        if self.multiplier is None:
            self.multiplier = (spread * (1 + np.arange(channels) % 3)).astype(np.float32)
        if self.bias is None:
            self.bias = np.linspace(-9, 40, channels).astype(np.float32)
        if self.integer_bias is None:
            self.integer_bias = (np.arange(channels) * 37 % 1001 - 500).astype(np.int32)

    def expected(self) -> np.ndarray:
        """By numerics, [n, out, h, w]."""
        acc = numerics.conv(
            self.x,
            np.moveaxis(self.weight, 3, 1),
            self.zero,
            bias=self.integer_bias,
            stride=self.strides,
            padding=((self.pads[0], self.pads[2]), (self.pads[1], self.pads[3])),
            dilation=self.dilations,
            groups=self.groups,
        )
        residual = None
        if self.residual is not None:
            residual = numerics.Residual(
                self.residual, np.float32(self.residual_multiplier), self.residual_zero
            )
        if not self.floats and not self.function:
            return numerics.requantize(
                acc,
                self.multiplier,
                self.bias,
                self.zero_point,
                BYTES,
                residual=residual,
                slope=self.slopes,
                bounds=self.bounds,
            )
        real = numerics.to_real(acc, self.multiplier, self.bias)
        if residual is not None:
            branch = (self.residual.astype(np.int32) - self.residual_zero).astype(np.float32)
            real = real + branch * np.float32(self.residual_multiplier)
        if self.slopes is not None:
            real = numerics.sloped(real, self.slopes[:, None, None])
        if self.function:
            real = getattr(numerics, self.function)(real)
        if self.factors is not None:
            real = real * self.factors[:, None, None]
        if self.offsets is not None:
            real = real + self.offsets[:, None, None]
        if not self.floats:
            return np.clip(numerics.quantize(real, self.scale, self.zero_point, BYTES), *self.bounds)
        return np.clip(real, np.float32(self.bounds[0] - 100), np.float32(self.bounds[1] - 100))

    def run(self, kernel: str) -> np.ndarray:
        """By a native kernel, [n, out, h, w]; checks that nothing around the output is written."""
        shape = self.expected().shape
        arena = Arena()
        x = arena.image(self.x.shape, 1, self.pads, self.gap, self.high)
        y = arena.image(shape, 4 if self.floats else 1, (1, 2, 1, 3), 0)
        r = None if self.residual is None else y if self.in_place else arena.image(shape, 1, (0, 0, 0, 1), 3)
        correction = self.integer_bias - self.zero * self.weight.astype(np.int32).sum((1, 2, 3))
        low, high = self.bounds
        epilogue = BoundEpilogue(
            self.multiplier,
            self.bias,
            correction,
            None if self.floats else Bytes(self.zero_point, low, high),
            low=low - 100.0,
            high=high - 100.0,
            residual=r.view if r else None,
            residual_multiplier=self.residual_multiplier,
            residual_zero=self.residual_zero,
            function=self.function,
            scale=self.scale,
            factors=self.factors,
            slopes=self.slopes,
            offsets=self.offsets,
        )
        step = self.step(x.view, y.view, epilogue, kernel)
        program = Program()
        program.arena(arena.nbytes)
        program.add(step)
        context = program.take()
        memory = context.arena()
        memory[:] = 0xA5
        x.write(memory, self.x, self.zero)
        if r:
            r.write(memory, self.residual, 7)
        before = memory.copy()
        context.run(0, 1)
        got = y.read(memory).copy()
        y.read(memory)[:] = 0
        y.read(before)[:] = 0
        assert np.array_equal(memory, before), "wrote outside its output"
        return got

    def step(self, x: View, y: View, epilogue: BoundEpilogue, kernel: str) -> NativeStep:
        origin = (-self.pads[0], -self.pads[1])
        if kernel.startswith(gemm.WINOGRAD):
            packed = gemm.pack_winograd(self.weight, high=self.high, kernel=kernel)
            return gemm.winograd(x, y, packed, epilogue, origin=origin, threads=self.threads, kernel=kernel)
        joined = self.groups == 1 and self.dilations[1] == 1 and self.gap == 0
        packed = gemm.pack(self.weight, high=self.high, groups=self.groups, joined=joined, kernel=kernel)
        apart = {"strides": self.strides, "dilations": self.dilations}
        return gemm.conv(x, y, packed, epilogue, **apart, origin=origin, kernel=kernel)


class Image:
    """An image in the arena, channels last, with halo and gaps; `view` for the step."""

    def __init__(self, offset: int, shape, itemsize: int, halo, gap: int, high: int) -> None:
        n, c, h, w = shape
        top, left, bottom, right = halo
        pixel = c * itemsize + gap * itemsize
        row, plane = (w + left + right) * pixel, (h + top + bottom) * (w + left + right) * pixel
        self.shape, self.halo = shape, halo
        self.dtype = np.dtype(np.uint8 if itemsize == 1 else np.float32)
        self.strides = (plane, row, pixel, itemsize)
        self.first = offset + top * row + left * pixel
        self.outer = (offset, (n, h + top + bottom, w + left + right, c))
        self.end = offset + n * plane
        self.view = View(ARENA, self.first, self.dtype.name, (n, h, w, c), self.strides, halo, (0, high))

    def array(self, memory: np.ndarray, offset: int, sizes) -> np.ndarray:
        return np.ndarray(sizes, self.dtype, memory, offset, self.strides)

    def read(self, memory: np.ndarray) -> np.ndarray:
        n, c, h, w = self.shape
        return np.moveaxis(self.array(memory, self.first, (n, h, w, c)), 3, 1)

    def write(self, memory: np.ndarray, values: np.ndarray, zero: int) -> None:
        self.array(memory, *self.outer)[:] = zero
        self.read(memory)[:] = values


class Arena:
    """Images one behind the other."""

    def __init__(self) -> None:
        self.nbytes = 0

    def image(self, shape, itemsize: int, halo, gap: int, high: int = 255) -> Image:
        image = Image(self.nbytes, shape, itemsize, halo, gap, high)
        self.nbytes = -(-(image.end + SLACK) // 64) * 64
        return image


WEIGHTS = {
    "random": lambda rng, shape: rng.integers(-127, 128, shape),
    "gaussian": lambda rng, shape: np.clip(np.rint(rng.normal(0, 32, shape)), -127, 127),
    "all 127": lambda rng, shape: np.full(shape, 127),
    "all -128": lambda rng, shape: np.full(shape, -128),
    "alternating": lambda rng, shape: np.where(np.indices(shape).sum(0) % 2, 127, -128),
    "zero": lambda rng, shape: np.zeros(shape),
    "small, large": lambda rng, shape: (
        np.where(np.arange(shape[0]) % 32 < 16, 9, 127)[:, None, None, None] * rng.integers(-1, 2, shape)
    ),
}


def layer(rng, *, n=1, c=8, h=5, w=6, out=16, kernel=(3, 3), groups=1, high=255, weights="random", **more):
    x = rng.integers(0, high + 1, (n, c * groups, h, w)).astype(np.uint8)
    if weights.startswith("all") or weights == "alternating":
        x[:] = np.where(rng.random(x.shape) < 0.9, high, x)
    weight = WEIGHTS[weights](rng, (out * groups, *kernel, c)).astype(np.int8)
    return Layer(x, weight, high=high, groups=groups, **more)


@st.composite
def layers(draw, tiles=False):
    """Any convolution; with `tiles`, one that Winograd's form takes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    integer = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    ones = (1, 1)
    kernel = (3, 3) if tiles else (integer(1, 4), integer(1, 4))
    pads = tuple(integer(0, 2) for _ in range(4))
    dilations = ones if tiles else (integer(1, 2), integer(1, 2))
    sizes = [
        max((kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + 2], 1) + integer(0, 9) for i in range(2)
    ]
    floats, high = draw(st.booleans()), draw(st.sampled_from([1, 127, 200, 255]))
    low_bound = integer(0, 120)
    made = layer(
        rng,
        n=integer(1, 3),
        c=32 * integer(1, 3) if tiles else integer(1, 21),
        h=sizes[0],
        w=sizes[1],
        out=draw(st.sampled_from([1, 7, 8, 9, 16, 24, 33, 64, 65, 100, 144])),
        kernel=kernel,
        groups=1 if tiles else draw(st.sampled_from([1, 1, 2, 3])),
        high=high,
        weights=draw(st.sampled_from(sorted(WEIGHTS))),
        zero=integer(0, high),
        pads=pads,
        dilations=dilations,
        strides=ones if tiles else (integer(1, 3), integer(1, 3)),
        zero_point=integer(0, 255),
        bounds=(low_bound, integer(low_bound, 255)),
        floats=floats,
        gap=draw(st.sampled_from([0, 0, 5])),
        threads=draw(st.sampled_from([1, 2, 16])),
        function=draw(st.sampled_from(["", "", "gelu", "hard_swish", "sigmoid"])),
        scale=draw(st.sampled_from([0.25, float(np.float32(0.013))])),
    )
    for name in ("factors", "offsets") if made.function else ():  # none, one for all channels, one for each
        channels = draw(st.sampled_from([0, 1, made.weight.shape[0]]))
        numbers = np.resize(rng.uniform(-1, 2, channels).astype(np.float32), made.weight.shape[0])
        setattr(made, name, numbers if channels else None)
    if not made.function and draw(st.booleans()):
        made.slopes = rng.uniform(-1, 2, made.weight.shape[0]).astype(np.float32)
    if draw(st.booleans()):
        made.residual = rng.integers(0, 256, made.expected().shape).astype(np.uint8)
        made.residual_multiplier = float(np.float32(rng.uniform(-1, 1)))
        made.residual_zero = integer(0, 255)
    return made


def assert_equal(made: Layer, kernel: str) -> None:
    got, want = made.run(kernel), made.expected()
    np.testing.assert_array_equal(got, want)


@settings(max_examples=60, deadline=None)
@given(made=layers())
def test_any_convolution(gemm_kernel, made):
    assert_equal(made, gemm_kernel)


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
    made = layer(rng, c=20, h=4, w=4, out=out, kernel=(1, 1))
    made.residual = rng.integers(0, 256, made.expected().shape).astype(np.uint8)
    made.residual_multiplier = 0.25
    assert_equal(made, gemm_kernel)
    made.slopes = rng.uniform(-1, 2, out).astype(np.float32)
    assert_equal(made, gemm_kernel)
    made.residual = None
    assert_equal(made, gemm_kernel)


@pytest.mark.parametrize("epilogue", ["shifted", "plain", "residual", "plain residual"])
@pytest.mark.parametrize("inputs", [12, 20, 64, 300, 516])
def test_whole_panels(gemm_kernel, inputs, epilogue):
    """Panels of 48 and of 64 channels, any size of weights, any height of tile; residuals are overwritten."""
    rng = np.random.default_rng(inputs)
    for pixels in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 24, 29, 50):
        made = layer(rng, c=inputs, h=1, w=pixels, out=112, kernel=(1, 1), zero=5, bounds=(0, 201))
        if "residual" in epilogue:
            made.residual = rng.integers(0, 256, made.expected().shape).astype(np.uint8)
            made.residual_multiplier, made.in_place = 0.37, True
        if "plain" not in epilogue:
            made.zero_point, made.bounds, made.residual_zero = 9, (3, 250), 128
        assert_equal(made, gemm_kernel)


@pytest.mark.parametrize("taps", [5, 7])
def test_whole_panels_of_windows(gemm_kernel, taps):
    """Steps in several runs, with fewer or more in the first than the sums of few rows need."""
    rng = np.random.default_rng(taps)
    assert_equal(layer(rng, c=3, h=9, w=17, out=112, kernel=(taps, taps), high=127), gemm_kernel)


def test_blocks_of_no_round_height(gemm_kernel):
    """Many pixels and few products: blocks as large as they get, of every width of panel."""
    rng = np.random.default_rng(5)
    for out in (16, 32, 48, 64):
        made = layer(rng, c=4, h=29, w=40, out=out, kernel=(1, 1))
        assert_equal(made, gemm_kernel)


def test_multipliers_that_prove_nothing(gemm_kernel):
    """Reals far beyond the grid and beyond int32 saturate; negative gains too."""
    rng = np.random.default_rng(0)
    multiplier = np.array([1e20, -1e20, 3.5, -3.5, 2**-20, 0, 1e-30, 0.5], np.float32)
    bias = np.array([0, 0, 1e25, -1e25, 1, 2, 0.5, -0.5], np.float32)
    for zero_point in (0, 3, 255):
        made = layer(rng, out=8, multiplier=multiplier, bias=bias, zero_point=zero_point, bounds=(2, 250))
        assert_equal(made, gemm_kernel)
    slopes = np.float32([1e30, 3, -1e30, 0.1, 1e9, 1e-9, 0, -1])
    assert_equal(layer(rng, out=8, multiplier=multiplier, bias=bias, slopes=slopes), gemm_kernel)
    assert_equal(layer(rng, out=8, slopes=slopes), gemm_kernel)  # a slope alone leaves the bound


def test_ties_go_to_even(gemm_kernel):
    x = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8)
    weight = np.ones((16, 1, 1, 1), np.int8)
    half = np.full(16, 0.5, np.float32)
    none = np.zeros(16)
    made = Layer(x, weight, multiplier=half, bias=none, integer_bias=none.astype(np.int32), zero_point=1)
    assert_equal(made, gemm_kernel)


def test_a_large_layer_in_many_items(gemm_kernel):
    rng = np.random.default_rng(9)
    made = layer(rng, n=2, c=256, h=14, w=14, out=192, pads=(1, 1, 1, 1), weights="gaussian", high=127)
    assert_equal(made, gemm_kernel)


@settings(max_examples=60, deadline=None)
@given(made=layers(tiles=True))
def test_any_convolution_by_winograd(winograd_kernel, made):
    assert_equal(made, winograd_kernel)


@pytest.mark.parametrize("high", [127, 255])
@pytest.mark.parametrize("weights", sorted(WEIGHTS))
def test_transforms_at_their_ends(winograd_kernel, weights, high):
    """The largest transformed inputs and weights fit 16 bits; sums of their products wrap."""
    rng = np.random.default_rng(3)
    made = layer(rng, c=96, h=9, w=10, out=40, high=high, weights=weights, zero=high // 2, pads=(1, 1, 1, 1))
    assert_equal(made, winograd_kernel)


@pytest.mark.parametrize(("out", "size"), [(64, 56), (192, 14), (129, 21)])
def test_tiles_of_large_layers_in_many_items(winograd_kernel, out, size):
    rng = np.random.default_rng(9)
    made = layer(rng, n=2, c=32, h=size, w=size, out=out, pads=(1, 1, 1, 1), weights="gaussian", high=127)
    made.residual = rng.integers(0, 256, made.expected().shape).astype(np.uint8)
    made.residual_multiplier = 0.25
    assert_equal(made, winograd_kernel)


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
    made = Layer(x, weight, high=57, floats=True, multiplier=scale, bias=none.astype(np.float32))
    assert made.expected().max() > 0.99 * 2**25 * 2**-18
    assert_equal(made, winograd_kernel)


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
    made = everywhere(reach, function=function, scale=float(np.float32(scale)), zero_point=zero_point)
    made.bounds = bounds
    assert_equal(made, gemm_kernel)


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
    made = everywhere(function=function, scale=float(np.float32(0.07)), zero_point=9)
    made.factors, made.offsets = np.full(65, factor, np.float32), np.full(65, offset, np.float32)
    assert_equal(made, gemm_kernel)


@pytest.mark.parametrize("size", [1e-12, 1e-30, 1e-44])
def test_functions_of_numbers_close_to_0(gemm_kernel, size):
    rng = np.random.default_rng(0)
    multiplier = np.full(80, size, np.float32)
    made = layer(
        rng, c=20, h=4, w=4, out=80, kernel=(1, 1), multiplier=multiplier, function="gelu", scale=1e-3
    )
    made.bias[:] = 0
    assert_equal(made, gemm_kernel)
    made.floats = True
    assert_equal(made, gemm_kernel)


@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("channels", [12, 24, 40, 96, 132])
def test_windows_whose_rows_end_within_a_tile(gemm_kernel, channels, kernel, gap):
    """What lies behind a row of the window, in the image, is no part of the sum."""
    rng = np.random.default_rng(channels)
    made = layer(rng, c=channels, h=11, w=13, n=2, out=40, kernel=kernel, zero=7)
    made.pads, made.gap = (kernel[0] // 2, kernel[1] // 2) * 2, gap
    assert_equal(made, gemm_kernel)

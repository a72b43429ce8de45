"""Convolutions of bytes, and of codes of 16 bits: what they are by numerics, and by a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import gemm
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import ARENA, SLACK, NativeStep, Program, View
from intact.spec import QuantSpec

BYTES = QuantSpec("uint8")


OWN = np.empty(0)  # the layer's own bias


@dataclass
class Layer:
    """A convolution of bytes; `pads` are (top, left, bottom, right)."""

    x: np.ndarray  # [n, c, h, w], bytes; uint16: read as two images of bytes
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
    gains: np.ndarray | None = None
    shifts: np.ndarray | None = None
    divided: bool = False  # codes are, even where nothing but a bias stands in front
    gap: int = 0  # bytes between the pixels of the input
    threads: int = 1
    shift: int = 0  # of joined sums, where x is read as two images

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

    @property
    def wide(self) -> bool:
        return self.x.dtype == np.uint16

    def sums(self, x: np.ndarray, zero: int, bias: np.ndarray | None = OWN) -> np.ndarray:
        return numerics.conv(
            x,
            np.moveaxis(self.weight, 3, 1),
            zero,
            bias=self.integer_bias if bias is OWN else bias,
            stride=self.strides,
            padding=((self.pads[0], self.pads[2]), (self.pads[1], self.pads[3])),
            dilation=self.dilations,
            groups=self.groups,
        )

    def both_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the high and of the low bytes."""
        high = self.sums(self.x >> 8, self.zero >> 8, None)
        return high, self.sums(self.x & 255, self.zero & 255)

    @property
    def divides(self) -> bool:
        more = self.residual is not None or self.slopes is not None or self.gains is not None
        return not self.floats and not self.function and (self.divided or more)

    def reference(self) -> np.ndarray:
        """By numerics, [n, out, h, w]."""
        acc = numerics.join_sums(*self.both_sums(), self.shift) if self.wide else self.sums(self.x, self.zero)
        residual = None
        if self.residual is not None:
            residual = numerics.Residual(
                self.residual, np.float32(self.residual_multiplier), self.residual_zero
            )
        gain = None if self.gains is None else numerics.Gain(self.gains, self.shifts)
        sums, behind = (
            (acc, self.multiplier, self.bias),
            {"residual": residual, "slope": self.slopes, "gain": gain},
        )
        if self.divides:
            grid = self.scale, self.zero_point, BYTES
            return numerics.requantize(*sums, *grid, bounds=self.bounds, **behind)
        if not self.floats and not self.function:
            return numerics.requantize_by_product(*sums, self.zero_point, BYTES, bounds=self.bounds)
        real = numerics.to_real(*sums, **behind)
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
        shape = self.reference().shape
        arena = Arena()
        x = arena.image(self.x.shape, 1, self.pads, self.gap, self.high)
        lower = arena.image(self.x.shape, 1, self.pads, self.gap, self.high) if self.wide else None
        y = arena.image(shape, 4 if self.floats else 1, (1, 2, 1, 3), 0)
        r = None if self.residual is None else y if self.in_place else arena.image(shape, 1, (0, 0, 0, 1), 3)
        weights = self.weight.astype(np.int32).sum((1, 2, 3))
        correction = self.integer_bias - (self.zero & 255) * weights
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
            divides=self.divides,
            gains=self.gains,
            shifts=self.shifts,
        )
        low = lower and gemm.LowBytes(lower.view, self.shift, -(self.zero >> 8) * weights)
        step = self.step(x.view, y.view, epilogue, kernel, low)
        program = Program()
        program.arena(arena.nbytes)
        program.add(step)
        context = program.take()
        memory = context.arena()
        memory[:] = 0xA5
        for image, shift in ((x, 8 if self.wide else 0), (lower, 0)):
            if image:
                image.write(memory, self.x >> shift & 255, self.zero >> shift & 255)
        if r:
            r.write(memory, self.residual, 7)
        before = memory.copy()
        context.run(0, 1)
        got = y.read(memory).copy()
        y.read(memory)[:] = 0
        y.read(before)[:] = 0
        assert np.array_equal(memory, before), "wrote outside its output"
        return got

    def step(
        self, x: View, y: View, epilogue: BoundEpilogue, kernel: str, low: gemm.LowBytes | None = None
    ) -> NativeStep:
        origin = (-self.pads[0], -self.pads[1])
        if kernel.startswith(gemm.WINOGRAD):
            packed = gemm.pack_winograd(self.weight, high=self.high, kernel=kernel)
            return gemm.winograd(x, y, packed, epilogue, origin=origin, threads=self.threads, kernel=kernel)
        joined = self.groups == 1 and self.dilations[1] == 1 and self.gap == 0
        packed = gemm.pack(self.weight, high=self.high, groups=self.groups, joined=joined, kernel=kernel)
        apart = {"strides": self.strides, "dilations": self.dilations, "threads": self.threads}
        zero = self.zero >> 8 if self.wide else self.zero
        return gemm.conv(x, y, packed, epilogue, **apart, origin=origin, zero=zero, low=low, kernel=kernel)


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


def widen(conv_layer: Layer, rng: np.random.Generator, zero: int) -> Layer:
    """The same of codes of 16 bits: any, and weights as large as their sums in int32 let them be."""
    conv_layer.zero, conv_layer.high = zero, 255
    ends = rng.choice(np.array([0, 255, 256, 65535], np.uint16), conv_layer.x.shape)
    anywhere = rng.integers(0, 65536, conv_layer.x.shape).astype(np.uint16)
    conv_layer.x = np.where(rng.random(conv_layer.x.shape) < 0.3, ends, anywhere)
    room = 2**31 - 1 - int(np.abs(conv_layer.integer_bias).max())
    reach = max(zero, 65535 - zero)
    sums = np.abs(conv_layer.weight.astype(np.int64)).sum(axis=(1, 2, 3)) * reach
    shrink = np.maximum(sums / room, 1.0)[:, None, None, None]
    conv_layer.weight = np.trunc(conv_layer.weight / shrink).astype(np.int8)
    conv_layer.multiplier = conv_layer.multiplier / np.float32(256)
    return conv_layer


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
    conv_layer = layer(
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
    for name in (
        ("factors", "offsets") if conv_layer.function else ()
    ):  # none, one for all channels, one for each
        channels = draw(st.sampled_from([0, 1, conv_layer.weight.shape[0]]))
        numbers = np.resize(rng.uniform(-1, 2, channels).astype(np.float32), conv_layer.weight.shape[0])
        setattr(conv_layer, name, numbers if channels else None)
    if not conv_layer.function and draw(st.booleans()):
        conv_layer.slopes = rng.uniform(-1, 2, conv_layer.weight.shape[0]).astype(np.float32)
    if draw(st.sampled_from([False, False, True])):
        conv_layer.gains, conv_layer.shifts = rng.uniform(-1, 2, (2, conv_layer.weight.shape[0])).astype(
            np.float32
        )
    conv_layer.divided = draw(st.booleans())
    if draw(st.booleans()):
        conv_layer.residual = rng.integers(0, 256, conv_layer.reference().shape).astype(np.uint8)
        conv_layer.residual_multiplier = float(np.float32(rng.uniform(-1, 1)))
        conv_layer.residual_zero = integer(0, 255)
    if not tiles and draw(st.booleans()):
        widen(conv_layer, rng, draw(st.sampled_from([0, 1, 255, 32768, 65535, integer(0, 65535)])))
    return conv_layer


def assert_equal(conv_layer: Layer, kernel: str) -> None:
    got, want = conv_layer.run(kernel), conv_layer.reference()
    np.testing.assert_array_equal(got, want)

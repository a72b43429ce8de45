"""The steps in floats equal numerics in every bit, on every kernel that this machine has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import float_steps
from intact.kernels.float_steps import Real
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.numerics.floats.reduce import REDUCTIONS
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
LENGTHS = st.integers(1, 70)
ROWS = st.integers(1, 5) | st.integers(6, 300)  # few, or enough to go in columns
PARTIAL = {"acos", "acosh", "asin", "atanh", "log", "sqrt"}  # a NaN of some reals, which has no code
SPECIAL = np.array(
    [0, -0.0, 1e-45, -1e-45, 1e-39, -87.4, -103.9, -104, -105, 88.7, 88.73, 0.625, 0.9, 6, -6, 3e38, -3e38,
     65536, 65537, -1e9, 2.0**127, 0.7853982, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
          "max": numerics.maximum, "min": numerics.minimum, "slope": numerics.apply_slope}  # fmt: skip
SMOOTH = {
    "gelu": lambda x: x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: (
        x / (1 + np.exp(np.minimum(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3), 700)))
    ),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}
SameBits = Callable[[np.ndarray, np.ndarray], None]


class Case:
    """Tensors of one step: what numerics reads, and views of memory in any order of axes."""

    def __init__(self, runner: Any, seed: int, kernel: str, threads: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.runner = runner(threads)
        self.kernels = {**kernels_in_use(), kernel.rpartition("_")[0]: kernel}

    def order(self, rank: int) -> tuple[int, ...]:
        return tuple(self.rng.permutation(rank).tolist())

    def real(self, *shape: int, spread: float = 3.0) -> tuple[np.ndarray, Real]:
        """float32, or codes and their floats."""
        gap = int(self.rng.integers(0, 3))
        if self.rng.integers(2):
            x = (self.rng.standard_normal(shape) * spread).astype(np.float32)
            return x, Real(self.runner.input(x, self.order(len(shape)), gap=gap))
        codes, scale = self.rng.integers(0, 256, shape).astype(np.uint8), np.float32(spread / 90)
        zero = int(self.rng.integers(0, 256))
        view = self.runner.input(codes, self.order(len(shape)), gap=gap)
        return numerics.dequantize(codes, scale, zero, UINT8), Real(view, float(scale), zero)

    def output(self, *shape: int, scale: float = 0.03) -> Real:
        dtype = np.float32 if self.rng.integers(2) else np.uint8
        view = self.runner.output(shape, dtype, self.order(len(shape)), int(self.rng.integers(0, 3)))
        low, high = sorted(self.rng.integers(0, 256, 2).tolist())
        return Real(view, float(np.float32(scale)), int(self.rng.integers(0, 256)), low, high)

    def check(self, step: object, y: Real, want: np.ndarray, same: SameBits) -> None:
        got = self.runner.run(step)
        if got.dtype == np.uint8:
            codes = numerics.quantize(want, np.float32(y.scale), y.zero, UINT8)
            want = np.clip(codes, y.low, y.high).astype(np.uint8)
        same(got, want)
        assert self.runner.only_wrote(y.view)


def spread(real: Real, shape: tuple[int, ...]) -> Real:
    """The view under a shape that it broadcasts to."""
    sizes, strides = tuple(real.view.sizes), tuple(real.view.strides)
    lead = len(shape) - len(sizes)
    strides = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(sizes, strides, strict=True))
    dtype = "uint8" if real.view.itemsize == 1 else "float32"
    view = View(real.view.block, real.view.offset, dtype, shape, strides)
    return Real(view, real.scale, real.zero, real.low, real.high)


def some_values(rng: np.random.Generator, n: int) -> np.ndarray:
    spread = rng.choice([1e-3, 1, 5, 100])
    x = (rng.standard_normal(n) * spread).astype(np.float32)
    x[rng.random(n) < 0.2] = rng.choice(SPECIAL)
    return x


def test_native_functions_are_those_of_numerics(float_steps_kernel: str) -> None:
    assert sorted(float_steps.functions({"float_steps": float_steps_kernel})) == sorted(numerics.FUNCTIONS)


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_what_bounds_of_codes_rest_upon(name: str) -> None:
    """The fifth derivative and the slopes by differences of float64; the error at every 251st float32 from
    2^-14 to 32; where the function rises, that it is its ramp and what
    depends on the magnitude, and where that ends."""
    smooth = float_steps.smooth_functions()
    assert set(smooth) == {"gelu", "gelu_tanh", "silu", "hard_swish"}
    fifth, error, steepest, shallow, end = smooth[name]
    step = 0.01
    x = np.arange(-2000, 2001) * step
    y = SMOOTH[name](x)
    differences = np.convolve(y[1000:3001], [1, -4, 5, 0, -5, 4, -1], "valid") / (2 * step**5)
    assert (fifth * 0.99 < np.abs(differences).max() < fifth) == (end == 0)
    assert np.abs(np.diff(y)).max() < steepest * step
    assert np.abs(np.diff(y[x <= -2])).max() < shallow * step
    np.testing.assert_allclose(y, np.maximum(x, 0) + SMOOTH[name](-np.abs(x)), rtol=0, atol=1e-14)
    assert (np.diff(y[x >= 0]) > 0).all()
    if end:
        inside = (x >= -end) & (x <= 0)
        assert not y[x <= -end].any() and np.abs(np.diff(y[inside], 3)).max() < 1e-14
    bits = np.arange(np.float32(2**-14).view(np.int32), np.float32(32).view(np.int32), 251, np.int32)
    for sign in (1, -1):
        x = bits.view(np.float32) * np.float32(sign)
        exact = SMOOTH[name](x.astype(np.float64))
        assert (np.abs(numerics.FUNCTIONS[name](x) - exact) <= error * np.maximum(1, np.abs(exact))).all()


@pytest.mark.rule("N42")
@pytest.mark.parametrize("name", sorted(numerics.FUNCTIONS))
@settings(deadline=None, max_examples=25)
@given(seed=SEEDS, n=LENGTHS)
def test_function(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, name: str, seed: int, n: int
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x = some_values(case.rng, n)
    view, y = case.runner.input(x), Real(case.runner.output((n,), np.float32))
    step = float_steps.function(Real(view), y, name, case.kernels)
    case.check(step, y, numerics.FUNCTIONS[name](x), assert_same_bits)


@pytest.mark.parametrize("name", sorted(numerics.FUNCTIONS))
def test_function_on_a_dense_grid(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, name: str
) -> None:
    case = Case(runner, 0, float_steps_kernel)
    x = np.concatenate([np.linspace(-110, 92, 50_001), np.linspace(-7, 7, 50_001), SPECIAL]).astype(
        np.float32
    )
    view, y = case.runner.input(x), Real(case.runner.output(x.shape, np.float32))
    step = float_steps.function(Real(view), y, name, case.kernels)
    case.check(step, y, numerics.FUNCTIONS[name](x), assert_same_bits)


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, shape=SIZES, name=st.sampled_from(sorted({*numerics.FUNCTIONS} - PARTIAL)))
def test_function_of_codes_and_reals_in_any_order(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    shape: tuple[int, ...],
    name: str,
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x, source = case.real(*shape)
    y = case.output(*shape)
    output = numerics.FUNCTIONS[name](x)
    case.check(float_steps.function(source, y, name, case.kernels), y, output, assert_same_bits)


@pytest.mark.rule("N49")
@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, shape=SIZES, ends=st.tuples(*[st.sampled_from([-np.inf, -1.0, 0.0, 2.0, np.inf])] * 2))
def test_clip(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    shape: tuple[int, ...],
    ends: tuple[float, float],
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x, source = case.real(*shape)
    y = case.output(*shape)
    case.check(float_steps.clip(source, y, *ends, case.kernels), y, numerics.clip(x, *ends), assert_same_bits)


@pytest.mark.rule("N56")
@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, shape=SIZES, grid=st.sampled_from([("int16", 0), ("int16", -9000), ("uint16", 40000)]))
def test_fake_quantize(
    runner: Any,
    fake_quantize_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    shape: tuple[int, ...],
    grid: tuple[str, int],
) -> None:
    """Grids that reach far beyond what comes in, and grids that end within it."""
    spec, zero = QuantSpec(grid[0], symmetric=grid[1] == 0), grid[1]
    case = Case(runner, seed, fake_quantize_kernel)
    scale = np.float32(case.rng.choice([6.1e-5, 2.0**-14, 1e-3, 0.7]))
    x, source = case.real(*shape)
    y, ends = case.output(*shape), (int(spec.qmin) - zero, int(spec.qmax) - zero)
    step = float_steps.fake_quantize(source, y, float(scale), *ends, case.kernels)
    case.check(step, y, numerics.fake_quantize(x, scale, zero, spec), assert_same_bits)


@pytest.mark.parametrize("name", ["max", "min", "slope", "clip"])
def test_extremes_of_specialsome_values(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, name: str
) -> None:
    case = Case(runner, 0, float_steps_kernel)
    a, b = np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)
    sides = [Real(case.runner.input(side)) for side in (a, b)]
    y = Real(case.runner.output(a.shape, np.float32))
    if name == "clip":
        case.check(
            float_steps.clip(sides[0], y, 0, 6, case.kernels), y, numerics.clip(a, 0, 6), assert_same_bits
        )
    else:
        case.check(float_steps.binary(*sides, y, name, case.kernels), y, BINARY[name](a, b), assert_same_bits)


@pytest.mark.parametrize("name", ["add", "div", "mul", "slope"])
@pytest.mark.parametrize("second", [True, False], ids=["x_row", "row_x"])
@pytest.mark.parametrize("seed", range(4))
def test_binary_with_a_row_that_repeats(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, name: str, second: bool, seed: int
) -> None:
    """A number for each channel of images whose pixels are neighbours, and whose lines may not be."""
    case = Case(runner, seed, float_steps_kernel)
    shape, rows = (2, 3, 150, 24), (2, 1, 1, 24)
    (x, x_real), (row, row_real) = _any_real(case, shape), _any_real(case, rows)
    sides = [(x, x_real), (row, row_real)][:: 1 if second else -1]
    y = Real(case.runner.output(shape, np.float32 if seed % 2 else np.uint8), 0.03, 11, 3, 240)
    with np.errstate(all="ignore"):
        want = BINARY[name](sides[0][0], sides[1][0])
    if y.view.itemsize == 1:
        want = np.nan_to_num(want, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    a, b = (spread(real, shape) for _, real in sides)
    case.check(float_steps.binary(a, b, y, name, case.kernels), y, want, assert_same_bits)


def _any_real(case: Case, shape: tuple[int, ...]) -> tuple[np.ndarray, Real]:
    """float32, or codes and their floats, row-major."""
    if case.rng.integers(2):
        x = case.rng.standard_normal(shape).astype(np.float32)
        return x, Real(case.runner.input(x))
    codes, scale = case.rng.integers(0, 256, shape).astype(np.uint8), np.float32(0.03)
    return numerics.dequantize(codes, scale, 99, UINT8), Real(case.runner.input(codes), float(scale), 99)


@pytest.mark.rule("N49")
@pytest.mark.parametrize("name", sorted(BINARY))
@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, shape=SIZES)
def test_binary(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    name: str,
    seed: int,
    shape: tuple[int, ...],
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    sides = []
    for _ in range(2):
        start = int(case.rng.integers(0, len(shape) + 1))
        smaller = [n if case.rng.integers(3) else 1 for n in shape[start:]]
        sides.append(case.real(*smaller))
    y = case.output(*shape)
    with np.errstate(all="ignore"):
        want = BINARY[name](sides[0][0], sides[1][0])
    want = np.broadcast_to(want, shape)
    if y.view.itemsize == 1:
        want = np.nan_to_num(want, nan=-np.inf, posinf=np.inf, neginf=-np.inf)  # 0 / 0: the lowest byte
    a, b = (spread(real, shape) for _, real in sides)
    case.check(
        float_steps.binary(a, b, y, name, case.kernels), y, np.ascontiguousarray(want), assert_same_bits
    )


@pytest.mark.rule("N42")
@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, rows=ROWS, n=LENGTHS, masked=st.booleans())
def test_softmax(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    rows: int,
    n: int,
    masked: bool,
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    gain = float(np.float32(case.rng.choice([1.0, 0.125, 0.3])))
    x, source = case.real(2, rows, n, spread=8)
    hidden = mask = None
    if masked:
        mask = np.where(case.rng.random((rows, 1, n))[:, 0] < 0.3, -np.inf, 0.5).astype(np.float32)
        mask[:, 0] = 0
        hidden = spread(Real(case.runner.input(mask)), (2, rows, n))
    y = case.output(2, rows, n, scale=1 / 255)
    want = numerics.softmax(x, gain=gain, mask=mask)
    case.check(float_steps.softmax(source, y, gain, hidden, case.kernels), y, want, assert_same_bits)


@pytest.mark.parametrize("repeats", [1, 10])
def test_softmax_of_hopeless_rows(
    runner: Any, float_steps_kernel: str, assert_same_bits: SameBits, repeats: int
) -> None:
    x = np.zeros((4, 21), np.float32)
    x[0], x[1, 3], x[2, 5], x[3, 20] = -np.inf, np.inf, np.nan, 3e38
    x = np.tile(x, (repeats, 1))
    case = Case(runner, 0, float_steps_kernel)
    source, y = Real(case.runner.input(x)), Real(case.runner.output(x.shape, np.float32))
    case.check(float_steps.softmax(source, y, kernels=case.kernels), y, numerics.softmax(x), assert_same_bits)


@pytest.mark.rule("N42")
@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, rows=ROWS, n=LENGTHS, parts=st.tuples(*[st.booleans()] * 3))
def test_layer_norm(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    rows: int,
    n: int,
    parts: tuple[bool, ...],
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x, source = case.real(2, rows, n)
    residual, other = case.real(2, rows, n) if parts[0] else (None, None)
    weight, bias = ((case.rng.standard_normal(n).astype(np.float32) if p else None) for p in parts[1:])
    y = case.output(2, rows, n)
    views = [None if v is None else case.runner.constant(v) for v in (weight, bias)]
    step = float_steps.layer_norm(
        source, y, 1e-5, weight=views[0], bias=views[1], residual=other, kernels=case.kernels
    )
    case.check(step, y, numerics.layer_norm(x, weight, bias, 1e-5, residual), assert_same_bits)


@pytest.mark.rule("N50")
@settings(deadline=None, max_examples=80)
@given(seed=SEEDS, shape=SIZES, function=st.sampled_from(sorted(REDUCTIONS)))
def test_reduce(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    shape: tuple[int, ...],
    function: str,
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x, source = case.real(*shape)
    rank = int(case.rng.integers(0, len(shape) + 1))
    y = case.output(*shape[:rank])
    want = REDUCTIONS[function](x, tuple(range(rank, len(shape))), False)
    case.check(float_steps.reduce(source, y, function, case.kernels), y, want, assert_same_bits)


@pytest.mark.rule("N50")
@pytest.mark.parametrize(
    ("shape", "rank", "order"),
    [((2, 300, 7, 9), 2, (0, 2, 3, 1)), ((2, 300, 7, 9), 2, (0, 1, 2, 3)), ((5, 1000), 1, (0, 1)),
     ((3, 400, 40), 2, (0, 2, 1)), ((700, 5), 1, (0, 1)), ((2, 3, 70000), 2, (0, 1, 2)), ((6,), 0, (0,)),
     ((4, 0, 3), 1, (0, 1, 2)), ((4, 0, 3), 2, (0, 1, 2))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_reduce_in_pieces(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    shape: tuple[int, ...],
    rank: int,
    order: tuple[int, ...],
    dtype: type,
) -> None:
    case = Case(runner, 0, float_steps_kernel, threads=2)
    x = case.rng.integers(0, 256, shape).astype(np.uint8)
    floats_of_x = numerics.dequantize(x, np.float32(0.1), 30, UINT8)
    source = x if dtype is np.uint8 else floats_of_x
    y = Real(case.runner.output(shape[:rank], np.float32))
    step = float_steps.reduce(Real(case.runner.input(source, order), 0.1, 30), y, "mean", case.kernels)
    want = numerics.mean_over(floats_of_x, tuple(range(rank, len(shape))))
    case.check(step, y, want, assert_same_bits)


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, rows=ROWS, n=LENGTHS, scaled=st.booleans())
def test_layer_norm_with_codes_beside_it(
    runner: Any,
    float_steps_kernel: str,
    assert_same_bits: SameBits,
    seed: int,
    rows: int,
    n: int,
    scaled: bool,
) -> None:
    case = Case(runner, seed, float_steps_kernel)
    x, source = case.real(2, rows, n)
    residual, other = case.real(2, rows, n)
    codes = Real(case.runner.output((2, rows, n), np.uint8, case.order(3)), 0.02, 100, 3, 250)
    y = Real(case.runner.output((2, rows, n), np.float32, case.order(3)))
    factors = case.rng.uniform(-2, 2, n).astype(np.float32)
    step = float_steps.layer_norm(
        source, y, 1e-5, residual=other, codes=codes, kernels=case.kernels,
        factors=case.runner.constant(factors) if scaled else None,
    )  # fmt: skip
    want = numerics.layer_norm(x, None, None, 1e-5, residual)
    case.check(step, codes, want * factors if scaled else want, assert_same_bits)
    assert_same_bits(case.runner.result(1), want)


def test_long_rows_in_pieces(runner: Any, float_steps_kernel: str, assert_same_bits: SameBits) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((37, 5000)).astype(np.float32)
    for make, want in (
        (lambda s, y, k: float_steps.function(s, y, "sigmoid", k), numerics.FUNCTIONS["sigmoid"](x)),
        (lambda s, y, k: float_steps.softmax(s, y, kernels=k), numerics.softmax(x)),
        (
            lambda s, y, k: float_steps.layer_norm(s, y, 1e-12, kernels=k),
            numerics.layer_norm(x, epsilon=1e-12),
        ),
    ):
        case = Case(runner, 0, float_steps_kernel, threads=2)
        source, y = Real(case.runner.input(x)), Real(case.runner.output(x.shape, np.float32))
        case.check(make(source, y, case.kernels), y, want, assert_same_bits)


def test_empty_tensors(runner: Any, float_steps_kernel: str) -> None:
    for shape in ((0, 4), (4, 0)):
        case = Case(runner, 0, float_steps_kernel)
        x = Real(case.runner.input(np.zeros(shape, np.float32)))
        y = Real(case.runner.output(shape, np.float32))
        assert float_steps.softmax(x, y, kernels=case.kernels).items == 0
        assert float_steps.function(x, y, "exp", case.kernels).items == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, y: float_steps.function(x, y, "sech"), "no function has this name"),
        (
            lambda x, y: float_steps.reduce(x, Real(View(2, 0, "float32", (3,), (4,))), "mean"),
            "differ in their sizes",
        ),
        (lambda x, y: float_steps.clip(x, y, np.nan, 1), "a bound is not a number"),
        (lambda x, y: float_steps.fake_quantize(x, y, 0.0, 0, 9), "a scale is positive and finite"),
        (lambda x, y: float_steps.fake_quantize(x, y, 1.0, 3, 2), "a grid has ends in order"),
        (lambda x, y: float_steps.fake_quantize(x, y, 1.0, 0, 2**24), "a grid has ends in order"),
        (lambda x, y: float_steps.binary(x, x, y, "pow"), "no such function of two"),
        (
            lambda x, y: float_steps.softmax(Real(View(1, 0, "float32", (2, 2), (8, 4))), y),
            "differ in their sizes",
        ),
        (lambda x, y: float_steps.layer_norm(x, y, 1e-5, weight=x.view), "weight and bias have one float32"),
        (lambda x, y: float_steps.layer_norm(x, y, 1e-5, factors=x.view), "factors are for codes"),
        (lambda x, y: float_steps.softmax(Real(View(1, 0, "int64", (2, 3), (24, 8))), y), "float32 or bytes"),
        (lambda x, y: float_steps.softmax(Real(View(1, 0, "uint8", (2, 3), (3, 1)), 0.0), y), "not positive"),
        (
            lambda x, y: float_steps.softmax(Real(View(1, 0, "uint8", (2, 3), (3, 1)), 1, 9999), y),
            "out of range",
        ),
        (
            lambda x, y: float_steps.function(
                x, Real(View(1, 0, "uint8", (2, 3), (3, 1)), 1, 0, 9, 3), "exp"
            ),
            "grid",
        ),
    ],
    ids=[
        "function",
        "reduce",
        "clip",
        "step",
        "ends",
        "reach",
        "binary",
        "sizes",
        "weight",
        "factors",
        "dtype",
        "scale",
        "zero",
        "grid",
    ],
)
def test_makers_refuse(make: Callable[[Real, Real], object], message: str) -> None:
    x = Real(View(1, 0, "float32", (2, 3), (12, 4)))
    with pytest.raises(ValueError, match=message):
        make(x, Real(View(2, 0, "float32", (2, 3), (12, 4))))

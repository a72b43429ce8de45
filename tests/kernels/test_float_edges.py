"""Steps in floats where functions, sums and codes are at their edges, on every kernel of this machine."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.kinds.draw import SPECIAL, Draw
from tests.kernels.kinds.elements import BINARY, WIDE
from tests.kernels.kinds.products import far_floats
from tests.one_step import Case, check, one_step

from intact import numerics
from intact.engine.steps import (
    Add,
    Binary,
    Clip,
    Codes,
    Epilogue,
    FakeQuantize,
    FloatLinear,
    FloatMatMul,
    Function,
    LayerNorm,
    MatMul,
    Pool,
    Quantize,
    Reduce,
    Rescale,
    Softmax,
    SplitQuantize,
    Table,
)
from intact.engine.steps.elements.split_quantize import split_codes

REFERENCE = Path(__file__).parents[2] / "csrc/kernels/float_steps/reference.cc"
SMOOTH = {
    "gelu": lambda x: x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: (
        x / (1 + np.exp(np.minimum(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3), 700)))
    ),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def grid(scale: float, zero: int) -> Codes:
    """All bytes."""
    return Codes(float(np.float32(scale)), zero, False, 0, 255)


@pytest.mark.skipif(not REFERENCE.is_file(), reason="needs the sources")
def test_what_bounds_of_codes_rest_upon() -> None:
    """The fifth derivative and the slopes by differences of float64; the error at every 251st float32 from
    2^-14 to 32; where the function rises, that it is its ramp and what depends on the magnitude, and where
    that ends."""
    rows = re.findall(r"SmoothFunction smooth_(\w+) = \{\w+, ([^}]+)\}", REFERENCE.read_text("utf-8"))
    assert {name for name, _ in rows} == SMOOTH.keys()
    for name, numbers in rows:
        fifth, error, steepest, shallow, end = map(float, numbers.split(","))
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
def test_functions_on_a_dense_grid(name: str) -> None:
    x = np.concatenate([np.linspace(-110, 92, 50_001), np.linspace(-7, 7, 50_001), SPECIAL]).astype(
        np.float32
    )
    check(one_step(Function("f", (), "x", "y", name), {"x": x}), moves=False)


@pytest.mark.rule("N49")
@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_special_numbers(name: str) -> None:
    a, b = np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)
    for grids in ({}, {"y": grid(0.03, 11)}):
        check(one_step(Binary("b", (), name, "a", "b", "y"), {"a": a, "b": b}, grids=grids), moves=False)


@pytest.mark.rule("N49")
def test_bounds_of_special_numbers() -> None:
    for low, high in ((0.0, 6.0), (None, -1.0), (1.0, None)):
        check(one_step(Clip("c", (), "x", "y", low, high), {"x": SPECIAL}), moves=False)


@pytest.mark.parametrize("name", ["add", "div", "mul", "slope"])
@pytest.mark.parametrize("small", [(2, 24, 1, 1), (1, 24, 1, 1), (2, 1, 3, 150)], ids=str)
def test_pairs_of_images_and_what_repeats(name: str, small: tuple[int, ...]) -> None:
    """A number for each channel or pixel of images, which lie plane by plane or pixel by pixel."""
    for number in range(4):
        d = Draw(np.random.default_rng(number))
        sides = d.real("a", (2, 24, 3, 150)), d.real("b", small)
        check(d.case(Binary("b", (), name, *sides[:: 1 if number % 2 else -1], d.output())))


@pytest.mark.parametrize("channels", [1, 3, 16, 24, 300])
def test_planes_and_pixels(channels: int) -> None:
    """One picture lies plane by plane, another pixel by pixel: codes and floats, clipped and subtracted."""
    for number in range(3):
        d = Draw(np.random.default_rng(number))
        check(d.case(Clip("c", (), d.codes("x", (2, channels, 9, 37)), d.output(), -2.0, 2.5)))
        other = (2, channels, 9, 37), (1, channels, 1, 1), (2, 1, 9, 37)
        d = Draw(np.random.default_rng(number))
        check(d.case(Binary("b", (), "sub", d.floats("a", other[0]), d.floats("b", other[number]), "y")))


@pytest.mark.rule("N42")
@pytest.mark.parametrize("repeats", [1, 10])
def test_softmax_of_hopeless_rows(repeats: int) -> None:
    x = np.zeros((4, 21), np.float32)
    x[0], x[1, 3], x[2, 5], x[3, 20] = -np.inf, np.inf, np.nan, 3e38
    check(one_step(Softmax("s", (), "x", "y", -1), {"x": np.tile(x, (repeats, 1))}))


def test_long_rows_in_several_pieces() -> None:
    x = np.random.default_rng(0).standard_normal((37, 5000)).astype(np.float32)
    for step in (
        Function("f", (), "x", "y", "sigmoid"), Softmax("s", (), "x", "y", -1),
        LayerNorm("n", (), "x", "y", "", "", 1e-12),
    ):  # fmt: skip
        check(one_step(step, {"x": x}), moves=False)


@pytest.mark.rule("N50")
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 300, 7, 9), (2, 3)), ((5, 1000), (1,)), ((3, 400, 40), (2,)), ((700, 5), (1,)),
     ((2, 3, 70000), (2,)), ((6,), (0,)), ((4, 0, 3), (1, 2)), ((4, 0, 3), (2,))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("coded", [False, True], ids=["floats", "codes"])
def test_means_in_pieces(shape: tuple[int, ...], axes: tuple[int, ...], coded: bool) -> None:
    d = Draw(np.random.default_rng(0))
    x = d.codes("x", shape, grid(0.1, 30)) if coded else d.floats("x", shape)
    check(d.case(Reduce("r", (), x, "y", "mean", axes)))


@pytest.mark.rule("N50")
@pytest.mark.parametrize("n", [1, 5, 16, 21, 64])
@pytest.mark.parametrize("function", sorted(numerics.REDUCTIONS))
def test_reductions_of_rows_with_anything(function: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((50, n)) * rng.choice([1e-3, 1, 5, 100], (50, 1))
    x = np.where(rng.random(x.shape) < 0.2, rng.choice(SPECIAL, (50, 1)), x).astype(np.float32)
    x[7], x[8] = -0.0, np.nan
    check(one_step(Reduce("r", (), "x", "y", function, (1,)), {"x": x}))


@pytest.mark.parametrize("scale", [2.0**-110, 2.0**-3, 0.0137, 1.0, 3e5, 2.0**110])
@pytest.mark.parametrize("zero", [0, 10, 255])
def test_codes_close_to_ties(scale: float, zero: int) -> None:
    ties = ((np.arange(-300, 300) + 0.5) * np.float32(scale)).astype(np.float32)
    around = [np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)]
    x = np.concatenate([ties, *around, SPECIAL])
    check(one_step(Quantize("q", (), "x", "y"), {"x": x}, grids={"y": grid(scale, zero)}), moves=False)


@pytest.mark.rule("N56", "N62")
@pytest.mark.parametrize(("format", "zero"), WIDE)
def test_bytes_of_16_bits_close_to_ties_and_at_the_ends(format: str, zero: int) -> None:
    for scale in (2.0**-110, float(np.float32(0.000123)), 1.0, float(np.float32(3.7e30))):
        ties = ((np.arange(-70000, 70000, 37) + 0.5) * np.float32(scale)).astype(np.float32)
        around = [np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)]
        x = np.concatenate([ties, *around, np.float32([np.inf, -np.inf, 0.0, -0.0, 3e38])])
        high, low = split_codes(format, scale, zero)
        step = SplitQuantize("q", (), "x", "high", "low", format, scale, zero)
        check(one_step(step, {"x": x}, grids={"high": high, "low": low}), moves=False)
        step = FakeQuantize("q", (), "x", "y", format, scale, zero)
        check(one_step(step, {"x": x}), moves=False)


@pytest.mark.parametrize(
    "shape", [(1, 3, 224, 224), (2, 3, 7, 33), (1, 64, 14, 14), (1, 200, 5, 130)], ids=str
)
def test_codes_of_images(shape: tuple[int, ...]) -> None:
    """Planes of floats become pixels of codes with borders, and of codes of 16 bits."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    pool = Pool("p", (), "q", "y", "max", (3, 3), pads=(1, 1, 1, 1))
    grids = {"q": grid(0.02, 128), "y": grid(0.02, 128)}
    check(one_step((Quantize("q", (), "x", "q"), pool), {"x": x}, grids=grids))
    high, low = split_codes("int16", float(np.float32(1e-4)), 0)
    step = SplitQuantize("q", (), "x", "high", "low", "int16", float(np.float32(1e-4)), 0)
    check(one_step(step, {"x": x}, grids={"high": high, "low": low}))


@pytest.mark.parametrize("n", [1, 15, 16, 17, 63, 64, 65, 1000, 40000])
def test_points_of_every_byte_and_any_tail(n: int) -> None:
    rng = np.random.default_rng(n)
    feeds = {name: rng.integers(0, 256, n).astype(np.uint8) for name in "ab"}
    grids = {"a": grid(0.31, 3), "b": grid(1.9, 200), "y": grid(0.7, 120)}
    check(one_step(Add("s", (), "a", "b", "y", 2, 251), feeds, grids=grids))
    feeds.pop("b")
    check(one_step(Rescale("s", (), "a", "y"), feeds, grids=grids))
    table = rng.integers(0, 256, 256).astype(np.uint8)
    check(one_step(Table("s", (), "a", "y", "t"), feeds, grids=grids, t=table))


@pytest.mark.parametrize("ratio", [2.0**94, 2.0**31, 1e-30, 0.5])
def test_codes_saturate_where_an_integer_would_wrap(ratio: float) -> None:
    x = np.arange(256, dtype=np.uint8)
    grids = {"x": grid(float(np.float32(1e-3) * np.float32(ratio)), 100), "y": grid(1e-3, 7)}
    check(one_step(Rescale("s", (), "x", "y"), {"x": x}, grids=grids))


@pytest.mark.parametrize("channels", [1, 16, 100, 2048])
@pytest.mark.parametrize("size", [7, 40], ids=["7x7", "40x40"])
def test_means_of_planes_are_summed_exactly(channels: int, size: int) -> None:
    x = np.full((1, channels, size, size), 255, np.uint8)
    x[0, :, 0, 0] = np.arange(channels) % 256
    grids = {"x": grid(0.1, 200), "y": grid(0.09, 3)}
    check(one_step(Pool("p", (), "x", "y", "average"), {"x": x}, grids=grids), moves=False)


@pytest.mark.parametrize("shape", [(1, 300, 64, 130), (3, 128, 128, 64), (2, 5, 2000, 3)], ids=str)
def test_larger_products_of_codes_in_several_pieces(shape: tuple[int, ...]) -> None:
    d, (n, i, k, j) = Draw(np.random.default_rng(1)), shape
    a, b = d.codes("a", (n, i, k), grid(1, 128)), d.codes("b", (n, k, j), grid(1, 7))
    check(d.case(MatMul("m", (), a, b, "y", Epilogue(d.constant("m", [1.0])))), moves=False)


@pytest.mark.rule("N51")
@pytest.mark.parametrize("shape", [(100, 700, 40), (1, 900, 500), (200, 70, 1200), (60, 2000, 3)], ids=str)
@pytest.mark.parametrize("packed", [True, False])
def test_larger_products_of_floats_are_cut_and_stay_one_chain(shape: tuple[int, ...], packed: bool) -> None:
    d, (m, k, n) = Draw(np.random.default_rng(5)), shape
    d.feeds["a"] = far_floats(d, m, k)
    if packed:
        d.constants = {"b": far_floats(d, k, n), "s": far_floats(d, n)}
        check(d.case(FloatLinear("p", (), "a", "y", "b", "s")), moves=False)
    else:
        d.feeds["b"] = far_floats(d, k, n)
        check(d.case(FloatMatMul("p", (), "a", "b", "y")), moves=False)


def probabilities(scores: np.ndarray, scale: float, multiplier: float) -> Case:
    """Codes of the softmax of integer scores: the other factors of both products are units."""
    tokens = scores.shape[1]
    unit = np.eye(tokens, dtype=np.uint8)
    grids = {"q": grid(1, 0), "k": grid(1, 0), "p": grid(scale, 7), "v": grid(1, 0)}
    constants = {"m": np.float32([multiplier]), "one": np.float32([1.0])}
    steps = (
        MatMul("qk", (), "q", "k", "s", Epilogue("m")), Softmax("soft", (), "s", "p", -1),
        MatMul("pv", (), "p", "v", "y", Epilogue("one")),
    )  # fmt: skip
    return one_step(steps, {"q": scores, "k": unit, "v": unit}, grids=grids, **constants)


@pytest.mark.parametrize(
    ("scale", "multiplier"),
    [(1 / 255, 0.002), (4e-4, 0.02), (2**-13, 0.3), (0.02, 0.02), (2e-7, 0.3), (3.0, 0.002), (1 / 255, 0.3)],
)
def test_a_million_probabilities(scale: float, multiplier: float) -> None:
    """So many that some lie where a cheaper evaluation would round to the other code."""
    scores = np.random.default_rng(3).integers(0, 256, (8000, 128)).astype(np.uint8)
    check(probabilities(scores, scale, multiplier), moves=False, threads=(2,))


@pytest.mark.parametrize("tokens", [1000, 1024, 1025, 3000])
def test_probabilities_of_long_rows(tokens: int) -> None:
    scores = np.random.default_rng(4).integers(0, 256, (5, tokens)).astype(np.uint8)
    check(probabilities(scores, 2e-5, 0.01), moves=False)

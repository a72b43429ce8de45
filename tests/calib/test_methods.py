"""The four methods: against definitions, brute force, and at their edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intact import numerics
from intact.calib import (
    METHODS,
    Histogram,
    Range,
    amax_from_counts,
    amax_of,
    expected_error,
    expected_sqnr,
    range_of,
)
from intact.errors import CalibrationError, IntactError, QuantValueError, UnsupportedError
from intact.spec import QuantSpec

SYMMETRIC = [
    QuantSpec("int8"),
    QuantSpec("int8", narrow=True),
    QuantSpec("uint8"),
    QuantSpec("int4"),
    QuantSpec("uint4"),
    QuantSpec("int2"),
    QuantSpec("fp8e4m3"),
    QuantSpec("fp4e2m1"),
]
ASYMMETRIC = [QuantSpec(f, symmetric=False) for f in ("int8", "uint8", "int4", "uint3")]


def collect(x, axis=None):
    histogram = Histogram(axis)
    histogram.collect(np.asarray(x, np.float32))
    return histogram


def skew(rng, size=30_000):
    """Like the output of a GELU: a short negative side, a long positive one, and a few outliers."""
    x = rng.standard_normal(size) * 2
    return np.append(np.where(x < 0, 0.1 * x, x), [15.0, -2.0]).astype(np.float32)


def error_on_bins(histogram, spec, low, high):
    """Compute `expected_error` as a sum over bins."""
    if spec.symmetric:
        scale, zero_point = numerics.scale_from_amax(high, spec), 0
    else:
        scale, zero_point = numerics.affine_from_range(low, high, spec)
    middles = ((np.arange(4096) + 0.5) * histogram.bin_width).astype(np.float32)
    middles[0] = 0
    total = 0.0
    for x, counts in ((middles, histogram.positive), (-middles, histogram.negative)):
        error = x.astype(np.float64) - numerics.fake_quantize(x, scale, zero_point, spec)
        total += float((counts * error**2).sum())
    return total / int(histogram.count)


@pytest.mark.parametrize("spec", SYMMETRIC, ids=str)
def test_mse_is_the_best_edge_there_is(spec, rng):
    histogram = collect(skew(rng))
    top = float(histogram.max if spec.qmin >= 0 else histogram.amax)
    edges = np.minimum(np.arange(1, int(top / histogram.bin_width) + 2) * histogram.bin_width, top)
    result = float(amax_of(histogram, spec, "mse"))
    assert result in edges.astype(np.float32)
    errors = [error_on_bins(histogram, spec, 0, np.float32(edge)) for edge in edges[::7]]
    mine = error_on_bins(histogram, spec, 0, np.float32(result))
    assert mine <= min(errors) * (1 + 1e-6)
    assert mine == pytest.approx(expected_error(histogram, spec, np.float32(result)), rel=1e-12)


@pytest.mark.parametrize("spec", ASYMMETRIC, ids=str)
def test_mse_finds_the_best_pair_of_ends(spec, rng):
    histogram = collect(skew(rng))
    low, high = range_of(histogram, spec, "mse")
    mine = expected_error(histogram, spec, (low, high))
    lows, highs = (np.linspace(0.02, 1, 40) * end for end in (histogram.min, histogram.max))
    best = min(expected_error(histogram, spec, (a, b)) for a in lows for b in highs)
    assert mine <= best * 1.001
    assert histogram.min <= low <= 0 <= high <= histogram.max


@pytest.mark.parametrize("spec", [*SYMMETRIC, *ASYMMETRIC], ids=str)
def test_no_method_has_a_smaller_expected_error_than_mse(spec, rng):
    histogram = collect(skew(rng))
    methods = [m for m in METHODS if m != "entropy" or not spec.format.is_float]
    errors = {m: expected_error(histogram, spec, range_of(histogram, spec, m)) for m in methods}
    assert errors["mse"] <= min(errors.values()) * 1.001


@pytest.mark.parametrize("spec", [QuantSpec("int8"), QuantSpec("uint8", symmetric=False)], ids=str)
def test_expected_error_is_the_error_on_the_data(spec, rng):
    x = skew(rng, 200_000)
    histogram = collect(x)
    ends = range_of(histogram, spec, "mse")
    if spec.symmetric:
        scale, zero_point = numerics.scale_from_amax(ends[1], spec), 0
    else:
        scale, zero_point = numerics.affine_from_range(*ends, spec)
    real = float(((x - numerics.fake_quantize(x, scale, zero_point, spec)).astype(np.float64) ** 2).mean())
    assert expected_error(histogram, spec, ends) == pytest.approx(real, rel=0.02)
    sqnr = 10 * np.log10(float((x.astype(np.float64) ** 2).mean()) / real)
    assert expected_sqnr(histogram, spec, ends) == pytest.approx(sqnr, abs=0.1)


def test_max_is_exact(rng):
    x = skew(rng)
    histogram, reach = collect(x), Range()
    reach.collect(x)
    for stats in (histogram, reach):
        assert amax_of(stats, QuantSpec()) == np.abs(x).max()
        assert amax_of(stats, QuantSpec("uint8")) == x.max()
        assert range_of(stats, QuantSpec("uint8", symmetric=False)) == (x.min(), x.max())
        assert range_of(stats, QuantSpec()) == (-np.abs(x).max(), np.abs(x).max())
        assert range_of(stats, QuantSpec("uint8")) == (0, x.max())


@given(
    hnp.arrays(np.float32, st.integers(1, 200), elements=st.floats(-1, 1, width=32)),
    st.sampled_from([0.0, 1.0, 50.0, 90.0, 99.99, 100.0]),
)
def test_percentile_keeps_at_least_that_share(x, percentile):
    histogram = collect(x)
    amax = amax_of(histogram, QuantSpec(), "percentile", percentile=percentile)
    assert (np.abs(x) <= amax).mean() >= percentile / 100
    # One bin less keeps less than that, or nothing.
    lower = amax - histogram.bin_width
    assert (np.abs(x) < lower).mean() < percentile / 100 or lower <= 0
    low, high = range_of(histogram, QuantSpec(symmetric=False), "percentile", percentile=percentile)
    assert (x >= low).mean() >= percentile / 100 and (x <= high).mean() >= percentile / 100
    assert min(x.min(), 0) <= low <= 0 <= high <= max(x.max(), 0)


def test_the_extra_negative_code_counts():
    """int8 reaches -128 steps: an amax of 127/128 of it holds -3.3 as well as its own maximum."""
    histogram = collect(np.full(10, -3.3))
    assert float(amax_of(histogram, QuantSpec(), "mse")) * 128 / 127 == pytest.approx(3.3, rel=1e-3)


def test_a_hundred_percent_is_the_maximum(rng):
    histogram = collect(skew(rng))
    assert amax_of(histogram, QuantSpec(), "percentile", percentile=100) == histogram.amax


@pytest.mark.parametrize("method", ["mse", "entropy"])
@pytest.mark.parametrize("spec", [QuantSpec("int16"), QuantSpec("uint16", symmetric=False)], ids=str)
def test_as_many_codes_as_bins_means_max(method, spec, rng):
    histogram = collect(rng.standard_normal(1000))
    assert range_of(histogram, spec, method) == range_of(histogram, spec, "max")


def test_an_unsigned_grid_looks_at_positive_values_alone(rng):
    x = skew(rng)
    for method in METHODS:
        pair = amax_of(collect(x), QuantSpec("uint8"), method)
        assert pair == amax_of(collect(x[x >= 0]), QuantSpec("uint8"), method), method
    assert amax_of(collect([-3.0, -1.0]), QuantSpec("uint8"), "mse") == 0


def test_asymmetric_entropy_gives_each_side_its_share_of_the_codes(rng):
    x = rng.standard_normal(50_000).astype(np.float32)
    x = np.concatenate([x, -x])
    low, high = range_of(collect(x), QuantSpec("uint8", symmetric=False), "entropy")
    assert -low == high == amax_of(collect(np.abs(x)), QuantSpec("int8"), "entropy")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spec", [QuantSpec(), QuantSpec("uint8"), QuantSpec("int4"), *ASYMMETRIC], ids=str)
class TestDegenerate:
    def test_all_zeros(self, method, spec):
        low, high = range_of(collect(np.zeros(10)), spec, method)
        assert low == 0 and high == 0 and not np.signbit(low)
        assert all(type(end) is np.ndarray and end.dtype == np.float32 for end in (low, high))
        assert expected_error(collect(np.zeros(10)), spec, (low, high)) == 0

    def test_one_constant_value(self, method, spec):
        assert range_of(collect(np.full(10, 3.3)), spec, method)[1] == np.float32(3.3)

    def test_denormals(self, method, spec):
        low, high = range_of(collect(np.full(10, 1e-40)), spec, method)
        assert np.isfinite([low, high]).all() and low <= high

    def test_huge_values(self, method, spec):
        low, high = range_of(collect([3e38, 1.0, 0.0]), spec, method)
        assert np.isfinite([low, high]).all() and low <= 0 < high <= np.float32(3e38)


@pytest.mark.parametrize("method", METHODS)
def test_negative_values_alone(method):
    histogram = collect(np.full(10, -3.3))
    assert amax_of(histogram, QuantSpec(narrow=True), method) == np.float32(3.3)
    assert range_of(histogram, QuantSpec(symmetric=False), method)[0] == np.float32(-3.3)


@pytest.mark.parametrize("method", METHODS)
def test_per_channel_is_every_channel_apart(method, rng):
    x = (rng.standard_normal((5, 400)) * np.float32([[0], [1e-3], [1], [5], [1e6]])).astype(np.float32)
    for spec in (QuantSpec(axis=0), QuantSpec(axis=0, symmetric=False)):
        low, high = range_of(collect(x, 0), spec, method)
        assert low.shape == high.shape == (5,) and high.dtype == np.float32
        apart = [range_of(collect(row), spec.with_(axis=None), method) for row in x]
        assert [(a, b) for a, b in zip(low, high, strict=True)] == apart
        error = expected_error(collect(x, 0), spec, (low, high))
        each = [
            expected_error(collect(row), spec.with_(axis=None), ends)
            for row, ends in zip(x, apart, strict=True)
        ]
        assert error == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_per_channel_statistics_serve_a_per_tensor_grid(method, rng):
    x = rng.standard_normal((5, 400)).astype(np.float32)
    assert amax_of(collect(x, 0), QuantSpec(), method) == amax_of(collect(x), QuantSpec(), method)


def test_a_range_of_several_axes(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    reach = Range((0, 2))
    reach.collect(x)
    assert (amax_of(reach, QuantSpec(axis=(2, 0))) == numerics.absmax(x, (0, 2))).all()
    assert amax_of(reach, QuantSpec()) == np.abs(x).max()


ERRORS = {
    "nothing collected": (
        lambda: amax_of(Histogram(), QuantSpec(), "mse"),
        CalibrationError,
        "statistics: got nothing collected, want at least one value. Fix: run at least one batch through the "
        "model before asking for a range",
    ),
    "nothing collected per channel": (
        lambda: amax_of(Range(0), QuantSpec(axis=0)),
        CalibrationError,
        "statistics: got nothing collected, want at least one value. Fix: run at least one batch through the "
        "model before asking for a range",
    ),
    "not finite": (
        lambda: amax_of(counting([np.nan, 1.0, np.inf]), QuantSpec()),
        CalibrationError,
        "statistics: got 2 NaN or infinities beside 1 finite values, want finite values only. Fix: find the "
        "layer that produces them in the float model (or the sample in the data) and repair it",
    ),
    "unknown method": (
        lambda: amax_of(collect([1.0]), QuantSpec(), "minmax"),
        QuantValueError,
        f"method: got 'minmax', want one of {', '.join(METHODS)}. Fix: choose a value in that range",
    ),
    "percentile": (
        lambda: amax_of(collect([1.0]), QuantSpec(), "percentile", percentile=101),
        QuantValueError,
        "percentile: got 101, want 0 <= percentile <= 100. Fix: choose a value in that range",
    ),
    "variant": (
        lambda: amax_of(collect([1.0]), QuantSpec(), "entropy", variant="ort"),
        QuantValueError,
        "variant: got 'ort', want one of pytorch_quantization, gtc2017. Fix: choose a value in that range",
    ),
    "start_bin": (
        lambda: amax_of(collect([1.0]), QuantSpec(), "entropy", start_bin=0),
        QuantValueError,
        "start_bin: got 0, want at least 1. Fix: choose a value in that range",
    ),
    "stride": (
        lambda: amax_of(collect([1.0]), QuantSpec(), "entropy", stride=0),
        QuantValueError,
        "stride: got 0, want at least 1. Fix: choose a value in that range",
    ),
    "entropy of a float grid": (
        lambda: amax_of(collect([1.0]), QuantSpec("fp8"), "entropy"),
        UnsupportedError,
        "method: got 'entropy' with format fp8e4m3, want an integer format. Fix: use 'mse' or 'max'",
    ),
    "asymmetric": (
        lambda: amax_of(collect([1.0]), QuantSpec(symmetric=False)),
        UnsupportedError,
        "spec: got int8 per-tensor asymmetric, want a symmetric grid. "
        "Fix: use range_of for an asymmetric one",
    ),
    "per-block": (
        lambda: amax_of(collect([1.0]), QuantSpec(axis=0, block_size=2)),
        UnsupportedError,
        "spec: got int8 per-block(axis=0, block_size=2), want per-tensor or per-channel. Fix: take the range "
        "of every block with numerics.absmax",
    ),
    "axis": (
        lambda: amax_of(collect([[1.0]], 0), QuantSpec(axis=1)),
        CalibrationError,
        "statistics: got axis 0, want axis 1, as the specification has it. Fix: collect with the axis that "
        "the tensor is quantized along",
    ),
    "a range has no bins": (
        lambda: amax_of(Range(), QuantSpec(), "mse"),
        CalibrationError,
        "statistics: got a Range for method 'mse', want a Histogram. Fix: collect a Histogram, or use method "
        "'max'",
    ),
    "no counts": (
        lambda: amax_from_counts(np.zeros(4, int), 0.1, 8, False, "mse"),
        CalibrationError,
        "counts: got no counts, want a vector of whole numbers >= 0, not all of them 0. Fix: collect at "
        "least one batch before asking for amax",
    ),
    "negative counts": (
        lambda: amax_from_counts([1, -1], 0.1, 8, False, "mse"),
        CalibrationError,
        "counts: got int64 of shape (2,), want a vector of whole numbers >= 0, not all of them 0. Fix: "
        "collect at least one batch before asking for amax",
    ),
    "width": (
        lambda: amax_from_counts([1, 1], float("nan"), 8, False, "mse"),
        QuantValueError,
        "width: got nan, want a finite width >= 0. Fix: choose a value in that range",
    ),
}


def counting(x):
    histogram = Histogram(nonfinite="count")
    histogram.collect(np.float32(x))
    return histogram


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_to_do(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(IntactError) as error:
        call()
    assert type(error.value) is kind and str(error.value) == message


@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 4.0, 8.0), (-3.0, 0.0, 5.0)])
def test_mse_takes_no_range_of_zero_for_whole_numbers(values):
    """A range of zero has scale 1, at which small whole numbers have no error."""
    histogram = collect(np.tile(np.array(values, np.float32), 100))
    low, high = range_of(histogram, QuantSpec("uint8", symmetric=False), "mse")
    assert high - low == pytest.approx(max(values) - min((*values, 0.0)), rel=0.01)

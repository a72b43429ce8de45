"""Histogram: what it counts, and that neither batches, order, processes nor merges change it."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intact import numerics
from intact.calib import BINS, Histogram, Range
from intact.errors import CalibrationError

FINITE = hnp.from_dtype(np.dtype(np.float32), allow_nan=False, allow_infinity=False, allow_subnormal=True)
SPECIAL = st.sampled_from(
    [0.0, -0.0, 1e-45, -1e-45, 2.0**-100, 2.0**-24, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 0.99999994]
)
VALUES = hnp.arrays(np.float32, st.integers(0, 60), elements=FINITE | SPECIAL.map(np.float32))


def collect(*batches, axis=None):
    histogram = Histogram(axis)
    for batch in batches:
        histogram.collect(batch)
    return histogram


def test_counts_bounds_and_width_of_a_small_tensor():
    histogram = collect(np.float32([[0.0, 0.75, -1.5], [3.0, -0.0, 3.999]]))
    # The largest magnitude, 3.999, lies in the upper half of 4096 bins when they are 2^-10 wide.
    assert histogram.bin_width == 2.0**-10
    assert (histogram.min, histogram.max, histogram.amax) == (-1.5, np.float32(3.999), np.float32(3.999))
    assert histogram.count == 6 and histogram.nonfinite == 0
    assert {int(i): int(histogram.positive[i]) for i in np.flatnonzero(histogram.positive)} == {
        0: 2,
        768: 1,
        3072: 1,
        4094: 1,
    }
    assert np.flatnonzero(histogram.negative).tolist() == [1536]
    assert (histogram.counts == histogram.negative + histogram.positive).all()


def test_a_larger_value_adds_neighbouring_bins_in_pairs():
    histogram = collect(np.float32([3.0, -1.0, 2.5]))
    before = histogram.counts
    histogram.collect(np.float32([5.0]))
    assert histogram.bin_width == 2.0**-9
    pairs = before.reshape(-1, 2).sum(axis=1)
    expected = np.zeros(BINS, np.int64)
    expected[: BINS // 2] = pairs
    expected[5 * 2**9] += 1
    assert (histogram.counts == expected).all()


@pytest.mark.rule("N10")
@given(VALUES, st.randoms(use_true_random=False))
def test_content_depends_only_on_the_multiset(values, random):
    whole = collect(values)
    shuffled = values.copy()
    random.shuffle(shuffled)
    cuts = sorted(random.randrange(len(values) + 1) for _ in range(random.randrange(6)))
    parts = [collect(part) for part in np.split(shuffled, cuts)]
    while len(parts) > 1:  # any tree of merges
        other = parts.pop(random.randrange(len(parts)))
        parts[random.randrange(len(parts))].merge(other)
    assert parts[0] == whole
    assert collect(*np.split(shuffled, cuts)) == whole
    assert all(
        a.tobytes() == b.tobytes()
        for a, b in zip(parts[0].to_arrays().values(), whole.to_arrays().values(), strict=True)
    )


@given(VALUES)
def test_counts_are_the_normative_ones_at_the_final_width(values):
    histogram = collect(values[: len(values) // 2], values[len(values) // 2 :])
    exponent = int(np.log2(histogram.bin_width))
    negative, positive = numerics.count_pow2(values, exponent, BINS)
    assert (histogram.negative == negative).all() and (histogram.positive == positive).all()
    assert histogram.count == len(values) == histogram.counts.sum()
    if len(values):
        assert (histogram.min, histogram.max) == (values.min(), values.max())
        assert histogram.amax == numerics.absmax(values)


@given(VALUES)
def test_at_least_2048_bins_lie_below_the_maximum(values):
    histogram = collect(values)
    if histogram.amax >= 2.0**-88:
        assert 2048 <= histogram.amax / histogram.bin_width < BINS
    else:
        assert histogram.bin_width == 2.0**-100


@given(VALUES, VALUES, VALUES)
def test_merge_is_commutative_and_associative(a, b, c):
    assert collect(a).merge(collect(b)) == collect(b).merge(collect(a))
    left = collect(a).merge(collect(b)).merge(collect(c))
    assert left == collect(a).merge(collect(b).merge(collect(c)))


@given(VALUES)
def test_edges_nest(values):
    """Collecting beside one huge value equals coarsening what was collected without it."""
    fine, coarse = collect(values), collect(values, np.float32([3e38]))
    shift = int(np.log2(coarse.bin_width / fine.bin_width))
    step = min(BINS, 2**shift)
    merged = fine.counts.reshape(-1, step).sum(axis=1)
    top = int(np.float32(3e38) / coarse.bin_width)
    counts = coarse.counts
    counts[top] -= 1
    assert (counts[: len(merged)] == merged).all() and not counts[len(merged) :].any()


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=4, max_side=5), elements=FINITE))
def test_per_channel_equals_one_histogram_per_channel(x):
    for axis in range(x.ndim):
        channels = collect(x, axis=axis)
        apart = [collect(part) for part in np.moveaxis(x, axis, 0)]
        for name in ("counts", "negative", "positive", "min", "max", "amax", "bin_width", "count"):
            expected = np.stack([getattr(item, name) for item in apart])
            assert (getattr(channels, name) == expected).all(), name
        assert channels.per_tensor() == collect(x)


def test_a_negative_axis_counts_from_the_end_and_merges_into_a_fresh_one(rng):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    assert collect(x, axis=-1) == collect(x, axis=1)
    assert Histogram(-1).merge(collect(x, axis=1)) == collect(x, axis=1)
    assert collect(x, axis=1).merge(Histogram(-1)) == collect(x, axis=1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda d: d.__name__)
def test_other_dtypes_count_as_float32(dtype, rng):
    x = rng.standard_normal(1000).astype(dtype)
    assert collect(x) == collect(numerics.to_float32(x))


def test_strided_tensors_count_as_dense_ones(rng):
    x = rng.standard_normal((6, 8, 10)).astype(np.float32)
    view = x.transpose(2, 0, 1)[::2, :, 1:-1]
    assert collect(view) == collect(view.copy())
    assert collect(view, axis=1) == collect(view.copy(), axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=lambda d: d.__name__)
def test_collecting_makes_no_copy_of_the_tensor(dtype, rng):
    x = rng.standard_normal((1 << 10, 1 << 10)).astype(dtype)
    histogram = collect(x)
    tracemalloc.start()
    try:
        histogram.collect(x.T)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 8


def test_threads_change_nothing(rng):
    x = rng.standard_normal(200_000).astype(np.float32)
    threaded = Histogram()
    threaded.collect(x, threads=2)
    assert threaded == collect(x)


def test_empty_tensors_change_nothing():
    histogram = collect(np.float32([1.0]))
    before = histogram.to_arrays()["positive"].copy()
    histogram.collect(np.zeros((0, 3), np.float32))
    assert (histogram.to_arrays()["positive"] == before).all() and histogram.count == 1
    assert Histogram(1).merge(Histogram(1)).channels == 0


def test_zeros_of_either_sign_are_one_content():
    assert collect(np.float32([-0.0])) == collect(np.float32([0.0]))
    assert not np.signbit(collect(np.float32([-0.0])).min)


def test_readers_cannot_change_the_counts():
    histogram = collect(np.float32([1.0]))
    histogram.counts[:] = 7
    histogram.positive[:] = 7
    histogram.min[...] = 7
    assert histogram == collect(np.float32([1.0]))


@pytest.mark.rule("N16")
@pytest.mark.parametrize("kind", [Histogram, Range], ids=lambda k: k.__name__)
@pytest.mark.parametrize("axis", [None, 1], ids=["per-tensor", "per-channel"])
def test_values_that_are_not_finite_are_refused_and_nothing_is_counted(kind, axis):
    stats = kind(axis)
    good = np.float32([[1.0, 2.0], [3.0, 4.0]])
    stats.collect(good)
    with pytest.raises(CalibrationError) as error:
        stats.collect(np.float32([[np.nan, 1.0], [9.0, -np.inf]]))
    assert str(error.value) == (
        "x: got 1 NaN and 1 infinities among 4 values of shape (2, 2), want finite values. Fix: find the "
        "layer that produces them in the float model (or the sample in the data) and repair it"
    )
    expected = kind(axis)
    expected.collect(good)
    assert stats == expected


@pytest.mark.parametrize("kind", [Histogram, Range], ids=lambda k: k.__name__)
def test_values_that_are_not_finite_can_be_counted_instead(kind):
    stats = kind(0, nonfinite="count")
    stats.collect(np.float32([[np.nan, 1.0, 2.0], [-np.inf, np.inf, np.nan], [1.0, 2.0, 3.0]]))
    assert stats.nonfinite.tolist() == [1, 3, 0] and stats.count.tolist() == [2, 0, 3]
    assert stats.min.tolist() == [1.0, np.inf, 1.0] and stats.max.tolist() == [2.0, -np.inf, 3.0]
    assert stats.amax.tolist() == [2.0, 0.0, 3.0]


def test_float64_beyond_float32_is_infinite():
    with pytest.raises(CalibrationError, match="0 NaN and 1 infinities among 2 values"):
        Histogram().collect(np.array([1e300, 1.0]))


@pytest.mark.parametrize(
    ("axis", "first", "second", "message"),
    [
        (
            1,
            (2, 3),
            (2, 4),
            "channels: got shape (2, 4) with 4 channels on axis 1, want 3 channels, as in what was collected "
            "before. Fix: use one statistic per tensor, and an axis whose size never changes",
        ),
        (
            2,
            (2, 3, 4),
            (2, 3),
            "axis: got a tensor of 2 dimensions for axis 2, want distinct axes that the tensor has. Fix: "
            "collect tensors of one layout, or use axis=None for one range per tensor",
        ),
    ],
    ids=["channels", "rank"],
)
def test_a_changed_shape_is_refused(axis, first, second, message):
    histogram = collect(np.ones(first, np.float32), axis=axis)
    with pytest.raises(CalibrationError) as error:
        histogram.collect(np.ones(second, np.float32))
    assert str(error.value) == message


def test_integers_are_refused():
    with pytest.raises(CalibrationError) as error:
        Histogram().collect(np.arange(3))
    assert str(error.value) == (
        "x: got dtype int64, want one of float32, float16, bfloat16, float64. Fix: collect the real tensor, "
        "before it is quantized or cast to integers"
    )


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Range(), "merge: got a Range, want a Histogram. Fix: collect the tensor with the same kind"),
        (Histogram(0), "axis: got statistics with axis 0, want axis None, as in those that they are merged"),
    ],
    ids=["kind", "axis"],
)
def test_merging_what_does_not_fit_is_refused(other, message):
    with pytest.raises(CalibrationError) as error:
        collect(np.float32([1.0])).merge(other)
    assert str(error.value).startswith(message)


def test_merging_other_channel_numbers_is_refused():
    with pytest.raises(CalibrationError, match=r"a histogram with 3 channels on axis 0, want 2 channels"):
        collect(np.ones((2, 2), np.float32), axis=0).merge(collect(np.ones((3, 2), np.float32), axis=0))


@given(VALUES)
def test_arrays_and_back(values):
    histogram = collect(values)
    assert Histogram.from_arrays(histogram.to_arrays()) == histogram


DAMAGE = {
    "negative count": (lambda a: a["positive"].__setitem__((0, 0), -1), "positive: got a negative count"),
    "sum": (lambda a: a["positive"].__setitem__((0, 0), 1), "count: got [2], want the sum of the bins, [3]"),
    "sum that wraps": (
        lambda a: a["positive"].__setitem__((0, slice(0, 4)), 2**62),
        "count: got [2], want the sum of the bins, [18446744073709551618]",
    ),
    "exponent": (lambda a: a["exponent"].__setitem__(0, 7), "exponent: got [7], want the bin width"),
    "min above max": (lambda a: a["min"].__setitem__(0, 9), "min: got a value above max"),
    "nan": (lambda a: a["max"].__setitem__(0, np.nan), "min, max: got NaN or infinity"),
    "nonfinite": (lambda a: a["nonfinite"].__setitem__(0, -1), "count: got a negative number"),
    "max that no bin holds": (lambda a: a["max"].__setitem__(0, 2.5), "positive: got counts that contradict"),
    "missing": (lambda a: a.pop("min"), "min: got nothing, want float32 of shape (1,)"),
    "dtype": (
        lambda a: a.update(count=a["count"].astype(np.int32)),
        "count: got int32 of shape (1,), want int64 of shape (1,)",
    ),
    "bins": (
        lambda a: a.update(negative=a["negative"][:, :9]),
        "negative: got int64 of shape (1, 9), want int64 of shape (1, 4096)",
    ),
    "no exponent": (lambda a: a.pop("exponent"), "exponent: got no vector"),
    "values without a count": (
        lambda a: a.update(count=np.zeros(1, np.int64)),
        "min, max: got values without a count",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_arrays_are_refused(name):
    damage, message = DAMAGE[name]
    arrays = {key: array.copy() for key, array in collect(np.float32([3.0, -1.0])).to_arrays().items()}
    damage(arrays)
    with pytest.raises(CalibrationError) as error:
        Histogram.from_arrays(arrays)
    assert str(error.value).startswith(message)
    assert "Fix: collect the tensor again, or restore the undamaged file" in str(error.value)


def test_repr():
    assert repr(Histogram(1)) == "Histogram(axis=1, nothing collected)"
    assert repr(collect(np.float32([1.0, -2.0]))) == "Histogram(axis=None, count=2, min=-2.0, max=1.0)"


@pytest.mark.parametrize("wider", [1.0, 1e6], ids=["fits", "widens"])
def test_a_refused_tensor_leaves_the_counts_as_they_were(rng, wider):
    histogram, x = Histogram(), rng.standard_normal(500).astype(np.float32)
    histogram.collect(x)
    before = {name: array.copy() for name, array in histogram.to_arrays().items()}
    bad = np.append(wider * x, np.float32(np.nan))
    with pytest.raises(CalibrationError, match="NaN"):
        histogram.collect(bad)
    assert all(np.array_equal(before[name], array) for name, array in histogram.to_arrays().items())


def test_collecting_is_merging_what_each_tensor_has_alone(rng):
    tensors = [(10.0**power * rng.standard_normal(300)).astype(np.float32) for power in (-3, 2, 0, 5, -9)]
    tensors.append(np.array([-0.0], np.float32))
    together, merged = Histogram(), Histogram()
    for x in tensors:
        together.collect(x)
        alone = Histogram()
        alone.collect(x)
        merged.merge(alone)
    assert together == merged

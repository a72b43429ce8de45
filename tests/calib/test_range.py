"""Range: exact ends for any granularity, with the independence of a Histogram."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intact import numerics
from intact.calib import Histogram, Range
from intact.errors import CalibrationError

TENSORS = hnp.arrays(
    np.float32,
    st.tuples(st.integers(0, 6), st.just(2), st.just(3)),
    elements=hnp.from_dtype(np.dtype(np.float32), allow_nan=False, allow_infinity=False),
)


def collect(*batches, axis=None):
    reach = Range(axis)
    for batch in batches:
        reach.collect(batch)
    return reach


@pytest.mark.parametrize("axis", [None, 1, -1, (1, 2), (-1, 1)], ids=str)
@given(x=TENSORS, cut=st.integers(0, 6))
def test_ends_are_exact_and_merge(axis, x, cut):
    if not len(x):
        return
    whole = collect(x, axis=axis)
    low, high = numerics.minmax(x, axis)
    assert (whole.min == low).all() and (whole.max == high).all()
    assert (whole.amax == numerics.absmax(x, axis)).all()
    assert all(type(a) is np.ndarray for a in whole.to_arrays().values())
    assert (whole.count * whole.min.size == x.size).all()
    head, tail = x[:cut], x[cut:]
    assert collect(tail, head, axis=axis) == whole
    assert collect(tail, axis=axis).merge(collect(head, axis=axis)) == whole
    assert Range.from_arrays(whole.to_arrays(), whole.axis) == whole


def test_per_tensor_joins_the_channels(rng):
    x = rng.standard_normal((4, 5)).astype(np.float32)
    assert collect(x, axis=0).per_tensor() == collect(x)
    assert Range(0).per_tensor() == Range()


def test_a_changed_shape_is_refused():
    reach = collect(np.ones((2, 3), np.float32), axis=1)
    with pytest.raises(CalibrationError) as error:
        reach.collect(np.ones((2, 4), np.float32))
    assert str(error.value) == (
        "channels: got sizes (4,) on axis 1, want sizes (3,), as in what was collected before. Fix: use one "
        "statistic per tensor, and axes whose sizes never change"
    )


def test_merging_what_does_not_fit_is_refused():
    with pytest.raises(CalibrationError, match="merge: got a Histogram, want a Range"):
        Range().merge(Histogram())
    with pytest.raises(CalibrationError, match=r"axis: got statistics with axis 1, want axis 0"):
        collect(np.ones((2, 2), np.float32), axis=0).merge(collect(np.ones((2, 2), np.float32), axis=1))


def test_repr():
    assert repr(Range()) == "Range(axis=None, nothing collected)"
    reach = collect(np.ones((2, 2), np.float32), axis=(0, 1))
    assert repr(reach) == "Range(axis=(0, 1), count=4, min=1.0, max=1.0)"

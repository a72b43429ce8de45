"""The record of an epilogue, as native steps receive it."""

from __future__ import annotations

import numpy as np
import pytest

from intact.kernels import _native
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import View

CHANNELS = ("multiplier", "bias", "factors", "slopes", "offsets", "gains", "shifts")


def test_every_field_arrives_under_its_name():
    channels = {name: np.arange(3, dtype=np.float32) + i for i, name in enumerate(CHANNELS)}
    residual = View(0, 64, "uint8", [1, 1, 1, 3], [3, 3, 3, 1])
    spec = BoundEpilogue(
        correction=[7, 8, 9], grid=Bytes(1, 2, 250), low=-0.5, high=0.75, residual=residual,
        residual_multiplier=0.25, residual_zero=11, scale=2.0, divides=True, quotient=4.0, **channels,
    ).native  # fmt: skip
    for name, values in channels.items():
        np.testing.assert_array_equal(getattr(spec, name), values)
    np.testing.assert_array_equal(spec.correction, [7, 8, 9])
    assert (spec.floats, spec.zero_point, spec.low, spec.high) == (False, 1, 2, 250)
    assert (spec.real_low, spec.real_high, spec.scale, spec.quotient) == (-0.5, 0.75, 2.0, 4.0)
    assert (spec.residual_multiplier, spec.residual_zero_point, spec.divides) == (0.25, 11, True)
    assert spec.residual is not None


def test_what_is_left_out_has_no_elements_and_no_bytes_mean_floats():
    spec = BoundEpilogue([1.0], [0.0], [0], grid=None).native
    assert spec.floats and spec.residual is None
    assert [getattr(spec, name).size for name in CHANNELS] == [1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("field", "values"), [("bias", np.ones(2)), ("correction", np.ones(2, np.int64))])
def test_arrays_of_another_dtype_are_not_converted(field, values):
    with pytest.raises(TypeError):
        setattr(_native.EpilogueSpec(), field, values)


def test_a_function_that_no_kernel_has_is_refused():
    with pytest.raises(ValueError, match="no such function of floats"):
        _native.EpilogueSpec().set_function("float_steps_ref", "nothing")

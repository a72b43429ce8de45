"""One end of the house to the other in a second: what `make quick` runs."""

from __future__ import annotations

import numpy as np
import pytest

import intact
from intact import kernels, numerics


def test_native_kernel_answers_as_numerics_does() -> None:
    spec = intact.QuantSpec("int8", axis=0)
    x = np.linspace(-3, 3, 2 * 37, dtype=np.float32).reshape(2, 37)
    scale = numerics.scale_from_amax(numerics.absmax(x, 0), spec)
    zero = np.zeros(2, np.int32)
    np.testing.assert_array_equal(
        kernels.fake_quantize(x, scale, zero, spec), numerics.fake_quantize(x, scale, zero, spec)
    )


def test_an_error_says_where_what_and_how() -> None:
    with pytest.raises(intact.IntactError, match=r"^format: got 'int99', want intN .*\. Fix: choose one"):
        intact.QuantSpec("int99")

"""Floats within two bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intact import numerics

INF, NAN = math.inf, math.nan


@pytest.mark.rule("N49")
def test_clip():
    x = np.array([-INF, -2, -0.0, 0.5, 2, INF, NAN], np.float32)
    np.testing.assert_array_equal(numerics.clip(x, -1, 1), np.clip(x, -1, 1))
    assert np.signbit(numerics.clip(x, 0, 6)[2])
    np.testing.assert_array_equal(numerics.clip(x[:-1], 3, 1), np.ones(6))  # ONNX: the high end comes last
    np.testing.assert_array_equal(numerics.clip(x, -INF, 0.1)[3:], np.float32([0.1, 0.1, 0.1, NAN]))

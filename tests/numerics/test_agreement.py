"""Float evaluations stay near the truth, and near the library whose vocabulary we speak."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)
BOUNDARY = 1e-3  # of a step: where the float evaluation of a layer may round to the other code


@pytest.mark.rule("N33")
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual-relu"])
def test_float_evaluation_differs_by_one_code_and_only_at_a_boundary(residual, rng):
    """A layer as module and file compute it, DQ -> float32 product -> Q, against the integer layer."""
    x, w = rng.random((300, 96), np.float32), rng.standard_normal((64, 96)).astype(np.float32)
    bias, r = rng.standard_normal(64).astype(np.float32), rng.standard_normal((300, 64)).astype(np.float32)
    s_x, z_x = nx.affine_from_range(*nx.minmax(x), U8)
    s_w, s_r = nx.scale_from_amax(nx.absmax(w, 0), S8), nx.scale_from_amax(nx.absmax(r), S8)
    per_row = QuantSpec(axis=0)
    qx, qw, qr = nx.quantize(x, s_x, z_x, U8), nx.quantize(w, s_w, 0, per_row), nx.quantize(r, s_r, 0, S8)

    real = nx.dequantize(qx, s_x, z_x, U8) @ nx.dequantize(qw, s_w, 0, per_row).T + bias
    if residual:
        real = np.maximum(real + nx.dequantize(qr, s_r, 0, S8), np.float32(0))
    s_y, z_y = nx.affine_from_range(*nx.minmax(real), U8)
    simulated = nx.quantize(real, s_y, z_y, U8)

    exact = nx.requantize(
        nx.linear(qx, qw, int(z_x)),
        nx.multipliers(s_x, s_w),
        bias,
        s_y,
        int(z_y),
        U8,
        residual=nx.Residual(qr, s_r) if residual else None,
        bounds=nx.activation_bounds(0.0, np.inf, s_y, int(z_y), U8) if residual else None,
        axis=-1,
    )
    differs = exact != simulated
    steps = real.astype(np.float64) / s_y
    to_boundary = np.abs(steps - np.floor(steps) - 0.5)
    assert np.abs(exact - simulated).max() <= 1
    assert (to_boundary[differs] < BOUNDARY).all()
    assert differs.mean() < BOUNDARY  # hardly ever, where steps are spread evenly


amaxes = st.floats(2.0**-10, 2.0**10, width=32)


@pytest.mark.rule("N34")
@given(amaxes, st.floats(-1.25, 1.25, width=32))
def test_the_old_librarys_product_differs_only_next_to_a_tie(amax, part):
    """x * (127 / amax) and its way back, against division: one code next to a tie, else two ulp."""
    x, spec = np.float32(amax) * np.float32(part), QuantSpec(narrow=True)
    scale, old_scale = nx.scale_from_amax(amax, spec), nx.inverse_scale_view(amax, spec)
    ours, theirs = nx.quantize(x, scale, 0, spec), np.clip(np.rint(x * old_scale), -127, 127)
    steps = abs(float(x) / float(scale))
    if abs(steps - np.floor(steps) - 0.5) > 4 * np.spacing(np.float32(steps)):
        assert ours == theirs
        back, old_back = nx.dequantize(ours, scale, 0, spec), np.float32(theirs) / old_scale
        assert abs(back - old_back) <= 2 * np.spacing(np.abs(back))
    assert abs(ours - theirs) <= 1

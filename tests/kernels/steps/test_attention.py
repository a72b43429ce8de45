"""Attention as one step equals its three steps by numerics, on every pair of kernels of this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import float_steps
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.float_steps import Product, Real
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)
# 2e-7 is too small, and 3 too large, for bounds of probabilities to be of use.
SCALES = (1 / 255, 4e-4, 2**-13, 0.02, 2e-7, 3.0)


def product(
    a: Real, b: Real, y: Real, multiplier: float, low: float = -np.inf, high: float = np.inf
) -> Product:
    grid = None if y.view.itemsize == 4 else Bytes(y.zero, y.low, y.high)
    return Product(a, b, y, BoundEpilogue([multiplier], [0.0], [0], grid, low, high))


def _sizes_alone(dtype: str, *sizes: int) -> View:
    return View(0, 0, dtype, sizes, (0,) * len(sizes))


def _check_probabilities(
    runner: Any,
    kernels: dict[str, str],
    scores: np.ndarray,
    codes: Real,
    multiplier: float,
    gain: float = 1.0,
    mask: np.ndarray | None = None,
) -> None:
    """Of integer scores, bytes [rows, tokens]: the other factors are units, so that the step gives the codes
    of the softmax, less their zero point."""
    rows, tokens = scores.shape
    run = runner(2)
    unit, y = Real(run.input(np.eye(tokens, dtype=np.uint8))), Real(run.output((rows, tokens), np.float32))
    first = product(Real(run.input(scores)), unit, Real(_sizes_alone("float32", rows, tokens)), multiplier)
    hidden = None if mask is None else Real(run.input(mask))
    step = float_steps.attention(first, product(codes, unit, y, 1.0), gain=gain, mask=hidden, kernels=kernels)
    got = run.run(step)
    real = numerics.to_real(scores.astype(np.int32), np.float32(multiplier), 0.0)
    soft = numerics.softmax(real, gain=np.float32(gain), mask=mask)
    finite = np.where(np.isnan(soft), np.float32(-np.inf), soft)  # of a NaN: the lowest byte
    want = numerics.quantize(finite, np.float32(codes.scale), codes.zero, UINT8)
    np.testing.assert_array_equal(got, (np.clip(want, codes.low, codes.high) - codes.zero).astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 9),
    tokens=st.integers(1, 140),
    gain=st.sampled_from([1.0, 0.125, -0.3, 0.0, 1e38]),
    hidden=st.sampled_from(["", "some", "all of a row", "a NaN", "an infinity"]),
)
def test_probabilities(
    runner: Any,
    matmul_kernel: str,
    float_steps_kernel: str,
    seed: int,
    rows: int,
    tokens: int,
    gain: float,
    hidden: str,
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 256, (rows, tokens)).astype(np.uint8)
    mask = rng.standard_normal((rows, tokens)).astype(np.float32) if hidden else None
    if mask is not None:
        mask[rng.random(mask.shape) < 0.4] = rng.choice([-np.inf, -1e4, -3e38])
        mask[0] = -np.inf if hidden == "all of a row" else mask[0]
        mask[0, -1] = {"a NaN": np.nan, "an infinity": np.inf}.get(hidden, mask[0, -1])
    low, high = sorted(rng.integers(0, 256, 2).tolist())
    view = _sizes_alone("uint8", rows, tokens)
    codes = Real(view, float(np.float32(rng.choice(SCALES))), int(rng.choice([0, 128, 255])), low, high)
    kernels = {"matmul": matmul_kernel, "float_steps": float_steps_kernel}
    multiplier = float(np.float32(rng.choice([1e-6, 0.004, 0.05, 3.0])))
    _check_probabilities(runner, kernels, scores, codes, multiplier, gain, mask)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("multiplier", [0.002, 0.02, 0.3])
def test_a_million_probabilities(
    runner: Any, float_steps_kernel: str, scale: float, multiplier: float
) -> None:
    """So many that some lie where a cheaper evaluation would round to the other code."""
    scores = np.random.default_rng(3).integers(0, 256, (8000, 128)).astype(np.uint8)
    kernels = {**kernels_in_use(), "float_steps": float_steps_kernel}
    codes = Real(_sizes_alone("uint8", 8000, 128), float(np.float32(scale)), 7)
    _check_probabilities(runner, kernels, scores, codes, float(np.float32(multiplier)))


@pytest.mark.parametrize("tokens", [1000, 1024, 1025, 3000])
def test_long_rows(runner: Any, float_steps_kernel: str, tokens: int) -> None:
    scores = np.random.default_rng(4).integers(0, 256, (5, tokens)).astype(np.uint8)
    kernels = {**kernels_in_use(), "float_steps": float_steps_kernel}
    codes = Real(_sizes_alone("uint8", 5, tokens), float(np.float32(2e-5)), 0)
    _check_probabilities(runner, kernels, scores, codes, float(np.float32(0.01)))

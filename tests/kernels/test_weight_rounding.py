"""Native functions that choose codes of weights equal their formulas, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest

from intact import kernels, numerics
from intact.errors import QuantValueError

Forced = Callable[..., AbstractContextManager[None]]
SHAPES = [(1, 1, 1), (1, 70, 9), (3, 64, 16), (2, 130, 25), (1, 200, 33), (4, 5, 32)]


def positive(rng: np.random.Generator, groups: int, size: int) -> np.ndarray:
    x = rng.standard_normal((groups, 2 * size, size))
    return np.einsum("gri,grj->gij", x, x) + 0.1 * np.eye(size)


@pytest.mark.rule("N63")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments(moments_kernel: str, shape: tuple[int, ...], force_kernels: Forced) -> None:
    rng = np.random.default_rng(sum(shape))
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    blocks = [
        slice(0, shape[2]),
        slice(shape[2] // 2, shape[2]),
        slice(0, 1),
        slice(shape[2] // 3, 4 + shape[2]),
    ]
    for block in blocks:
        with force_kernels(moments_kernel):
            sums = kernels.moments(x, block)
        for got, want in zip(sums, numerics.moments(x, block), strict=True):
            np.testing.assert_array_equal(got, want)


def test_moments_of_nothing_are_refused() -> None:
    for shape, block in (((2, 0, 3), slice(0, 3)), ((2, 3), slice(0, 3)), ((1, 2, 3), slice(3, 5))):
        with pytest.raises(QuantValueError, match="one matrix for each group"):
            kernels.moments(np.zeros(shape, np.float32), block)


@pytest.mark.rule("N63")
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (3, 9), (2, 25), (1, 128)])
def test_unit_factors(groups: int, size: int) -> None:
    matrices = positive(np.random.default_rng(size), groups, size)
    original, factors = matrices.copy(), kernels.unit_factor(matrices)
    np.testing.assert_array_equal(matrices, original)
    np.testing.assert_array_equal(factors, numerics.unit_factor(matrices))
    assert np.array_equal(np.triu(factors), factors) and (np.diagonal(factors, axis1=1, axis2=2) == 1).all()
    middle = np.linalg.solve(factors, matrices) @ np.linalg.inv(factors).transpose(0, 2, 1)
    diagonal = np.einsum("gii->gi", middle).copy()
    assert (diagonal > 0).all()
    np.testing.assert_allclose(np.einsum("gij,gj,gkj->gik", factors, diagonal, factors), matrices, rtol=1e-9)


@pytest.mark.rule("N63")
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-7, 7), (0, 15)])
@pytest.mark.parametrize(("groups", "outputs", "size"), [(1, 1, 1), (3, 4, 9), (1, 6, 40)])
def test_rounding_together(groups: int, outputs: int, size: int, low: int, high: int) -> None:
    rng = np.random.default_rng(size)
    rows = rng.standard_normal((groups, outputs, size)) * 3
    rows[0, 0, 0] = -0.001  # its point is a plain zero
    steps = rng.uniform(0.01, 1, rows.shape)
    factors = numerics.unit_factor(positive(rng, groups, size))
    got = kernels.round_together(rows, steps, factors, low, high)
    np.testing.assert_array_equal(got, numerics.round_together(rows, steps, factors, low, high))
    assert not np.signbit(got[got == 0]).any()
    codes = got / steps
    assert np.allclose(codes, np.rint(codes)) and codes.min() >= low - 1e-9 and codes.max() <= high + 1e-9


def test_ties_go_to_the_even_code() -> None:
    rows = np.array([[[0.5, 1.5, 2.5, -0.5, -1.5]]])
    got = kernels.round_together(rows, np.ones((1, 1, 5)), np.eye(5)[None], -8, 7)
    np.testing.assert_array_equal(got, [[[0, 2, 2, 0, -2]]])


@pytest.mark.rule("N63")
@pytest.mark.parametrize(("groups", "outputs", "size"), [(1, 1, 1), (3, 4, 9), (2, 6, 40)])
def test_quadratic_forms(groups: int, outputs: int, size: int) -> None:
    rng = np.random.default_rng(size)
    rows, matrices = rng.standard_normal((groups, outputs, size)), positive(rng, groups, size)
    got = kernels.quadratic_forms(rows, matrices)
    np.testing.assert_array_equal(got, numerics.quadratic_forms(rows, matrices))
    np.testing.assert_allclose(got, np.einsum("goi,gij,goj->go", rows, matrices, rows), rtol=1e-10)


def divergences(counts: np.ndarray, levels: int, candidates: np.ndarray) -> np.ndarray:
    """KL(P || Q) of each candidate, from its definition."""
    best_codes = []
    for end in candidates:
        real = counts[:end].copy()
        real[-1] += counts[end:].sum()
        model = np.zeros(end)
        part = np.arange(end) * levels // end
        for level in range(levels):
            inside = (part == level) & (counts[:end] > 0)
            if inside.any():
                model[inside] = counts[:end][inside].sum() / inside.sum()
        p, q = real / real.sum(), model / max(model.sum(), 1e-300)
        seen = p > 0
        with np.errstate(divide="ignore"):
            best_codes.append(float((p[seen] * np.log(p[seen] / q[seen])).sum()) if model.any() else np.inf)
    return np.array(best_codes)


@pytest.mark.parametrize("levels", [1, 7, 16])
def test_entropy_divergences(levels: int) -> None:
    rng = np.random.default_rng(levels)
    counts = rng.poisson(np.exp(5 - np.arange(60) / 8)).astype(np.float64)
    candidates = np.arange(levels, len(counts) + 1)
    mass, filled = (np.concatenate([[0.0], np.cumsum(a)]) for a in (counts, (counts > 0).astype(np.float64)))
    order = rng.permutation(len(candidates))
    got = kernels.entropy_divergences(
        counts, mass, filled, levels, candidates[order], np.full(len(candidates), -np.inf), 1e-9
    )
    np.testing.assert_allclose(got, divergences(counts, levels, candidates[order]), atol=1e-12)


def test_bounds_end_the_search_for_the_least_divergence() -> None:
    counts = np.array([8.0, 4, 2, 1])
    mass, filled = np.concatenate([[0.0], np.cumsum(counts)]), np.arange(5.0)
    bounds = np.array([-np.inf, 1e9, 1e9])
    got = kernels.entropy_divergences(counts, mass, filled, 1, np.array([4, 3, 2]), bounds, 1e-9)
    assert np.isfinite(got[0]) and np.isinf(got[1:]).all()

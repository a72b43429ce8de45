"""States get one range in each step, and their product is added to the sums over the inputs."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx


def weights(rng: np.random.Generator, hidden: int) -> nx.DynamicStateWeights:
    rows = 4 * hidden
    return nx.DynamicStateWeights(
        rng.integers(0, 256, (rows, hidden)).astype(np.uint8),
        rng.uniform(1e-3, 5e-3, rows).astype(np.float32), rng.integers(0, 256, rows).astype(np.uint8),
    )  # fmt: skip


@pytest.mark.rule("N74")
def test_a_step_is_the_formula() -> None:
    rng = np.random.default_rng(0)
    w, h = weights(rng, 7), rng.uniform(-1, 1, (3, 7)).astype(np.float32)
    start = rng.normal(0, 1, (3, 28)).astype(np.float32)
    codes = nx.quantize_dynamic(h, symmetric=False, per="tensor")
    acc = nx.linear(codes.codes, w.states, int(codes.zero_points), w.zero_points)
    product = acc.astype(np.float32) * (codes.scales * w.scales)
    np.testing.assert_array_equal(w.sums(start, h), start + (np.float32(0) + product))


@pytest.mark.rule("N74")
def test_rows_that_have_ended_do_not_widen_the_range() -> None:
    rng = np.random.default_rng(1)
    w, start = weights(rng, 6), rng.normal(0, 2, (5, 2, 24)).astype(np.float32)
    h, c = np.array([[8.0] * 6, [0.5] * 6], np.float32), np.zeros((2, 6), np.float32)
    both, _, _ = nx.recurrence("lstm", start, w, h, c, np.array([0, 5], np.int32))
    alone, _, _ = nx.recurrence("lstm", start[:, 1:], w, h[1:], c[1:])
    np.testing.assert_array_equal(both[:, 1:], alone)
    assert not both[:, 0].any()

"""Products of two activations equal numerics.matmul and its epilogues, on every kernel of this machine."""

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
SEEDS = st.integers(0, 2**32 - 1)


def product(
    a: Real, b: Real, y: Real, multiplier: float, low: float = -np.inf, high: float = np.inf
) -> Product:
    grid = None if y.view.itemsize == 4 else Bytes(y.zero, y.low, y.high)
    return Product(a, b, y, BoundEpilogue([multiplier], [0.0], [0], grid, low, high))


def _codes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind < 2:
        return rng.integers(0, 256, shape).astype(np.uint8)
    return np.full(shape, 255 if kind == 2 else 0, np.uint8)


def _input(run: Any, rng: np.random.Generator, codes: np.ndarray, batch: tuple[int, ...]) -> View:
    """A view in any order of axes, under the leading axes `batch`."""
    view = run.input(codes, tuple(rng.permutation(codes.ndim).tolist()), gap=int(rng.integers(0, 3)))
    lead = len(batch) + 2 - codes.ndim
    sizes = (1,) * lead + codes.shape
    strides = (0,) * lead + tuple(view.strides)
    spread = [0 if n == 1 else s for n, s in zip(sizes, strides, strict=True)]
    return View(view.block, view.offset, "uint8", (*batch, *sizes[-2:]), spread)


@settings(deadline=None, max_examples=120)
@given(
    seed=SEEDS,
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 70), st.integers(1, 70)),
    codes=st.booleans(),
)
def test_matmul(
    runner: Any,
    matmul_kernel: str,
    seed: int,
    batch: tuple[int, ...],
    sizes: tuple[int, int, int],
    codes: bool,
) -> None:
    rng = np.random.default_rng(seed)
    i, k, j = sizes
    run, zeros = runner(), [int(rng.choice([0, 128, 255, rng.integers(0, 256)])) for _ in range(2)]
    a = _codes(rng, *(n if rng.integers(3) else 1 for n in batch), i, k)
    b = _codes(rng, *(n if rng.integers(3) else 1 for n in batch), k, j)
    a, b = (x[(0,) * int(rng.integers(0, x.ndim - 1)) if 1 in x.shape[:1] else ()] for x in (a, b))
    multiplier = np.float32(rng.uniform(1e-4, 1e-2))
    y_view = run.output(
        (*batch, i, j),
        np.uint8 if codes else np.float32,
        tuple(rng.permutation(len(batch) + 2).tolist()),
        int(rng.integers(0, 3)),
    )
    low, high = sorted(rng.integers(0, 256, 2).tolist())
    y = Real(y_view, 1.0, int(rng.integers(0, 256)), low, high)
    sides = [Real(_input(run, rng, x, batch), 1.0, zero) for x, zero in zip((a, b), zeros, strict=True)]
    kernels = {**kernels_in_use(), "matmul": matmul_kernel}
    got = run.run(float_steps.matmul(product(*sides, y, float(multiplier), -2.0, 30.0), kernels))
    acc = np.broadcast_to(numerics.matmul(a, b, *zeros), got.shape)
    if codes:
        want = numerics.requantize_by_product(acc, multiplier, 0.0, y.zero, UINT8, bounds=(low, high))
        want = want.astype(np.uint8)
    else:
        want = np.clip(numerics.to_real(acc, multiplier, 0.0), np.float32(-2), np.float32(30))
    np.testing.assert_array_equal(got, want)
    assert run.only_wrote(y_view)


@pytest.mark.parametrize("shape", [(1, 300, 64, 130), (3, 128, 128, 64), (2, 5, 2000, 3)], ids=str)
def test_larger_products_in_several_pieces(runner: Any, matmul_kernel: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    n, i, k, j = shape
    run = runner(2)
    a, b = (rng.integers(0, 256, s).astype(np.uint8) for s in ((n, i, k), (n, k, j)))
    y = Real(run.output((n, i, j), np.float32))
    kernels = {**kernels_in_use(), "matmul": matmul_kernel}
    whole = product(Real(run.input(a), 1, 128), Real(run.input(b), 1, 7), y, 1.0)
    step = float_steps.matmul(whole, kernels)
    np.testing.assert_array_equal(run.run(step), numerics.matmul(a, b, 128, 7).astype(np.float32))


def test_heads_are_read_where_they_lie(runner: Any, matmul_kernel: str) -> None:
    """[B, T, H, D] as scores [B, H, T, T] and back, without a transposed copy."""
    rng = np.random.default_rng(2)
    batch, tokens, heads, width = 2, 19, 3, 16
    q, k = (rng.integers(0, 256, (batch, tokens, heads, width)).astype(np.uint8) for _ in range(2))
    run = runner()
    views = [run.input(x) for x in (q, k)]

    def view(x: View, order: tuple[int, ...]) -> View:
        sizes, strides = ([axes[i] for i in order] for axes in (x.sizes, x.strides))
        return View(x.block, x.offset, "uint8", sizes, strides)

    y = Real(run.output((batch, heads, tokens, tokens), np.float32))
    a, b = Real(view(views[0], (0, 2, 1, 3)), 1, 128), Real(view(views[1], (0, 2, 3, 1)), 1, 128)
    got = run.run(float_steps.matmul(product(a, b, y, 0.5), {**kernels_in_use(), "matmul": matmul_kernel}))
    acc = numerics.matmul(q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1), 128, 128)
    np.testing.assert_array_equal(got, numerics.to_real(acc, np.float32(0.5), 0.0))


@pytest.mark.parametrize(
    ("a", "b", "y", "message"),
    [
        ((2, 3), (4, 5), (2, 5), "do not fit each other"),
        ((2, 3), (3, 5), (2, 6), "do not fit each other"),
        ((1, 2, 3), (3, 5), (2, 5), "the same number of axes"),
        ((2, 2, 3), (3, 3, 5), (3, 2, 5), "differ in their sizes"),
    ],
    ids=["depth", "columns", "rank", "batch"],
)
def test_makers_refuse(a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...], message: str) -> None:
    views = [Real(View(1, 0, "uint8", s, (1,) * len(s))) for s in (a, b, y)]
    with pytest.raises(ValueError, match=message):
        float_steps.matmul(product(*views, 1.0))


def test_makers_refuse_zero_points_and_multipliers() -> None:
    a, b, y = (Real(View(n, 0, "uint8", (2, 2), (2, 1))) for n in range(3))
    with pytest.raises(ValueError, match="zero point is out of range"):
        float_steps.matmul(product(Real(a.view, 1.0, 256), b, y, 1.0))
    with pytest.raises(ValueError, match="multiplier is not finite"):
        float_steps.matmul(product(a, b, y, float("inf")))

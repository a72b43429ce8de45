"""Native top-k against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.numerics.arg_max import ORDER_DTYPES
from intact.numerics.top_k import top_k

SPECIAL = np.float32([0, -0.0, np.nan, np.inf, -np.inf])
SHAPES = [(7,), (3, 300), (300, 3), (2, 5, 4, 3), (3, 0, 2), (0, 4)]


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, x).astype(dtype) if dtype == "float32" else x


def reversed_axes(shape: tuple[int, ...], turned: bool) -> tuple[int, ...] | None:
    return tuple(range(len(shape)))[::-1] if turned else None


@pytest.mark.rule("N58")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k(runner: Any, dtype: str, shape: tuple[int, ...], turned: bool, largest: bool) -> None:
    x = numbers(dtype, shape)
    for axis, size in enumerate(shape):
        for k in {0, min(2, size), size}:
            want, where = top_k(x, k, axis, largest)
            run = runner(2)
            y = run.output(want.shape, np.dtype(dtype).type, gap=0 if turned else 1)
            places = run.output(want.shape, np.int64)
            view = run.input(x, order=reversed_axes(shape, turned))
            got = run.run(moves.top_k(view, y, places, axis, largest=largest))
            np.testing.assert_array_equal(got, want, strict=True)
            np.testing.assert_array_equal(run.result(1), where, strict=True)
            assert run.only_wrote(y)


@pytest.mark.parametrize("dtype", ORDER_DTYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["any order", "ascending", "descending", "equal", "few values"])
@pytest.mark.parametrize("k", [1, 16, 17, 256, 257, 1000, 3000])
def test_top_k_of_long_lines(runner: Any, dtype: str, largest: bool, kind: str, k: int) -> None:
    """Few, some, most and all of a line, each kept and sorted in another way."""
    rng, shape = np.random.default_rng(0), (2, 3000)
    ends = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype, (-(2**31), 2**31))
    x = rng.integers(*((0, 4) if kind == "few values" else ends), shape).astype(dtype)
    if dtype == "float32":
        x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), x)
    if kind == "equal":
        x = x[:, :1].repeat(shape[1], 1)
    elif kind.endswith("scending"):
        x = np.sort(x)[:, :: 1 if kind == "ascending" else -1]
    want, where = top_k(x, k, 1, largest)
    run = runner()
    y, places = run.output(want.shape, np.dtype(dtype).type), run.output(want.shape, np.int64)
    got = run.run(moves.top_k(run.input(x), y, places, 1, largest=largest))
    np.testing.assert_array_equal(got, want, strict=True)
    np.testing.assert_array_equal(run.result(1), where, strict=True)
    assert got.tobytes() == np.take_along_axis(x, where, 1).tobytes()  # the very bits

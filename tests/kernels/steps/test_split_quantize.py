"""Floats to the high and low bytes of codes of 16 bits equal numerics, on every kernel of this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact import numerics
from intact.kernels import pointwise
from intact.kernels.registry import kernels_in_use
from intact.spec import QuantSpec

SEEDS = st.integers(0, 2**32 - 1)
SCALES = st.floats(2**-6, 2**6, width=32)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)
WIDE = [("int16", 0), ("int16", -12345), ("uint16", 0), ("uint16", 40000)]


def order_of(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    return tuple(rng.permutation(rank).tolist())


def kernels_of(**names: str) -> dict[str, str]:
    return {**kernels_in_use(), **names}


def split_codes(x: np.ndarray, scale: float, format: str, zero: int) -> tuple[np.ndarray, np.ndarray]:
    spec = QuantSpec(format, symmetric=zero == 0)
    above = numerics.quantize(x, np.float32(scale), zero, spec) - int(spec.qmin)
    return (above >> 8).astype(np.uint8), (above & 255).astype(np.uint8)


def ends_of(format: str, zero: int) -> tuple[int, int]:
    spec = QuantSpec(format, symmetric=zero == 0)
    return int(spec.qmin) - zero, int(spec.qmax) - zero


@pytest.mark.rule("N62")
@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, shape=SIZES, scale=SCALES, grid=st.sampled_from(WIDE))
def test_bytes_of_16_bits_in_any_order(
    runner: Any, quantize_kernel: str, transpose_kernel: str, seed: int, shape: tuple[int, ...], scale: float,
    grid: tuple[str, int],
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * scale * 20000).astype(np.float32)
    run = runner()
    x_view = run.input(x, order_of(rng, x.ndim), gap=int(rng.integers(0, 3)))
    lies = {"order": order_of(rng, x.ndim), "gap": int(rng.integers(0, 3))}
    high, low = run.output(shape, **lies), run.output(shape, **lies)
    kernels = kernels_of(quantize=quantize_kernel, transpose=transpose_kernel)
    outputs = run.run(pointwise.split_quantize(x_view, high, low, scale, ends_of(*grid), kernels))
    want = split_codes(x, scale, *grid)
    np.testing.assert_array_equal(outputs, want[0])
    np.testing.assert_array_equal(run.result(1), want[1])
    assert run.only_wrote(high)


@pytest.mark.parametrize("shape", [(1, 3, 224, 224), (2, 3, 7, 33), (1, 64, 14, 14)], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_bytes_of_16_bits_of_images(
    runner: Any, quantize_kernel: str, transpose_kernel: str, shape: tuple[int, ...], threads: int
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    run = runner(threads)
    x_view = run.input(x.transpose(0, 2, 3, 1), (0, 3, 1, 2))
    last = (shape[0], shape[2], shape[3], shape[1])
    high, low = (run.output(last, halo=(1, 1, 1, 1)) for _ in range(2))
    kernels = kernels_of(quantize=quantize_kernel, transpose=transpose_kernel)
    outputs = run.run(pointwise.split_quantize(x_view, high, low, 1e-4, ends_of("int16", 0), kernels))
    want = split_codes(x, 1e-4, "int16", 0)
    np.testing.assert_array_equal(outputs.transpose(0, 3, 1, 2), want[0])
    np.testing.assert_array_equal(run.result(1).transpose(0, 3, 1, 2), want[1])
    assert run.only_wrote(high)


@pytest.mark.parametrize("grid", WIDE)
def test_bytes_of_16_bits_close_to_ties_and_at_the_ends(
    runner: Any, quantize_kernel: str, grid: tuple[str, int]
) -> None:
    for scale in (2.0**-110, 0.000123, 1.0, 3.7e30):
        ties = ((np.arange(-70000, 70000, 37) + 0.5) * scale).astype(np.float32)
        some = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], np.float32)
        x = np.concatenate([ties, *(np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)), some])
        run = runner()
        views = run.input(x), run.output(x.shape), run.output(x.shape)
        kernels = kernels_of(quantize=quantize_kernel)
        outputs = run.run(pointwise.split_quantize(*views, scale, ends_of(*grid), kernels))
        finite = np.where(np.isnan(x), -np.inf, x).astype(np.float32)
        want = split_codes(finite, scale, *grid)
        np.testing.assert_array_equal(outputs, want[0])
        np.testing.assert_array_equal(run.result(1), want[1])


def test_low_bytes_go_where_the_high_ones_lie_alike(runner: Any) -> None:
    run = runner()
    x, high = run.input(np.zeros((4, 6), np.float32)), run.output((4, 6))
    for low in (run.output((4, 5)), run.output((4, 6), order=(1, 0)), run.output((4, 6), gap=2)):
        with pytest.raises(ValueError, match=r"sizes|lie as the high"):
            pointwise.split_quantize(x, high, low, 1.0, (-32768, 32767))

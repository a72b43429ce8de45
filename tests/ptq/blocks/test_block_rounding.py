"""Codes of block weights: fitted scales, errors that cancel, coordinates that only improve."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.numerics import dequantize_blocks
from intact.ptq.blocks.block_format import BlockFormat
from intact.ptq.blocks.channel_scales import search_channel_scales, smooth_channel_scales
from intact.ptq.blocks.fit_scales import round_to_nearest, short_scales
from intact.ptq.blocks.rounding_methods import (
    POWER,
    damp,
    refine,
    round_by_signs,
    round_half_quadratic,
    round_with_hessian,
)

FORMATS = ("int2", "uint2", "int3", "int4", "uint4", "int5", "int8", "uint8")


def weight_and_inputs(n: int = 24, k: int = 80) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return weights [n, k] and the second moments of correlated inputs, with unlike sizes of channels."""
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((k, k)) * np.exp(-np.arange(k) / 12)[:, None]
    x = rng.standard_normal((4 * k, k)) @ mix
    return rng.standard_normal((n, k)).astype(np.float32), x.T @ x / len(x)


def output_error(rounded: NDArray, weight: NDArray, hessian: NDArray) -> float:
    errors = (rounded - weight).astype(np.float64)
    return float(np.einsum("nk,nk->", errors @ hessian, errors))


def plain_error(weight: NDArray, grid: BlockFormat) -> float:
    """Return the squared error with the scale that the largest value of each block asks for."""
    error = 0.0
    for part in grid.blocks_of(weight.shape[1]):
        block = weight[:, part].astype(np.float64)
        if grid.symmetric:
            scale, zero = np.abs(block).max(1, keepdims=True) / -grid.low, 0.0
        else:
            low, high = np.minimum(block.min(1), 0), np.maximum(block.max(1), 0)
            scale = ((high - low) / grid.high)[:, None]
            zero = np.rint(-low[:, None] / scale)
        codes = np.clip(np.rint(block / scale) + zero, grid.low, grid.high)
        error += float(((block - (codes - zero) * scale) ** 2).sum())
    return error


@pytest.mark.parametrize("name", FORMATS)
def test_fitted_scales_lose_less_than_those_of_the_largest_values(name: str) -> None:
    weight, _ = weight_and_inputs()
    grid = BlockFormat(name, 32)
    rounded = round_to_nearest(weight, grid)
    assert rounded.format == name and rounded.shape == weight.shape and rounded.blocks == 3
    assert output_error(dequantize_blocks(rounded), weight, np.eye(80)) < plain_error(weight, grid)


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_is_the_nearest_one_of_its_scale(name: str) -> None:
    weight, _ = weight_and_inputs()
    grid = BlockFormat(name, 16)
    rounded = round_to_nearest(weight, grid)
    values = dequantize_blocks(rounded)
    scales = np.abs(grid.per_column(rounded.scales, 80))
    inside = (rounded.codes > grid.low) & (rounded.codes < grid.high)
    assert (np.abs(values - weight)[inside] <= scales[inside] * 0.5001).all()


def test_weights_on_a_grid_are_found_again() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(-8, 8, (6, 64)).astype(np.float32)
    codes[:, ::16] = -8
    scales = np.float32([[0.25, -0.5, 1.5, 3]]).repeat(16, axis=1)
    np.testing.assert_array_equal(
        dequantize_blocks(round_to_nearest(codes * scales, BlockFormat("int4", 16))), codes * scales
    )


def test_columns_that_count_more_lose_less() -> None:
    weight, _ = weight_and_inputs()
    importance = np.where(np.arange(80) % 4 == 0, 100.0, 0.01)
    grid = BlockFormat("int3", 16)
    plain, fitted = (dequantize_blocks(round_to_nearest(weight, grid, i)) for i in (None, importance))
    assert output_error(fitted, weight, np.diag(importance)) < output_error(
        plain, weight, np.diag(importance)
    )


@pytest.mark.parametrize("name", ["int4", "uint4", "int3"])
@pytest.mark.parametrize("act_order", [True, False])
def test_errors_cancel_on_the_inputs_that_the_hessian_describes(name: str, act_order: bool) -> None:
    weight, hessian = weight_and_inputs()
    grid = BlockFormat(name, 32)
    nearest = dequantize_blocks(round_to_nearest(weight, grid))
    rounded = round_with_hessian(weight, damp(hessian), grid, act_order=act_order)
    assert output_error(dequantize_blocks(rounded), weight, hessian) < 0.5 * output_error(
        nearest, weight, hessian
    )


def test_independent_inputs_leave_the_nearest_codes() -> None:
    weight, _ = weight_and_inputs()
    grid = BlockFormat("int4", 32)
    rounded = round_with_hessian(weight, np.eye(80), grid)
    np.testing.assert_array_equal(rounded.codes, round_to_nearest(weight, grid).codes)


@pytest.mark.parametrize("name", ["int4", "uint4", "uint2"])
def test_refined_codes_never_lose_more(name: str) -> None:
    weight, hessian = weight_and_inputs()
    grid, h = BlockFormat(name, 32), damp(hessian)
    for start in (round_to_nearest(weight, grid), round_with_hessian(weight, h, grid)):
        errors = [output_error(dequantize_blocks(start), weight, h)]
        for _ in range(3):
            start = refine(start, weight, h, grid, sweeps=1)
            errors.append(output_error(dequantize_blocks(start), weight, h))
        assert errors[1] < 0.9 * errors[0] and (np.diff(errors) <= 1e-6 * errors[0]).all()


def test_channel_scales_lower_the_error_where_some_inputs_are_large() -> None:
    weight, hessian = weight_and_inputs()
    sizes = np.where(np.arange(80) % 16 == 3, 30.0, 1.0)
    hessian = hessian * np.outer(sizes, sizes)
    grid = BlockFormat("int4", 32)
    scales, exponent = search_channel_scales(weight, hessian, np.sqrt(np.diagonal(hessian)), grid)
    rounded = dequantize_blocks(round_to_nearest(weight * scales, grid, np.diagonal(hessian) / scales**2))
    plain = dequantize_blocks(round_to_nearest(weight, grid, np.diagonal(hessian)))
    assert exponent > 0
    assert output_error(rounded / scales, weight, hessian) < 0.7 * output_error(plain, weight, hessian)


def test_scales_fit_float16() -> None:
    values = np.exp2(np.random.default_rng(2).uniform(-12, 12, 1000)).astype(np.float32)
    short = short_scales(values)
    np.testing.assert_array_equal(short, values.astype(np.float16))
    np.testing.assert_array_equal(short_scales(np.float32([0, 1e-38])), 1)


def test_zeros_are_zeros_in_every_format() -> None:
    for name in FORMATS:
        rounded = round_to_nearest(np.zeros((2, 20), np.float32), BlockFormat(name, 16))
        assert not dequantize_blocks(rounded).any() and np.isfinite(rounded.scales).all()


@pytest.mark.parametrize("name", ["nf4", "fp8e4m3", "int9", "float"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(QuantValueError, match="int"):
        BlockFormat(name, 32).bits  # noqa: B018


@pytest.mark.parametrize("name", FORMATS)
def test_half_quadratic_rounding_lowers_the_norm_of_errors(name: str) -> None:
    weight, _ = weight_and_inputs()
    weight[:, ::9] *= 4
    grid = BlockFormat(name, 32)
    norms = [
        float((np.abs(dequantize_blocks(rounded) - weight) ** POWER).sum())
        for rounded in (round_half_quadratic(weight, grid), round_to_nearest(weight, grid))
    ]
    assert norms[0] < norms[1] * (1 if grid.bits < 8 else 1 + 1e-6)  # of float32
    zeros = round_half_quadratic(np.zeros((3, 40), np.float32), grid)
    assert not dequantize_blocks(zeros).any()


@pytest.mark.parametrize("name", FORMATS)
def test_descent_by_signs_lowers_the_error_of_outputs(name: str) -> None:
    weight, hessian = weight_and_inputs()
    grid = BlockFormat(name, 32)
    nearest = round_to_nearest(weight, grid, np.diagonal(hessian))
    learned = round_by_signs(weight, damp(hessian), grid)
    errors = [output_error(dequantize_blocks(w), weight, damp(hessian)) for w in (learned, nearest)]
    assert errors[0] < 0.8 * errors[1]
    rows = round_by_signs(weight[:1, :12], np.eye(12), grid, steps=3)  # one short block
    assert rows.shape == (1, 12) and rows.blocks == 1


def test_smooth_scales_share_ranges_between_inputs_and_weights() -> None:
    weight, _ = weight_and_inputs()
    peaks = np.exp(np.linspace(-3, 3, 80)).astype(np.float32)
    scales = smooth_channel_scales(weight, peaks, 0.5)
    inputs, columns = peaks / scales, np.abs(weight * scales).max(0)
    np.testing.assert_allclose(inputs / inputs.mean(), columns / columns.mean(), rtol=0.01)
    assert np.ptp(np.log(peaks / smooth_channel_scales(weight, peaks, 1.0))) < 0.01
    dead = smooth_channel_scales(weight, np.zeros(80, np.float32), 0.5)
    assert np.isfinite(dead).all() and (dead > 0).all()

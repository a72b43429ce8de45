"""Codes as places in a table of 16 values are the same floats, in 4 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from intact.errors import QuantValueError
from intact.numerics import (
    OWN_TABLE,
    BlockWeights,
    code_values,
    dequantize_blocks,
    has_exact_sums,
    with_table,
)


def blocks_of(rng, name, values=None, zero=None):
    """Return weights [6, 64] whose codes are drawn from `values`."""
    choices = np.arange(2 ** (4 if code_values(name) is not None else 8)) if values is None else values
    dtype = np.int8 if name.startswith("int") else np.uint8
    codes = rng.choice(np.asarray(choices), (6, 64)).astype(dtype)
    scales = rng.normal(0, 1, (6, 4)).astype(np.float32)
    points = None if zero is None else np.full((6, 4), zero, dtype)
    return BlockWeights(codes, name, scales, 16, points)


@pytest.mark.rule("N67")
@pytest.mark.parametrize("name", ["nf4", "iq4", "fp4e2m1"])
def test_formats_of_indices_keep_every_bit(rng, name):
    weights = blocks_of(rng, name)
    result = with_table(weights)
    assert (result.format, result.bits) == (OWN_TABLE, 4)
    assert dequantize_blocks(result).tobytes() == dequantize_blocks(weights).tobytes()
    assert with_table(result) is result
    assert has_exact_sums(weights) == (name != "nf4")


def test_halves_that_are_no_floats_stay_halves():
    codes, scales = np.arange(16, dtype=np.uint8)[None], np.full((1, 1), 2.0**-149, np.float32)
    weights = BlockWeights(codes, "fp4e2m1", scales, 16)
    result = with_table(weights)
    assert np.array_equal(result.scales, scales)
    assert dequantize_blocks(result).tobytes() == dequantize_blocks(weights).tobytes()


@pytest.mark.parametrize(
    ("name", "values", "zero"),
    [
        ("int8", [-128, -1, 0, 127], None),
        ("int8", range(-8, 8), 3),
        ("uint8", range(100, 116), 128),
        ("uint8", [0, 255], 128),
        ("int5", [-16, 15], None),
        ("uint6", [7], None),
    ],
)
def test_integers_of_few_values_take_four_bits(rng, name, values, zero):
    weights = blocks_of(rng, name, values, zero)
    result = with_table(weights)
    assert (result.format, result.bits, result.zero_points) == (OWN_TABLE, 4, None)
    assert np.array_equal(dequantize_blocks(result), dequantize_blocks(weights))


@pytest.mark.parametrize(
    ("name", "values", "zero"),
    [
        ("int8", range(17), None),
        ("int4", range(-8, 8), None),  # which has them already
        ("uint8", [0, 255], None),  # beyond int8
        ("int8", [-128, 127], 1),
        ("fp8e4m3", range(16), None),
    ],
)
def test_other_weights_stay_as_they_are(rng, name, values, zero):
    weights = blocks_of(rng, name, values, zero)
    assert with_table(weights) is weights


def test_zero_points_that_differ_stay(rng):
    weights = blocks_of(rng, "int8", [1, 2], 3)
    points = weights.zero_points.copy()
    points[2, 1] = 4
    other = replace(weights, zero_points=points)
    assert with_table(other) is other


def test_no_codes_have_no_table():
    empty = BlockWeights(np.zeros((0, 8), np.int8), "int8", np.zeros((0, 1), np.float32), 8)
    assert with_table(empty) is empty


@pytest.mark.parametrize(
    "change",
    [
        {"table": None},
        {"table": np.zeros(15, np.float32)},
        {"table": np.zeros(16)},
        {"format": "uint4"},
        {"codes": np.full((6, 64), 16, np.uint8)},
        {"zero_points": np.zeros((6, 4), np.uint8)},
    ],
)
def test_tables_that_do_not_fit(rng, change):
    weights = with_table(blocks_of(rng, "iq4"))
    with pytest.raises(QuantValueError):
        replace(weights, **change)

"""The same floats on another grid, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.block_cases import k_quant, plain

from intact.errors import UnsupportedError
from intact.formats.regrid import BlockGrid, fits, regrid
from intact.numerics import BlockWeights, dequantize_blocks


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({"name": "int4"}, {"format": "uint4", "zero_points": True}),
        ({"name": "int4"}, {"format": "int8"}),
        ({"name": "int4"}, {"format": "uint8", "zero_points": True}),
        ({"name": "int4", "block": 96}, {"format": "int4", "block_size": 32}),
        ({"name": "uint4", "zero": "codes"}, {"format": "int4", "zero_points": True}),
        ({"name": "uint4"}, {"format": "uint4", "minima": True}),
        ({"name": "uint4", "minima": "float16"}, {"format": "uint5", "minima": True}),
        ({"name": "nf4"}, {"format": "nf4"}),
        ({"name": "iq4"}, {"format": "iq4", "block_size": 16}),
        ({"name": "int8", "scale": "bfloat16"}, {"format": "int8", "scales": ("float16", "bfloat16")}),
        ({"name": "int8", "scale": "e8m0"}, {"format": "int8", "scales": ("float16",)}),
    ],
)
def test_every_float_stays(rng, source, target):
    w = plain(rng, **({"scale": "float16"} | source))
    grid = BlockGrid("the test", **target)
    result = regrid(w, grid)
    np.testing.assert_array_equal(dequantize_blocks(result), dequantize_blocks(w))
    assert result.format == grid.format and result.scales.dtype.name in grid.scales
    assert (result.zero_points is not None) == grid.zero_points
    assert (result.minima is not None) == grid.minima
    assert fits(w, grid)


def test_a_common_zero_point_is_shifted_away(rng):
    w = plain(rng, "uint4", scale="float16")
    w = BlockWeights(w.codes, "uint4", w.scales, 32, np.full((5, 3), 8, np.uint8))
    result = regrid(w, BlockGrid("the test", "int4"))
    assert result.zero_points is None
    np.testing.assert_array_equal(dequantize_blocks(result), dequantize_blocks(w))


def test_zero_points_become_minima_where_these_are_exact(rng):
    w = plain(rng, "uint4", scale="e8m0", zero="codes")
    grid = BlockGrid("the test", "uint4", minima=True, scales=("float16",))
    np.testing.assert_array_equal(dequantize_blocks(regrid(w, grid)), dequantize_blocks(w))
    assert not fits(plain(rng, "uint4", scale="float16", zero="codes"), grid)


def test_small_codes_of_a_wide_format_go_to_a_narrow_one(rng):
    narrow = plain(rng, "int4", scale="float16")
    wide = BlockWeights(narrow.codes, "int8", narrow.scales, 32)
    for grid in (BlockGrid("the test", "int4"), BlockGrid("the test", "uint4", zero_points=True)):
        np.testing.assert_array_equal(dequantize_blocks(regrid(wide, grid)), dequantize_blocks(narrow))


def test_two_levels_become_one_where_the_product_is_exact(rng):
    w = k_quant(rng, "uint6", minima=False, zero=True)
    result = regrid(w, BlockGrid("the test", "int6", scales=("float32",)))
    np.testing.assert_array_equal(dequantize_blocks(result), dequantize_blocks(w))
    assert not fits(w, BlockGrid("the test", "int6", scales=("float16",)))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({"name": "int8"}, {"format": "int4"}),
        ({"name": "int4", "scale": "float32"}, {"format": "int4"}),
        ({"name": "int4", "block": 32}, {"format": "int4", "block_size": 48}),
        ({"name": "uint4", "zero": "codes"}, {"format": "int4"}),
        ({"name": "uint4", "zero": "floats"}, {"format": "uint4", "zero_points": True}),
        ({"name": "uint4", "minima": "float16"}, {"format": "uint4"}),
        ({"name": "nf4"}, {"format": "int4"}),
        ({"name": "int4"}, {"format": "fp4e2m1"}),
    ],
)
def test_grids_that_are_too_small_are_refused_with_both_named(rng, source, target):
    w = plain(rng, **({"scale": "float16"} | source))
    with pytest.raises(UnsupportedError, match=f"{w.format} in blocks.*the test.*{target['format']}"):
        regrid(w, BlockGrid("the test", **target))

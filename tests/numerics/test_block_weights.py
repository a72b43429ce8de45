"""Block weights: what their codes stand for, against Python's rationals, ONNX Runtime and ml_dtypes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper
from tests.numerics.block_cases import SCALES, codes_of, k_quant, plain, scales_of
from tests.numerics.exact import exact, fl32
from tests.onnx_models import onnx_model

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.numerics import BlockWeights

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in range(2, 9)]


def by_fractions(w: BlockWeights) -> np.ndarray:
    """The formula of the page, one element at a time."""

    def fine(values, supers, row, block):
        value = exact(values[row, block])
        if supers is None:
            return value
        each = w.blocks // supers.shape[-1] if supers.ndim else 1
        return fl32(value * exact(supers[row, block // each] if supers.ndim else supers[()]))

    table = nx.code_values(w.format)
    result = np.zeros(w.shape, np.float32)
    for row, k in np.ndindex(w.shape):
        block = int(w.groups[k]) if w.groups is not None else k // w.block_size
        q = Fraction(int(w.codes[row, k])) if table is None else exact(table[w.codes[row, k]])
        if w.zero_points is not None:
            q = fl32(q - exact(w.zero_points[row, block]))
        value = fl32(q * fine(w.scales, w.super_scales, row, block))
        if w.minima is not None:
            value = fl32(value + fine(w.minima, w.super_minima, row, block))
        result[row, k] = float(value)
    return result


@pytest.mark.rule("N67")
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("zero", [None, "codes", "floats"])
@pytest.mark.parametrize("minima", [None, "float16"])
def test_the_formula_in_rationals(rng, scale, zero, minima):
    w = plain(rng, "uint5", k=20, n=2, block=8, scale=scale, zero=zero, minima=minima)
    np.testing.assert_array_equal(nx.dequantize_blocks(w), by_fractions(w))


@pytest.mark.rule("N69")
@pytest.mark.parametrize("minima", [False, True])
@pytest.mark.parametrize("largest", [63, 127, 128, 255])
def test_levels_are_split_and_joined(rng, minima, largest):
    w = k_quant(rng, "uint6", k=256, n=2, block=16, minima=minima)
    fine = w.scales.astype(np.uint8) // 4
    fine[0, 0] = largest
    w = replace(w, scales=fine)
    arrays, joined = nx.split_levels(w), nx.join_levels(w)
    assert joined.super_scales is None and joined.super_minima is None
    np.testing.assert_array_equal(nx.dequantize_blocks(joined), nx.dequantize_blocks(w))
    assert ("sub_scales" in arrays) == (largest <= 127)
    for name in ("scales", *["minima"] * minima):
        coarse, fine = arrays[name], arrays.get(f"sub_{name}", np.int8(1))
        assert coarse.dtype == np.float32 and fine.dtype == np.int8
        product = fine.astype(np.float32) * np.repeat(coarse, w.blocks // coarse.shape[-1], axis=-1)
        np.testing.assert_array_equal(product, getattr(joined, name))
    assert set(arrays) <= {"scales", "sub_scales", *["minima", "sub_minima"] * minima}


def test_one_number_for_all_is_a_super_block_of_each_row(rng):
    w = k_quant(rng, "uint6", k=256, n=2, block=16)
    half = np.asarray(0.5, np.float32)
    arrays = nx.split_levels(replace(w, scales=w.scales.astype(np.int8), super_scales=half))
    assert arrays["scales"].shape == (2, 1) and arrays["sub_scales"].shape == w.scales.shape


@pytest.mark.rule("N67")
@pytest.mark.parametrize("minima", [False, True])
def test_sub_scales_under_super_scales_in_rationals(rng, minima):
    w = k_quant(rng, "uint6", k=256, n=2, block=16, minima=minima, zero=not minima)
    np.testing.assert_array_equal(nx.dequantize_blocks(w), by_fractions(w))


@pytest.mark.rule("N67")
def test_one_super_scale_for_all_blocks(rng):
    codes, scales = codes_of(rng, "fp4e2m1", (3, 32)), scales_of(rng, "e4m3", (3, 2))
    w = BlockWeights(codes, "fp4e2m1", scales, 16, super_scales=np.array(0.37, np.float32))
    np.testing.assert_array_equal(nx.dequantize_blocks(w), by_fractions(w))


def test_scales_are_divided_where_the_format_says_so(rng):
    scales, divisor = scales_of(rng, "e4m3", (3, 2)), np.array(37.1, np.float32)
    w = BlockWeights(
        codes_of(rng, "fp4e2m1", (3, 32)), "fp4e2m1", scales, 16, super_scales=divisor, super_divides=True
    )
    expected = [[float(fl32(exact(s) / exact(divisor[()]))) for s in row] for row in scales]
    np.testing.assert_array_equal(nx.block_scales(w), np.float32(expected))


@pytest.mark.rule("N67")
def test_groups_name_the_block_of_each_element(rng):
    w = plain(rng, k=64, block=16, zero="codes")
    order = rng.permutation(64)
    shuffled = BlockWeights(
        w.codes[:, order], w.format, w.scales, 16, w.zero_points, groups=(order // 16).astype(np.int32)
    )
    np.testing.assert_array_equal(nx.dequantize_blocks(shuffled), nx.dequantize_blocks(w)[:, order])


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_codes_are_their_own_values(rng, name):
    assert nx.code_values(name) is None
    w = plain(rng, name, scale="e8m0")
    steps = nx.dequantize_blocks(w) / np.repeat(w.scales.astype(np.float32), 32, axis=1)
    np.testing.assert_array_equal(steps, w.codes)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("fp4e2m1", ml_dtypes.float4_e2m1fn),
        ("fp8e4m3", ml_dtypes.float8_e4m3fn),
        ("fp8e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_codes_of_small_floats_are_their_bit_patterns(name, dtype):
    table = nx.code_values(name)
    values = np.arange(table.size, dtype=np.uint8).view(dtype).astype(np.float32)
    np.testing.assert_array_equal(table, values)


def test_tables_ascend_and_reach_their_ends():
    for name, ends in (("nf4", (-1, 1)), ("iq4", (-127, 113))):
        table = nx.code_values(name)
        assert (np.diff(table) > 0).all() and (table[0], table[-1]) == ends and table.size == 16


def test_a_negative_scale_turns_the_block_around(rng):
    w = plain(rng, "int4")
    turned = BlockWeights(w.codes, w.format, -w.scales, w.block_size)
    np.testing.assert_array_equal(nx.dequantize_blocks(turned), -nx.dequantize_blocks(w))


@pytest.mark.rule("N67")
@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("zero", [None, "codes"])
def test_equals_the_blocked_dequantize_linear_of_onnx_runtime(rng, name, zero):
    w = plain(rng, name, k=64, block=16, zero=zero)
    stored = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}.get(name, w.codes.dtype)
    constants = {"q": w.codes.astype(stored), "s": w.scales}
    if w.zero_points is not None:
        constants["z"] = w.zero_points.astype(stored)
    node = helper.make_node("DequantizeLinear", list(constants), ["y"], axis=1, block_size=16)
    model = onnx_model([node], {}, {"y": [*w.shape]}, constants, opset=21)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {})[0], nx.dequantize_blocks(w))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scales": np.ones((5, 2), np.float32)}, "scales"),
        ({"scales": np.ones((5, 3), np.int8)}, "super_scales"),
        ({"scales": np.ones((5, 3), np.float64)}, "float64"),
        ({"codes": np.full((5, 96), 16, np.uint8)}, "0 to 15"),
        ({"codes": np.zeros((5, 96), np.int8)}, "uint8 for uint4"),
        ({"format": "int9"}, "format"),
        ({"format": "nf4", "zero_points": np.zeros((5, 3), np.uint8)}, "no zero point"),
        ({"zero_points": np.zeros(3, np.uint8)}, "zero_points"),
        ({"minima": np.zeros((5, 3), np.int8)}, "super_minima"),
        ({"super_scales": np.ones((5, 2), np.float32)}, "super_scales"),
        ({"groups": np.full(96, 3, np.int32)}, "groups"),
        ({"groups": np.zeros(95, np.int32)}, "groups"),
        ({"block_size": 0}, "block_size"),
    ],
)
def test_parts_that_do_not_fit_are_refused(rng, change, words):
    w = plain(rng)
    parts = {"codes": w.codes, "format": w.format, "scales": w.scales, "block_size": 32} | change
    with pytest.raises(QuantValueError, match=words):
        BlockWeights(**parts)

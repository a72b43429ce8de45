"""Products with block weights: the formula in rationals, and ONNX Runtime's MatMulNBits."""

from __future__ import annotations

import platform
from fractions import Fraction

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper
from tests.numerics.block_cases import codes_of, k_quant, plain, scales_of
from tests.numerics.exact import exact, fl32
from tests.onnx_models import onnx_model

from intact import numerics as nx
from intact.errors import QuantValueError
from intact.numerics import BlockWeights


def value(number) -> Fraction:
    return exact(np.float32(number))


def by_fractions(x: nx.DynamicActivations, w: BlockWeights, step: int) -> np.ndarray:
    """The sum of the page in pieces of `step` elements, for weights without sub-scales."""
    table, rows = nx.code_values(w.format), x.codes.reshape(-1, x.codes.shape[-1])
    scales, minima = nx.block_scales(w), nx.block_minima(w)
    result = np.zeros((len(rows), len(w.codes)), np.float32)
    for r, n in np.ndindex(result.shape):
        total = Fraction(0)
        for begin in range(0, rows.shape[1], step):
            block = begin // w.block_size
            index = (r, begin // x.block_size) if x.block_size else (r,) if x.scales.ndim else ()
            z_x = 0 if x.zero_points is None else int(x.zero_points.reshape(x.scales.shape)[index])
            s_x, span = value(x.scales[index]), range(begin, min(begin + step, rows.shape[1]))
            zero = None if w.zero_points is None else w.zero_points[n, block]
            whole = zero is None or w.zero_points.dtype.kind in "iu"
            points = int(zero) if zero is not None and whole else 0
            codes = [value(table[q]) if table is not None else int(q) - points for q in w.codes[n]]
            acc = sum((int(rows[r, k]) - z_x) * codes[k] for k in span)
            t = fl32(Fraction(sum(int(rows[r, k]) - z_x for k in span)))
            real = fl32(Fraction(acc))
            if not whole:
                real = fl32(real - fl32(value(zero) * t))
            total = fl32(total + fl32(real * fl32(s_x * value(scales[n, block]))))
            if minima is not None:
                total = fl32(total + fl32(t * fl32(s_x * value(minima[n, block]))))
        result[r, n] = float(total)
    return result


@pytest.mark.rule("N69")
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("activations", ["tensor", "token", 8, 16, 32])
@pytest.mark.parametrize(
    "parts",
    [{}, {"zero": "codes"}, {"zero": "floats"}, {"minima": "float16"}, {"scale": "float16"}],
    ids=["plain", "zero-codes", "zero-floats", "minima", "float16"],
)
def test_the_formula_in_rationals(rng, symmetric, activations, parts):
    w = plain(rng, "uint4", k=40, n=2, block=16, **parts)
    data = rng.normal(size=(2, 40)).astype(np.float32) - np.float32(0.3)
    choice = {"per": activations} if isinstance(activations, str) else {"block_size": activations}
    x = nx.quantize_dynamic(data, symmetric=symmetric, **choice)
    step = min(16, activations) if isinstance(activations, int) else 16
    np.testing.assert_array_equal(nx.block_product(x, w), by_fractions(x, w, step))


@pytest.mark.rule("N69")
@pytest.mark.parametrize("name", ["int2", "int3", "int8", "uint8", "fp4e2m1", "iq4"])
def test_every_format_with_exact_sums(rng, name):
    w = plain(rng, name, k=24, n=2, block=8)
    x = nx.quantize_dynamic(rng.normal(size=(2, 24)), block_size=8)
    np.testing.assert_array_equal(nx.block_product(x, w), by_fractions(x, w, 8))


@pytest.mark.rule("N69")
def test_integer_sub_scales_are_part_of_one_integer_sum(rng):
    w = k_quant(rng, "uint4", k=512, n=3)
    data = rng.normal(size=(2, 512)).astype(np.float32)
    x = nx.quantize_dynamic(data, block_size=256)
    y = np.zeros((2, 3), np.float32)
    for super_block in range(2):
        span, sub = (
            slice(256 * super_block, 256 * super_block + 256),
            slice(8 * super_block, 8 * super_block + 8),
        )
        rows = x.codes[:, span].astype(np.int64)
        steps = w.codes[:, span].astype(np.int64) * np.repeat(w.scales[:, sub].astype(np.int64), 32, axis=1)
        s_x = x.scales[:, super_block, None]
        acc, t = rows @ steps.T, rows @ np.repeat(w.minima[:, sub].astype(np.int64), 32, axis=1).T
        y += acc.astype(np.float32) * (s_x * w.super_scales[:, super_block].astype(np.float32))
        y += t.astype(np.float32) * (s_x * w.super_minima[:, super_block].astype(np.float32))
    np.testing.assert_array_equal(nx.block_product(x, w), y)


@pytest.mark.rule("N69")
def test_sub_scales_under_narrow_activations_are_floats(rng):
    w = k_quant(rng, "uint3", k=256, n=2, block=16, minima=False, zero=True)
    x = nx.quantize_dynamic(rng.normal(size=(1, 256)), block_size=32)
    np.testing.assert_array_equal(nx.block_product(x, w), by_fractions(x, w, 16))


@pytest.mark.rule("N69")
def test_groups_are_summed_block_by_block(rng):
    w = plain(rng, "int4", k=64, block=16)
    order = rng.permutation(64)
    shuffled = BlockWeights(w.codes[:, order], "int4", w.scales, 16, groups=(order // 16).astype(np.int32))
    data = rng.normal(size=(3, 64)).astype(np.float32)
    x, y = (nx.quantize_dynamic(v, per="token") for v in (data, data[:, order]))
    np.testing.assert_array_equal(nx.block_product(x, w), nx.block_product(y, shuffled))
    with pytest.raises(QuantValueError, match="groups"):
        nx.block_product(nx.quantize_dynamic(data, block_size=16), shuffled)


def test_leading_axes_are_rows_and_the_bias_is_added_last(rng):
    w, bias = plain(rng, "int8", k=32, n=4), rng.normal(size=4).astype(np.float32)
    x = nx.quantize_dynamic(rng.normal(size=(2, 3, 32)), block_size=32)
    y = nx.block_product(x, w)
    assert y.shape == (2, 3, 4)
    np.testing.assert_array_equal(nx.block_product(x, w, bias), y + bias)


def test_close_to_the_product_in_floats(rng):
    w = plain(rng, "uint4", k=256, n=8, zero="codes")
    data = rng.normal(size=(4, 256)).astype(np.float32)
    y = nx.block_product(nx.quantize_dynamic(data, block_size=32), w)
    reals = data.astype(np.float64) @ nx.dequantize_blocks(w).T.astype(np.float64)
    assert 0 < np.abs(y - reals).max() < 0.02 * np.abs(reals).max()


@pytest.mark.parametrize("name", ["nf4", "fp8e4m3", "fp8e5m2"])
def test_formats_without_exact_sums_are_refused(rng, name):
    with pytest.raises(QuantValueError, match="dequantize_blocks"):
        nx.block_product(nx.quantize_dynamic(np.ones((1, 32)), block_size=32), plain(rng, name, k=32))


def test_sums_beyond_int32_and_blocks_that_overlap_are_refused(rng):
    huge = BlockWeights(
        np.full((1, 256), 127, np.int8), "int8", np.full((1, 8), 127, np.int8), 32,
        super_scales=np.ones((1, 1), np.float32),
    )  # fmt: skip
    x = nx.quantize_dynamic(np.ones((1, 256)), per="token")
    assert nx.block_product(x, huge).item() == np.float32(127**3 * 256) * (np.float32(1) / np.float32(127))
    wide = BlockWeights(np.full((1, 2**18), 127, np.int8), "int8", np.ones((1, 1), np.float32), 2**18)
    with pytest.raises(QuantValueError, match="2\\*\\*31"):
        nx.block_product(nx.quantize_dynamic(np.ones((1, 2**18)), per="token"), wide)
    with pytest.raises(QuantValueError, match="multiple"):
        nx.block_product(nx.quantize_dynamic(np.ones((1, 96)), block_size=24), plain(rng))
    with pytest.raises(QuantValueError, match="shape"):
        nx.block_product(nx.quantize_dynamic(np.ones((1, 95)), block_size=32), plain(rng))


# -- ONNX Runtime


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """The first code in the lowest bits, rows filled up with zeros."""
    each = 8 // bits
    rows = np.zeros((len(codes), -(-codes.shape[1] // each) * each), np.uint8)
    rows[:, : codes.shape[1]] = codes
    return np.bitwise_or.reduce([rows[:, i::each] << (i * bits) for i in range(each)])


def run_nbits(x: np.ndarray, w: BlockWeights, level: int, bias: np.ndarray | None) -> np.ndarray:
    n, k = w.shape
    constants = {"q": pack(w.codes, w.bits).reshape(n, w.blocks, -1), "s": w.scales}
    inputs = ["x", "q", "s", "", "", ""]
    if w.zero_points is not None:
        is_float = w.zero_points.dtype.kind == "f"
        constants["z"] = w.zero_points.astype(np.float32) if is_float else pack(w.zero_points, w.bits)
        inputs[3] = "z"
    if bias is not None:
        constants["b"], inputs[5] = bias, "b"
    node = helper.make_node(
        "MatMulNBits", inputs, ["y"], domain="com.microsoft", K=k, N=n, bits=w.bits,
        block_size=w.block_size, accuracy_level=level,
    )  # fmt: skip
    model = onnx_model([node], {"x": [*x.shape]}, {"y": None}, constants, domains={"com.microsoft": 1})
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.rule("N70")
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("zero", [None, "codes", "floats"])
@pytest.mark.parametrize(("bits", "block"), [(4, 16), (4, 32), (4, 128), (8, 32), (8, 64)])
def test_agrees_with_matmul_nbits_of_onnx_runtime(rng, bits, block, zero, level):
    """Only the order of float sums differs; int8 activations differ from float ones a thousand times more."""
    if bits == 8 and zero == "floats":
        pytest.skip("ONNX Runtime refuses it")
    if level == 4 and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("kernels of other machines have a scale per row of x")
    name, blocks = f"uint{bits}", (24, 256 // block)
    scales = scales_of(rng, "float32", blocks)
    points = {None: None, "codes": codes_of(rng, name, blocks)}.get(zero, rng.random(blocks, np.float32) * 16)
    w = BlockWeights(codes_of(rng, name, (24, 256)), name, scales, block, points)
    x, bias = rng.normal(size=(3, 256)).astype(np.float32), rng.normal(size=24).astype(np.float32)
    theirs = run_nbits(x, w, level, bias)
    middle = np.full(blocks, 2 ** (bits - 1), np.uint8) if points is None else points
    ours = nx.nbits_product(x, BlockWeights(w.codes, name, scales, block, middle), level, bias)
    size = np.abs(theirs).max()
    assert np.abs(ours - theirs).max() < 2e-6 * size
    if level == 4 and zero != "floats":
        exact_floats = nx.nbits_product(x, BlockWeights(w.codes, name, scales, block, middle), 0, bias)
        assert np.abs(exact_floats - theirs).max() > 1e-4 * size


def test_a_level_that_is_none_is_refused(rng):
    with pytest.raises(QuantValueError, match="accuracy_level"):
        nx.nbits_product(np.ones((1, 96)), plain(rng), 5)

"""Layers of GPTQ, AWQ and compressed-tensors: the formulas of their own code, element by element."""

from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import pytest

from intact.errors import FileFormatError, UnsupportedError
from intact.formats.convert import FORMATS
from intact.formats.packed_layers import LAYER_CODECS
from intact.numerics import BlockWeights, code_bits, dequantize_blocks, join_stream, split_stream


def bit_field(words: np.ndarray, index: int, bits: int) -> int:
    """Field `index` of a stream of int32 words, the lowest bits first."""
    stream = int.from_bytes(np.ascontiguousarray(words).astype("<i4").tobytes(), "little")
    return stream >> (index * bits) & (2**bits - 1)


def gptq_floats(parts: dict[str, np.ndarray], bits: int, offset: int) -> np.ndarray:
    """AutoGPTQ: ``scales[g_idx] * (weight - zeros[g_idx])``, zeros those stored plus 1, within the bits."""
    qweight, qzeros, scales = parts["qweight"], parts["qzeros"], parts["scales"].astype(np.float32)
    k, n = len(parts["g_idx"]), scales.shape[1]
    result = np.zeros((n, k), np.float32)
    for column, element in np.ndindex(n, k):
        group = parts["g_idx"][element]
        zero = (bit_field(qzeros[group], column, bits) + offset) % 2**bits
        code = bit_field(qweight[:, column], element, bits)
        result[column, element] = np.float32(code - zero) * scales[group, column]
    return result


def random_gptq(rng, bits: int, k: int = 64, n: int = 32, group: int = 16, act_order: bool = False) -> dict:
    order = np.arange(k, dtype=np.int32) // group
    return {
        "qweight": rng.integers(-(2**31), 2**31, (k * bits // 32, n)).astype(np.int32),
        "qzeros": rng.integers(-(2**31), 2**31, (k // group, n * bits // 32)).astype(np.int32),
        "scales": (rng.normal(size=(k // group, n)) * 0.01).astype(np.float16),
        "g_idx": rng.permutation(order) if act_order else order,
    }


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8])
@pytest.mark.parametrize(("name", "offset"), [("gptq", 1), ("gptq_v2", 0)])
def test_gptq_is_read_by_its_formula_and_written_back(rng, name, offset, bits, act_order):
    parts = random_gptq(rng, bits, act_order=act_order)
    w = LAYER_CODECS[name].read(parts)
    assert w.format == f"uint{bits}" and w.block_size == 16 and (w.groups is not None) == act_order
    np.testing.assert_array_equal(dequantize_blocks(w), gptq_floats(parts, bits, offset))
    same = LAYER_CODECS[name].write(w)
    assert same.keys() == parts.keys()
    for suffix, part in parts.items():
        np.testing.assert_array_equal(same[suffix], part)
        assert same[suffix].dtype == part.dtype


def test_gptq_without_g_idx_has_blocks_in_order(rng):
    parts = random_gptq(rng, 4)
    w = LAYER_CODECS["gptq"].read({k: v for k, v in parts.items() if k != "g_idx"})
    np.testing.assert_array_equal(dequantize_blocks(w), gptq_floats(parts, 4, 1))


def test_awq_has_its_order_of_nibbles(rng):
    parts = random_gptq(rng, 4) | {"qweight": rng.integers(-(2**31), 2**31, (64, 4)).astype(np.int32)}
    del parts["g_idx"]
    expected = np.zeros((32, 64), np.float32)
    for k, word, nibble in np.ndindex(64, 4, 8):
        column = 8 * word + (0, 2, 4, 6, 1, 3, 5, 7)[nibble]  # AutoAWQ's order_map
        code = int(parts["qweight"][k, word]) >> (4 * nibble) & 15
        zero = int(parts["qzeros"][k // 16, word]) >> (4 * nibble) & 15
        expected[column, k] = np.float32(code - zero) * np.float32(parts["scales"][k // 16, column])
    w = LAYER_CODECS["awq"].read(parts)
    np.testing.assert_array_equal(dequantize_blocks(w), expected)
    same = LAYER_CODECS["awq"].write(w)
    assert all((same[suffix] == part).all() for suffix, part in parts.items())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "groups", "channel"])
@pytest.mark.parametrize("bits", [2, 3, 4, 7, 8])
def test_compressed_tensors_is_read_by_its_formula_and_written_back(rng, bits, kind, dtype):
    n, k, blocks, middle = 6, 64, 1 if kind == "channel" else 4, 2 ** (bits - 1)
    codes = rng.integers(0, 2**bits, (n, k), np.uint8)
    scales = (np.abs(rng.normal(size=(n, blocks))) + 0.1).astype(dtype)
    parts = {
        "weight_packed": join_stream(codes, bits).view("<i4"), "weight_scale": scales,
        "weight_shape": np.array([n, k], np.int64),
    }  # fmt: skip
    order = np.arange(k) // (k // blocks)
    zero = np.zeros((n, blocks), np.int64)
    if kind == "asymmetric":
        fields = rng.integers(0, 2**bits, (n, blocks), np.uint8)
        zero = fields.astype(np.int64) - middle
        parts["weight_zero_point"] = join_stream(np.ascontiguousarray(fields.T), bits).view("<i4").T.copy()
    if kind == "groups":
        order = rng.permutation(order)
        parts["weight_g_idx"] = order.astype(np.int32)
    steps = codes.astype(np.int64) - middle - zero[:, order]
    expected = steps.astype(np.float32) * scales.astype(np.float32)[:, order]
    w = LAYER_CODECS["compressed-tensors"].read(parts)
    np.testing.assert_array_equal(dequantize_blocks(w), expected)
    same = LAYER_CODECS["compressed-tensors"].write(w)
    assert same.keys() == parts.keys()
    assert all(
        (same[suffix].astype(np.float32) == part.astype(np.float32)).all() for suffix, part in parts.items()
    )


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4"])
def test_fp4_of_compressed_tensors(rng, kind):
    packed = rng.integers(0, 256, (3, 32), np.uint8)
    table = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    parts, values = {"weight_packed": packed}, np.zeros((3, 64), np.float32)
    for row, k in np.ndindex(3, 64):
        nibble = packed[row, k // 2] >> (4 * (k % 2)) & 15
        values[row, k] = table[nibble & 7] * (-1 if nibble & 8 else 1)
    if kind == "mxfp4":
        parts["weight_scale"] = rng.integers(100, 150, (3, 2), np.uint8)
        expected = values * np.repeat(np.exp2(parts["weight_scale"].astype(np.float32) - 127), 32, axis=1)
    else:
        parts["weight_scale"] = rng.uniform(1, 400, (3, 4)).astype(ml_dtypes.float8_e4m3fn)
        parts["weight_global_scale"] = np.float32([123.4])
        scales = parts["weight_scale"].astype(np.float32) / parts["weight_global_scale"]
        expected = values * np.repeat(scales, 16, axis=1)
    w = LAYER_CODECS["compressed-tensors"].read(parts)
    np.testing.assert_array_equal(dequantize_blocks(w).view(np.uint32), expected.view(np.uint32))
    same = LAYER_CODECS["compressed-tensors"].write(w)
    assert same.keys() == parts.keys()
    assert all((same[suffix].view(np.uint8) == part.view(np.uint8)).all() for suffix, part in parts.items())


def test_streams_are_those_of_compressed_tensors(rng):
    pytest.importorskip("torch")
    helpers = pytest.importorskip("compressed_tensors.compressors.pack_quantized.helpers")
    import torch

    for bits in range(2, 9):
        codes = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (5, 96)).astype(np.int8)
        theirs = helpers.pack_to_int32(torch.from_numpy(codes), bits).numpy()
        ours = join_stream((codes.astype(np.int16) + 2 ** (bits - 1)).astype(np.uint8), bits)
        np.testing.assert_array_equal(ours.view("<i4"), theirs)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [1, 7, 32, 45])
def test_streams_are_joined_as_they_are_split(rng, bits, count):
    fields = rng.integers(0, 2**bits, (3, count), np.uint8)
    packed = join_stream(fields, bits)
    assert packed.shape == (3, -(-count * bits // 32) * 4)
    np.testing.assert_array_equal(split_stream(packed, bits, count), fields)
    assert [bit_field(packed[0].view("<i4"), i, bits) for i in range(count)] == fields[0].tolist()


def weights(rng, name="int4", k=64, n=32, block=16, scale=np.float16, **parts) -> BlockWeights:
    bits, signed = code_bits(name), name.startswith("int")
    low = -(2 ** (bits - 1)) if signed else 0
    codes = rng.integers(low, low + 2**bits, (n, k)).astype(np.int8 if signed else np.uint8)
    return BlockWeights(codes, name, rng.normal(size=(n, k // block)).astype(scale), block, **parts)


@pytest.mark.parametrize("name", [name for name in LAYER_CODECS if name in FORMATS])
@pytest.mark.parametrize("zero", [False, True])
def test_one_record_goes_through_every_format(rng, name, zero):
    points = rng.integers(0, 16, (32, 4)).astype(np.uint8) if zero else None
    w = weights(rng, "uint4" if zero else "int4", zero_points=points)
    back = LAYER_CODECS[name].read(LAYER_CODECS[name].write(w))
    np.testing.assert_array_equal(dequantize_blocks(back), dequantize_blocks(w))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("awq", {"name": "int8"}),
        ("awq", {"scale": np.float32}),
        ("awq", {"groups": np.zeros(64, np.int32)}),
        ("gptq", {"minima": np.ones((32, 4), np.float16)}),
        ("gptq", {"k": 48}),
        ("gptq", {"n": 3}),
        ("gptq", {"name": "nf4"}),
        ("compressed-tensors", {"k": 16}),
        ("compressed-tensors", {"minima": np.ones((32, 4), np.float16)}),
        ("compressed-tensors", {"name": "fp4e2m1"}),
        ("mxfp4", {}),
    ],
)
def test_what_a_format_cannot_hold_is_refused(rng, name, change):
    w = weights(rng, **change)
    with pytest.raises(UnsupportedError, match="weights"):
        LAYER_CODECS[name].write(w)


@pytest.mark.parametrize("suffix", ["qweight", "qzeros", "scales", "g_idx"])
@pytest.mark.parametrize("name", ["gptq", "awq"])
def test_damaged_layers_are_refused(rng, name, suffix):
    good = random_gptq(rng, 4)
    if name == "awq":
        good["qweight"] = good["qweight"].reshape(64, 4)
        del good["g_idx"]
        if suffix == "g_idx":
            return
    for bad in (
        good[suffix].astype(np.float64), good[suffix][:-1], good[suffix][:0], good[suffix][..., None],
        good[suffix][..., :-1],
    ):  # fmt: skip
        with pytest.raises(FileFormatError):
            LAYER_CODECS[name].read(good | {suffix: bad})
    if suffix == "g_idx":
        for order in (good[suffix] - 1, good[suffix] + 1, np.zeros(64, np.int32)):
            with pytest.raises(FileFormatError):
                LAYER_CODECS[name].read(good | {suffix: order})


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("kind", ["int8", "asymmetric", "fp8", "mxfp8", "one"])
def test_codes_that_are_not_packed(rng, kind, blocks):
    n, k = 5, 64
    scales = rng.uniform(0.1, 1, (n, blocks)).astype(np.float32)
    parts = {"weight": rng.integers(-128, 128, (n, k)).astype(np.int8), "weight_scale": scales}
    values, zero = parts["weight"].astype(np.float32), np.zeros((n, blocks), np.float32)
    if kind in ("fp8", "mxfp8"):
        parts["weight"] = rng.normal(size=(n, k)).astype(ml_dtypes.float8_e4m3fn)
        values = parts["weight"].astype(np.float32)
    if kind == "mxfp8":
        parts["weight_scale"] = rng.integers(110, 140, (n, 2), np.uint8)
        scales, zero = np.exp2(parts["weight_scale"].astype(np.float32) - 127), np.zeros((n, 2), np.float32)
    elif kind == "asymmetric":
        parts["weight_zero_point"] = rng.integers(-9, 9, (n, blocks)).astype(np.int8)
        zero = parts["weight_zero_point"].astype(np.float32)
    elif kind == "one":
        parts["weight_scale"] = np.float32([0.3])
        scales = np.full((n, blocks), 0.3, np.float32)
    each = k // scales.shape[1]
    expected = (values - np.repeat(zero, each, axis=1)) * np.repeat(scales, each, axis=1)
    codec = LAYER_CODECS["naive-quantized"]
    w = codec.read(parts)
    np.testing.assert_array_equal(dequantize_blocks(w), expected)
    same = codec.write(w)
    assert same.keys() == parts.keys() and same["weight"].dtype == parts["weight"].dtype
    np.testing.assert_array_equal(dequantize_blocks(codec.read(same)), expected)
    assert same["weight_scale"].dtype.name in (parts["weight_scale"].dtype.name, "bfloat16", "float16")


@pytest.mark.parametrize("suffix", ["weight", "weight_scale", "weight_zero_point"])
def test_damaged_layers_that_are_not_packed_are_refused(rng, suffix):
    points = np.ones((5, 2), np.int8)
    good = {"weight": np.ones((5, 64), np.int8), "weight_scale": np.ones((5, 2), np.float32)}
    good["weight_zero_point"] = points
    for bad in (
        good[suffix].astype(np.float64),
        good[suffix][:-1],
        good[suffix][..., None],
        good[suffix][:, :0],
    ):
        with pytest.raises(FileFormatError):
            LAYER_CODECS["naive-quantized"].read(good | {suffix: bad})


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "groups"])
def test_parts_of_compressed_tensors_of_another_type_are_refused(rng, kind):
    change = {"asymmetric": {"zero_points": rng.integers(-8, 8, (32, 4)).astype(np.int8)},
              "groups": {"groups": rng.permutation(np.arange(64) // 16)}}.get(kind, {})  # fmt: skip
    parts = LAYER_CODECS["compressed-tensors"].write(weights(rng, **change))
    for suffix, part in parts.items():
        for dtype in (np.float16, np.float64, np.bool_, np.uint64):
            for value in (np.inf, -np.inf, np.nan, 2.0**40):
                with np.errstate(all="ignore"):
                    bad = np.full(part.shape, value).astype(dtype)
                is_scale = suffix == "weight_scale" and dtype == np.float16
                with pytest.raises(FileFormatError) if not is_scale else contextlib.nullcontext():
                    LAYER_CODECS["compressed-tensors"].read(parts | {suffix: bad})

"""Blocks of GGUF: the floats of the package `gguf`, and the same bytes again."""

from __future__ import annotations

import numpy as np
import pytest

from intact.errors import FileFormatError
from intact.formats.ggml_blocks import CODECS
from intact.formats.ggml_types import GGML_TYPES
from intact.numerics import code_bits, dequantize_blocks, join_fields, split_fields

gguf = pytest.importorskip("gguf")


def random_blocks(rng, name: str, rows: int = 3, blocks: int = 5) -> np.ndarray:
    """Any bytes: scales of both signs, infinite ones and NaNs among them; only digits of base 3 are whole."""
    kind = GGML_TYPES[name]
    raw = rng.integers(0, 256, (rows, blocks, kind.nbytes), np.uint8)
    if name == "MXFP4":
        raw[..., 0] %= 255
    elif name == "NVFP4":
        raw[..., :4] %= 127
    elif name == "TQ1_0":
        digits, count = rng.integers(0, 243, (rows, blocks, 52)), np.uint32(243)
        digits[..., 48:] -= digits[..., 48:] % 3
        raw[..., :52] = (digits * 256 + 242) // count
    return raw


@pytest.mark.parametrize("name", CODECS)
def test_floats_are_those_of_the_package_bit_for_bit(rng, name):
    raw = random_blocks(rng, name)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(raw.reshape(3, -1), gguf.GGMLQuantizationType[name])
    ours = dequantize_blocks(CODECS[name].unpack(raw))
    if CODECS[name].format == "fp4e2m1":
        ours = ours + np.float32(0)  # the code of -0 is +0 there
    number = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), ~number)
    np.testing.assert_array_equal(ours[number].view(np.uint32), theirs[number].view(np.uint32))


@pytest.mark.parametrize("name", CODECS)
def test_blocks_are_written_back_byte_for_byte(rng, name):
    raw = random_blocks(rng, name)
    np.testing.assert_array_equal(CODECS[name].pack(CODECS[name].unpack(raw)), raw)


@pytest.mark.parametrize("name", CODECS)
def test_the_grid_of_a_codec_is_what_it_reads(rng, name):
    codec, kind = CODECS[name], GGML_TYPES[name]
    w = codec.unpack(random_blocks(rng, name))
    coarse = w.scales if w.super_scales is None else w.super_scales
    assert (w.format, w.block_size, coarse.dtype.name) == (codec.format, codec.block_size, codec.scale)
    assert (w.minima is not None) == codec.minima and (w.super_scales is not None) == (codec.sub_bits > 0)
    assert w.shape == (3, 5 * kind.block_size)
    if codec.sub_bits:
        assert (w.scales.dtype == np.int8) == codec.signed_sub
        assert int(w.scales.max()) - int(w.scales.min()) < 2**codec.sub_bits


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"])
def test_what_the_package_quantizes_comes_back(rng, name):
    floats = rng.normal(size=(2, 512)).astype(np.float32)
    kind = gguf.GGMLQuantizationType[name]
    raw = gguf.quants.quantize(floats, kind)
    w = CODECS[name].unpack(raw.reshape(2, -1, GGML_TYPES[name].nbytes))
    np.testing.assert_array_equal(dequantize_blocks(w), gguf.quants.dequantize(raw, kind))
    np.testing.assert_array_equal(CODECS[name].pack(w).reshape(raw.shape), raw)


def test_sizes_and_numbers_are_those_of_the_package():
    theirs = {
        kind.name: (kind.value, *sizes)
        for kind, sizes in gguf.GGML_QUANT_SIZES.items()
        if kind.name in GGML_TYPES
    }
    assert len(theirs) > 25
    assert {n: (t.number, t.block_size, t.nbytes) for n, t in GGML_TYPES.items() if n in theirs} == theirs


@pytest.mark.parametrize("name", ["MXFP4", "NVFP4"])
def test_scales_that_are_no_numbers_are_refused(rng, name):
    raw = random_blocks(rng, name)
    raw[1, 2, 0] = 255
    with pytest.raises(FileFormatError, match="damaged"):
        CODECS[name].unpack(raw)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("group", [1, 2, 8])
def test_fields_are_joined_as_they_are_split(rng, bits, group):
    packed = rng.integers(0, 256, (3, 16), np.uint8)
    fields = split_fields(packed, bits, group)
    assert fields.shape == (3, 16 * 8 // bits) and fields.max() < 2**bits
    np.testing.assert_array_equal(join_fields(fields, bits, group), packed)


def test_every_grid_has_at_most_8_bits():
    assert {code_bits(codec.format) for codec in CODECS.values()} <= set(range(2, 9))


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (3, 0, 2), (0, 2**34)])
def test_tensors_without_elements_are_read_and_written(name, shape):
    raw = np.zeros((*shape, GGML_TYPES[name].nbytes), np.uint8)
    w = CODECS[name].unpack(raw)
    assert w.shape == (*shape[:-1], shape[-1] * GGML_TYPES[name].block_size)
    assert dequantize_blocks(w).size == 0 and CODECS[name].pack(w).shape == raw.shape

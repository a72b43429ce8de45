"""Blocks of GGUF files as `BlockWeights`, and back byte for byte.

Each type has a pair of functions: the bytes of blocks, uint8 [..., blocks, nbytes], to weights [..., K], and
weights of just that grid to bytes. Floats are those of `gguf.quants.dequantize`, bit for bit; only the code
of -0 of fp4 stays -0. Source: ggml-quants.c, `dequantize_row_*`; ggml-common.h, the structs `block_*`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError
from intact.numerics import BlockWeights, join_fields, split_fields

Array = NDArray
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class GgmlCodec:
    """Reads and writes the blocks of one type, and names the grid that they hold.

    Attributes:
        unpack: Bytes [..., blocks, nbytes] to weights.
        pack: Weights of this grid to bytes [..., blocks, nbytes].
        format: Of the codes.
        block_size: Elements that share a scale.
        scale: Dtype of the scales; of the super-scales for two levels.
        minima: Whether something is added behind the scale.
        sub_bits: Bits of integer sub-scales, and of integer minima; 0: one level.
        signed_sub: Whether the sub-scales have a sign.
    """

    unpack: Callable[[Bytes], BlockWeights]
    pack: Callable[[BlockWeights], Bytes]
    format: str
    block_size: int
    scale: str = "float16"
    minima: bool = False
    sub_bits: int = 0
    signed_sub: bool = False


def _half(raw: Bytes) -> Array:
    """Read float16 [...] out of bytes [..., 2]."""
    return np.ascontiguousarray(raw).view("<f2")[..., 0]


def _half_bytes(values: Array) -> Bytes:
    return np.ascontiguousarray(values.astype("<f2", copy=False))[..., None].view(np.uint8)


def _flat(codes: Array) -> Array:
    """Join the codes of all blocks of a row in one axis: [..., blocks, n] to [..., blocks * n]."""
    return np.ascontiguousarray(codes).reshape(*codes.shape[:-2], codes.shape[-2] * codes.shape[-1])


def _by_block(codes: Array, size: int) -> Array:
    return codes.reshape(*codes.shape[:-1], codes.shape[-1] // size, size)


def _to_signed(fields: Array, middle: int) -> NDArray[np.int8]:
    return np.asarray(fields.astype(np.int8) - np.int8(middle))


def _to_unsigned(codes: Array, middle: int) -> Bytes:
    return np.asarray((codes.astype(np.int16) + middle).astype(np.uint8))


# -- one float16 scale for 32 codes: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL


def _simple(bits: int, *, minima: bool = False, table: str | None = None) -> GgmlCodec:
    """Return the codec of blocks of 32: float16 scale, perhaps a float16 minimum and fifth bits, codes."""
    is_signed = not minima and table is None
    name = table or f"{'' if is_signed else 'u'}int{bits}"
    middle, head = 2 ** (bits - 1) if is_signed and bits < 8 else 0, 4 if minima else 2

    def unpack(raw: Bytes) -> BlockWeights:
        body = raw[..., head:]
        if bits == 8:
            codes: Array = np.ascontiguousarray(body).view(np.int8)
        else:
            fields = split_fields(body[..., 4:] if bits == 5 else body, 4, 16)
            if bits == 5:
                fields = fields | (split_fields(body[..., :4], 1) << np.uint8(4))
            codes = _to_signed(fields, middle) if is_signed else fields
        offsets = _half(raw[..., 2:4]) if minima else None
        return BlockWeights(_flat(codes), name, _half(raw[..., :2]), 32, minima=offsets)

    def pack(w: BlockWeights) -> Bytes:
        parts, codes = [_half_bytes(w.scales)], _by_block(w.codes, 32)
        if w.minima is not None:
            parts.append(_half_bytes(w.minima))
        fields = _to_unsigned(codes, middle)
        if bits == 8:
            parts.append(fields)
        else:
            if bits == 5:
                parts.append(join_fields(fields >> np.uint8(4), 1))
            parts.append(join_fields(fields & np.uint8(15), 4, 16))
        return np.concatenate(parts, axis=-1)

    return GgmlCodec(unpack, pack, name, 32, minima=minima)


# -- super-blocks of 256 with integer sub-scales: the K-quants and IQ4_XS


def _k_weights(
    codes: Array, name: str, scales: Array, d: Array, minima: Array | None = None, dmin: Array | None = None
) -> BlockWeights:
    """Return weights of super-blocks; what the file subtracts is added with the opposite sign."""
    size = codes.shape[-1] // scales.shape[-1]
    return BlockWeights(
        _flat(codes), name, _flat(scales), size, minima=None if minima is None else _flat(minima),
        super_scales=d, super_minima=None if dmin is None else -dmin,
    )  # fmt: skip


def _supers(w: BlockWeights) -> list[Bytes]:
    """Return the bytes of super-scales, and of super-minima with the file's sign where there are any."""
    assert w.super_scales is not None
    minima = [] if w.super_minima is None else [_half_bytes(-w.super_minima)]
    return [_half_bytes(w.super_scales), *minima]


def _unpack_q2_k(raw: Bytes) -> BlockWeights:
    pairs, codes = raw[..., :16], split_fields(raw[..., 16:80], 2, 32)
    scales, minima = pairs & np.uint8(15), pairs >> np.uint8(4)
    return _k_weights(codes, "uint2", scales, _half(raw[..., 80:82]), minima, _half(raw[..., 82:84]))


def _pack_q2_k(w: BlockWeights) -> Bytes:
    assert w.minima is not None
    pairs = _by_block(w.scales, 16) | (_by_block(w.minima, 16) << np.uint8(4))
    return np.concatenate([pairs, join_fields(_by_block(w.codes, 256), 2, 32), *_supers(w)], axis=-1)


def _unpack_q3_k(raw: Bytes) -> BlockWeights:
    high, low = split_fields(raw[..., :32], 1, 32), split_fields(raw[..., 32:96], 2, 32)
    packed = raw[..., 96:108]
    scales = split_fields(packed[..., :8], 4, 8) | (split_fields(packed[..., 8:], 2, 4) << np.uint8(4))
    codes = _to_signed(low | (high << np.uint8(2)), 4)
    return _k_weights(codes, "int3", _to_signed(scales, 32), _half(raw[..., 108:110]))


def _pack_q3_k(w: BlockWeights) -> Bytes:
    fields = _to_unsigned(_by_block(w.codes, 256), 4)
    scales = _to_unsigned(_by_block(w.scales, 16), 32)
    parts = [
        join_fields(fields >> np.uint8(2), 1, 32), join_fields(fields & np.uint8(3), 2, 32),
        join_fields(scales & np.uint8(15), 4, 8), join_fields(scales >> np.uint8(4), 2, 4), *_supers(w),
    ]  # fmt: skip
    return np.concatenate(parts, axis=-1)


def _split_six_bits(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight minima of 6 bits out of 12 bytes."""
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    high = (first >> np.uint8(2)) & np.uint8(48), (second >> np.uint8(2)) & np.uint8(48)
    scales = [first & np.uint8(63), (third & np.uint8(15)) | high[0]]
    minima = [second & np.uint8(63), (third >> np.uint8(4)) | high[1]]
    return np.concatenate(scales, axis=-1), np.concatenate(minima, axis=-1)


def _join_six_bits(scales: Bytes, minima: Bytes) -> Bytes:
    first = scales[..., :4] | ((scales[..., 4:] & np.uint8(48)) << np.uint8(2))
    second = minima[..., :4] | ((minima[..., 4:] & np.uint8(48)) << np.uint8(2))
    third = (scales[..., 4:] & np.uint8(15)) | ((minima[..., 4:] & np.uint8(15)) << np.uint8(4))
    return np.concatenate([first, second, third], axis=-1)


def _six_bit_k(bits: int) -> GgmlCodec:
    """Return the codec of Q4_K and Q5_K: 32 codes to a sub-block, sub-scales and minima of 6 bits."""

    def unpack(raw: Bytes) -> BlockWeights:
        scales, minima = _split_six_bits(raw[..., 4:16])
        codes = split_fields(raw[..., -128:], 4, 32)
        if bits == 5:
            codes = codes | (split_fields(raw[..., 16:48], 1, 32) << np.uint8(4))
        return _k_weights(codes, f"uint{bits}", scales, _half(raw[..., :2]), minima, _half(raw[..., 2:4]))

    def pack(w: BlockWeights) -> Bytes:
        assert w.minima is not None
        fields = _by_block(w.codes, 256)
        parts = [*_supers(w), _join_six_bits(_by_block(w.scales, 8), _by_block(w.minima, 8))]
        if bits == 5:
            parts.append(join_fields(fields >> np.uint8(4), 1, 32))
        return np.concatenate([*parts, join_fields(fields & np.uint8(15), 4, 32)], axis=-1)

    return GgmlCodec(unpack, pack, f"uint{bits}", 32, minima=True, sub_bits=6)


def _unpack_q6_k(raw: Bytes) -> BlockWeights:
    fields = split_fields(raw[..., :128], 4, 64) | (split_fields(raw[..., 128:192], 2, 32) << np.uint8(4))
    scales = np.ascontiguousarray(raw[..., 192:208]).view(np.int8)
    return _k_weights(_to_signed(fields, 32), "int6", scales, _half(raw[..., 208:210]))


def _pack_q6_k(w: BlockWeights) -> Bytes:
    fields = _to_unsigned(_by_block(w.codes, 256), 32)
    scales = np.ascontiguousarray(_by_block(w.scales, 16)).view(np.uint8)
    low, high = join_fields(fields & np.uint8(15), 4, 64), join_fields(fields >> np.uint8(4), 2, 32)
    return np.concatenate([low, high, scales, *_supers(w)], axis=-1)


def _unpack_iq4_xs(raw: Bytes) -> BlockWeights:
    scales = split_fields(raw[..., 4:8], 4) | (split_fields(raw[..., 2:4], 2) << np.uint8(4))
    codes = split_fields(raw[..., 8:136], 4, 16)
    return _k_weights(codes, "iq4", _to_signed(scales, 32), _half(raw[..., :2]))


def _pack_iq4_xs(w: BlockWeights) -> Bytes:
    scales = _to_unsigned(_by_block(w.scales, 8), 32)
    parts = [
        *_supers(w), join_fields(scales >> np.uint8(4), 2), join_fields(scales & np.uint8(15), 4),
        join_fields(_by_block(w.codes, 256), 4, 16),
    ]  # fmt: skip
    return np.concatenate(parts, axis=-1)


# -- ternary codes under one float16 scale for 256: TQ1_0, TQ2_0

_POWERS = np.array([1, 3, 9, 27, 81], np.uint8)


def _split_trits(packed: Bytes, count: int, group: int) -> Bytes:
    """Split each byte into `count` digits of base 3, of a group first the highest digit of each."""
    rows, size = packed.shape[:-1], packed.shape[-1]
    groups = packed.reshape(*rows, size // group, 1, group) * _POWERS[:count, None]  # modulo 256
    digits = (groups.astype(np.uint16) * 3 >> 8).astype(np.uint8)
    return np.asarray(digits.reshape(*rows, size * count))


def _join_trits(digits: Bytes, count: int, group: int) -> Bytes:
    rows, size = digits.shape[:-1], digits.shape[-1] // count
    groups = digits.reshape(*rows, size // group, count, group).astype(np.uint32)
    number = (groups * np.array([81, 27, 9, 3, 1], np.uint32)[:count, None]).sum(axis=-2)
    return np.asarray(((number * 256 + 242) // 243).astype(np.uint8).reshape(*rows, size))


def _unpack_tq1_0(raw: Bytes) -> BlockWeights:
    parts = [
        _split_trits(raw[..., :32], 5, 32), _split_trits(raw[..., 32:48], 5, 16),
        _split_trits(raw[..., 48:52], 4, 4),
    ]  # fmt: skip
    codes = _to_signed(np.concatenate(parts, axis=-1), 1)
    return BlockWeights(_flat(codes), "int2", _half(raw[..., 52:54]), 256)


def _pack_tq1_0(w: BlockWeights) -> Bytes:
    digits = _to_unsigned(_by_block(w.codes, 256), 1)
    parts = [
        _join_trits(digits[..., :160], 5, 32), _join_trits(digits[..., 160:240], 5, 16),
        _join_trits(digits[..., 240:], 4, 4), _half_bytes(w.scales),
    ]  # fmt: skip
    return np.concatenate(parts, axis=-1)


def _unpack_tq2_0(raw: Bytes) -> BlockWeights:
    codes, scales = split_fields(raw[..., :64], 2, 32), _half(raw[..., 64:66])
    return BlockWeights(
        _flat(codes), "uint2", scales, 256, zero_points=np.broadcast_to(np.uint8(1), scales.shape)
    )


def _pack_tq2_0(w: BlockWeights) -> Bytes:
    return np.concatenate([join_fields(_by_block(w.codes, 256), 2, 32), _half_bytes(w.scales)], axis=-1)


# -- fp4 under scales of 8 bits: MXFP4, NVFP4


def _unpack_mxfp4(raw: Bytes) -> BlockWeights:
    scales = np.ascontiguousarray(raw[..., 0])
    if (scales == 255).any():
        raise _scale_error("MXFP4", "255, which means NaN")
    codes = split_fields(raw[..., 1:], 4, 16)
    return BlockWeights(_flat(codes), "fp4e2m1", scales.view(ml_dtypes.float8_e8m0fnu), 32)


def _pack_mxfp4(w: BlockWeights) -> Bytes:
    scales = np.ascontiguousarray(w.scales).view(np.uint8)[..., None]
    return np.concatenate([scales, join_fields(_by_block(w.codes, 32), 4, 16)], axis=-1)


def _unpack_nvfp4(raw: Bytes) -> BlockWeights:
    scales = np.ascontiguousarray(raw[..., :4])
    if (scales > 126).any():
        raise _scale_error("NVFP4", "above 126, which is no positive e4m3")
    codes = split_fields(raw[..., 4:], 4, 8)
    return BlockWeights(_flat(codes), "fp4e2m1", _flat(scales).view(ml_dtypes.float8_e4m3fn), 16)


def _pack_nvfp4(w: BlockWeights) -> Bytes:
    scales = np.ascontiguousarray(_by_block(w.scales, 4)).view(np.uint8)
    return np.concatenate([scales, join_fields(_by_block(w.codes, 64), 4, 8)], axis=-1)


def _scale_error(name: str, got: str) -> FileFormatError:
    return FileFormatError(
        f"a block of {name}", f"a scale of code {got}", "a number", "the file is damaged: fetch it again"
    )


CODECS: dict[str, GgmlCodec] = {
    "Q4_0": _simple(4),
    "Q4_1": _simple(4, minima=True),
    "Q5_0": _simple(5),
    "Q5_1": _simple(5, minima=True),
    "Q8_0": _simple(8),
    "IQ4_NL": _simple(4, table="iq4"),
    "Q2_K": GgmlCodec(_unpack_q2_k, _pack_q2_k, "uint2", 16, minima=True, sub_bits=4),
    "Q3_K": GgmlCodec(_unpack_q3_k, _pack_q3_k, "int3", 16, sub_bits=6, signed_sub=True),
    "Q4_K": _six_bit_k(4),
    "Q5_K": _six_bit_k(5),
    "Q6_K": GgmlCodec(_unpack_q6_k, _pack_q6_k, "int6", 16, sub_bits=8, signed_sub=True),
    "IQ4_XS": GgmlCodec(_unpack_iq4_xs, _pack_iq4_xs, "iq4", 32, sub_bits=6, signed_sub=True),
    "TQ1_0": GgmlCodec(_unpack_tq1_0, _pack_tq1_0, "int2", 256),
    "TQ2_0": GgmlCodec(_unpack_tq2_0, _pack_tq2_0, "uint2", 256),
    "MXFP4": GgmlCodec(_unpack_mxfp4, _pack_mxfp4, "fp4e2m1", 32, scale="float8_e8m0fnu"),
    "NVFP4": GgmlCodec(_unpack_nvfp4, _pack_nvfp4, "fp4e2m1", 16, scale="float8_e4m3fn"),
}
"""Every type of blocks that is read to codes and scales, by name."""

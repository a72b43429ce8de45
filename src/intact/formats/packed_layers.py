"""Layers of GPTQ, AWQ, AutoRound, compressed-tensors and MXFP4: their tensors as `BlockWeights`, and back.

A layer ``name`` has tensors ``name.qweight``, ``name.scales`` and so on. Bits and blocks follow from shapes.
Sources: AutoGPTQ qlinear_cuda_old.py and GPTQModel (checkpoint_format "gptq_v2"); AutoAWQ
utils/packing_utils.py; auto-round export_to_autoround; compressed-tensors compressors/pack_quantized, nvfp4
and mxfp4; transformers' integrations/mxfp4.py, whose experts have ``name_blocks`` and ``name_scales``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, UnsupportedError
from intact.formats.naive_layers import read_naive, write_naive
from intact.formats.regrid import BlockGrid, regrid, without_groups
from intact.numerics import BlockWeights, join_fields, join_stream, split_fields, split_stream

Array = NDArray
Bytes = NDArray[np.uint8]
Parts = Mapping[str, Array]

AWQ_ORDER = np.array([0, 4, 1, 5, 2, 6, 3, 7])
"""The nibble of an int32 in which each of 8 neighbouring columns lies."""


@dataclass(frozen=True)
class LayerCodec:
    """Reads and writes a layer in one format.

    Attributes:
        name: "gptq", "awq", ...
        required: Suffixes of the tensors that make a layer, the first of which finds it.
        optional: Suffixes of tensors that it may have.
        read: Tensors by suffix to weights [N, K].
        write: Weights to tensors by suffix; raises UnsupportedError where the grid is another.
        separator: Between the name of a layer and a suffix.
    """

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    read: Callable[[Parts], BlockWeights]
    write: Callable[[BlockWeights], dict[str, Array]]
    separator: str = "."


def _layer_error(where: str, got: str, want: str) -> FileFormatError:
    return FileFormatError(
        where, got, want, "the file is damaged, or of another format than its configuration says"
    )


def _require(part: Array, where: str, dtypes: tuple[str, ...], rank: int = 2) -> Array:
    if part.dtype.name not in dtypes or part.ndim != rank:
        raise _layer_error(where, f"{part.dtype} {list(part.shape)}", f"{' or '.join(dtypes)} of {rank} axes")
    return part


def _words(part: Array) -> Bytes:
    """Return the bytes of int32 [..., n], the lowest first: uint8 [..., 4 * n]."""
    return np.ascontiguousarray(part).astype("<i4", copy=False).view(np.uint8)


def _int32(packed: Bytes) -> Array:
    return np.ascontiguousarray(packed).view("<i4")


def _whole_bits(bits: float, where: str) -> int:
    if bits not in range(2, 9):
        raise _layer_error(where, f"{bits:g} bits for each code", "2 to 8")
    return int(bits)


# -- qweight, qzeros, scales: GPTQ (AutoRound's packings too) and AWQ

_FLOATS = ("float16", "bfloat16", "float32")


def _read_gptq(parts: Parts, offset: int) -> BlockWeights:
    qweight = _require(parts["qweight"], "qweight", ("int32",))
    qzeros = _require(parts["qzeros"], "qzeros", ("int32",))
    scales = _require(parts["scales"], "scales", _FLOATS)
    groups, n = scales.shape
    if qweight.shape[1] != n or qzeros.shape[0] != groups or not n or not groups:
        raise _layer_error(
            "qzeros", f"{list(qzeros.shape)} with scales {list(scales.shape)}", "as many groups and columns"
        )
    bits = _whole_bits(qzeros.shape[1] * 32 / n, "qzeros")
    if qweight.shape[0] % bits:
        raise _layer_error("qweight", f"{qweight.shape[0]} rows", f"a multiple of {bits}")
    k = qweight.shape[0] * 32 // bits
    codes = split_stream(_words(qweight.T), bits, k)
    points = split_stream(_words(qzeros), bits, n).T + np.uint8(offset) & np.uint8(2**bits - 1)
    return _group_blocks(codes, bits, scales.T, points, parts.get("g_idx"))


def _group_blocks(codes: Array, bits: int, scales: Array, points: Array, order: Array | None) -> BlockWeights:
    """Return weights with a group for each element, or in blocks as long as the number of groups says."""
    k, groups = codes.shape[-1], scales.shape[-1]
    size = k // groups if k % groups == 0 else 0
    if order is not None:
        order = _require(order, "g_idx", ("int32", "int64"), 1)
        size = (
            int(np.bincount(order).max()) if order.size and order.min() >= 0 and order.max() < groups else 0
        )
    if not size or -(-k // size) != groups or (order is not None and order.shape != (k,)):
        raise _layer_error(
            "g_idx", f"{groups} groups of {k} elements", "groups of one size, in which all elements are"
        )
    weights = BlockWeights(
        np.ascontiguousarray(codes), f"uint{bits}", np.ascontiguousarray(scales), size,
        np.ascontiguousarray(points), groups=order,
    )  # fmt: skip
    return without_groups(weights)


def _write_gptq(weights: BlockWeights, offset: int, name: str) -> dict[str, Array]:
    bits = weights.bits
    fitted = regrid(weights, BlockGrid(name, f"uint{bits}", zero_points=True, groups=True))
    n, k = _matrix(fitted, name)
    if k % 32 or n * bits % 32:
        raise _shape_error(fitted, name, "K a multiple of 32, N * bits too")
    points = fitted.zero_points
    assert points is not None
    stored = points.T - np.uint8(offset) & np.uint8(2**bits - 1)
    return {
        "qweight": np.ascontiguousarray(_int32(join_stream(fitted.codes, bits)).T),
        "qzeros": _int32(join_stream(stored, bits)),
        "scales": np.ascontiguousarray(fitted.scales.T),
        "g_idx": fitted.block_of().astype(np.int32),
    }


def _read_awq(parts: Parts) -> BlockWeights:
    qweight = _require(parts["qweight"], "qweight", ("int32",))
    qzeros = _require(parts["qzeros"], "qzeros", ("int32",))
    scales = _require(parts["scales"], "scales", _FLOATS)
    groups, n = scales.shape
    k = qweight.shape[0]
    if qweight.shape[1] * 8 != n or qzeros.shape != (groups, n // 8) or not groups or k % groups:
        shapes = f"{list(qweight.shape)} and {list(qzeros.shape)} with scales {list(scales.shape)}"
        raise _layer_error("qweight", shapes, "[K, N / 8], [groups, N / 8] and [groups, N]")
    return _group_blocks(_awq_fields(qweight).T, 4, scales.T, _awq_fields(qzeros).T, None)


def _awq_fields(part: Array) -> Bytes:
    fields = split_fields(_words(part), 4)
    return fields.reshape(len(part), part.shape[1], 8)[..., AWQ_ORDER].reshape(len(part), part.shape[1] * 8)


def _awq_words(fields: Bytes) -> Array:
    words = fields.reshape(len(fields), fields.shape[1] // 8, 8)[..., np.argsort(AWQ_ORDER)]
    return _int32(join_fields(words.reshape(fields.shape), 4))


def _write_awq(weights: BlockWeights) -> dict[str, Array]:
    fitted = regrid(weights, BlockGrid("AWQ", "uint4", zero_points=True))
    n, k = _matrix(fitted, "AWQ")
    if n % 8 or k % fitted.block_size:
        raise _shape_error(fitted, "AWQ", "N a multiple of 8, K a multiple of the block")
    points = fitted.zero_points
    assert points is not None
    return {
        "qweight": _awq_words(np.ascontiguousarray(fitted.codes.T)),
        "qzeros": _awq_words(np.ascontiguousarray(points.T)),
        "scales": np.ascontiguousarray(fitted.scales.T),
    }


def _matrix(weights: BlockWeights, name: str) -> tuple[int, int]:
    if weights.codes.ndim != 2:
        raise _shape_error(weights, name, "two axes")
    return weights.codes.shape[0], weights.codes.shape[1]


def _shape_error(weights: BlockWeights, name: str, want: str) -> UnsupportedError:
    return UnsupportedError(
        "weights", f"shape {list(weights.shape)}", f"{want}, for {name}", "choose another format"
    )


# -- weight_packed, weight_scale: compressed-tensors


def _read_packed(parts: Parts) -> BlockWeights:
    if parts["weight_packed"].dtype == np.uint8:
        return _read_packed_fp4(parts)
    packed = _require(parts["weight_packed"], "weight_packed", ("int32",))
    scales = _require(parts["weight_scale"], "weight_scale", _FLOATS)
    integers = ("int32", "int64")
    stored = parts.get("weight_shape", np.empty(0, np.int64))
    shape = _require(stored.reshape(-1), "weight_shape", integers, 1).tolist()
    if len(shape) != 2 or shape[0] != len(packed) or shape[1] < 32 or len(scales) != len(packed):
        raise _layer_error(
            "weight_shape", f"{shape!r:.40} with weight_packed {list(packed.shape)}", "[N, K], K at least 32"
        )
    n, k = int(shape[0]), int(shape[1])
    bits = _whole_bits(packed.shape[1] * 32 // k, "weight_packed")
    if packed.shape[1] != -(-k * bits // 32) or not scales.shape[1] or k % scales.shape[1]:
        raise _layer_error(
            "weight_packed", f"{list(packed.shape)} with scales {list(scales.shape)}", "what K and bits give"
        )
    middle = 2 ** (bits - 1)
    codes = (split_stream(_words(packed), bits, k).astype(np.int16) - middle).astype(np.int8)
    points = parts.get("weight_zero_point")
    if points is not None:
        points = _packed_zero_points(points, bits, n, scales.shape[1])
    groups = parts.get("weight_g_idx")
    if groups is not None and (_require(groups, "weight_g_idx", integers, 1) < 0).all():
        groups = None  # what compressed-tensors writes for no order
    if groups is not None and (
        groups.shape != (k,) or not 0 <= groups.min() <= groups.max() < scales.shape[1]
    ):
        raise _layer_error("weight_g_idx", f"{list(groups.shape)}", f"a group for each of {k} elements")
    weights = BlockWeights(codes, f"int{bits}", scales, k // scales.shape[1], points, groups=groups)
    return without_groups(weights)


def _packed_zero_points(part: Array, bits: int, n: int, groups: int) -> Array:
    part = _require(part, "weight_zero_point", ("int32", "int8"))
    if part.dtype == np.int8 and part.shape == (n, groups):
        return part
    if part.dtype != np.int32 or part.shape != (-(-n * bits // 32), groups):
        raise _layer_error(
            "weight_zero_point", f"{part.dtype} {list(part.shape)}", f"{bits} bits for {n} by {groups}"
        )
    fields = split_stream(_words(part.T), bits, n).T
    return np.ascontiguousarray((fields.astype(np.int16) - 2 ** (bits - 1)).astype(np.int8))


def _read_packed_fp4(parts: Parts) -> BlockWeights:
    """Read MXFP4 and NVFP4: two codes in a byte, the first in the low bits."""
    packed = _require(parts["weight_packed"], "weight_packed", ("uint8",))
    scales = parts["weight_scale"]
    codes = split_fields(packed, 4)
    if (
        scales.ndim != 2
        or len(scales) != len(codes)
        or not scales.shape[1]
        or codes.shape[1] % scales.shape[1]
    ):
        raise _layer_error(
            "weight_scale", f"{list(scales.shape)} with codes {list(codes.shape)}", "[N, blocks]"
        )
    size, divisor = codes.shape[1] // scales.shape[1], parts.get("weight_global_scale")
    if scales.dtype == np.uint8:
        scales = np.ascontiguousarray(scales).view(ml_dtypes.float8_e8m0fnu)
    elif scales.dtype.name not in ("float8_e8m0fnu", "float8_e4m3fn"):
        raise _layer_error("weight_scale", str(scales.dtype), "uint8, float8_e8m0fnu or float8_e4m3fn")
    if divisor is None:
        return BlockWeights(codes, "fp4e2m1", scales, size)
    if divisor.size != 1 or divisor.dtype.name not in _FLOATS:
        raise _layer_error("weight_global_scale", f"{divisor.dtype} {list(divisor.shape)}", "one float")
    return BlockWeights(codes, "fp4e2m1", scales, size, super_scales=divisor.reshape(()), super_divides=True)


def _read_expert_fp4(parts: Parts) -> BlockWeights:
    """Read MXFP4 of all experts, uint8 [experts, outputs, blocks, 16], as weights [experts * outputs, K]."""
    blocks = _require(parts["blocks"], "blocks", ("uint8",), 4)
    scales = _require(parts["scales"], "scales", ("uint8",), 3)
    if blocks.shape[:3] != scales.shape or blocks.shape[3] != 16 or not scales.size:
        raise _layer_error(
            "blocks", f"{list(blocks.shape)} with scales {list(scales.shape)}", "16 bytes a scale"
        )
    if (scales == 255).any():
        raise _layer_error("scales", "255, which means NaN", "exponents")
    rows = scales.shape[0] * scales.shape[1]
    exponents = np.ascontiguousarray(scales).reshape(rows, -1).view(ml_dtypes.float8_e8m0fnu)
    return BlockWeights(split_fields(blocks.reshape(rows, -1), 4), "fp4e2m1", exponents, 32)


def _write_expert_fp4(weights: BlockWeights) -> dict[str, Array]:
    raise UnsupportedError(
        "weights", "the format mxfp4, whose tensors are those of experts", "compressed-tensors",
        "choose the format that all layers have",
    )  # fmt: skip


def _write_packed(weights: BlockWeights) -> dict[str, Array]:
    name = "compressed-tensors"
    if weights.format == "fp4e2m1":
        return _write_packed_fp4(weights)
    bits = weights.bits
    is_plain = weights.zero_points is None or _is_middle(weights)
    fitted = regrid(
        weights,
        BlockGrid(
            name,
            f"int{bits}",
            scales=("bfloat16", "float16", "float32"),
            zero_points=not is_plain,
            groups=True,
        ),
    )
    n, k = _matrix(fitted, name)
    if k < 32 or k % fitted.blocks or (fitted.blocks > 1 and k % fitted.block_size):
        raise _shape_error(fitted, name, "K a multiple of the block, at least 32")
    middle = 2 ** (bits - 1)
    fields = (fitted.codes.astype(np.int16) + middle).astype(np.uint8)
    parts = {
        "weight_packed": _int32(join_stream(fields, bits)),
        "weight_scale": np.ascontiguousarray(fitted.scales),
        "weight_shape": np.array([n, k], np.int64),
    }
    if fitted.zero_points is not None:
        points = (fitted.zero_points.astype(np.int16) + middle).astype(np.uint8)
        parts["weight_zero_point"] = np.ascontiguousarray(_int32(join_stream(points.T, bits)).T)
    if fitted.groups is not None:
        parts["weight_g_idx"] = fitted.groups.astype(np.int32)
    return parts


def _is_middle(weights: BlockWeights) -> bool:
    """Return whether every zero point is the middle of an unsigned grid: 8 of uint4."""
    points = weights.zero_points
    return (
        points is not None
        and weights.format.startswith("u")
        and bool((points == 2 ** (weights.bits - 1)).all())
    )


def _write_packed_fp4(weights: BlockWeights) -> dict[str, Array]:
    _, k = _matrix(weights, "compressed-tensors")
    kinds = {(32, "float8_e8m0fnu"): False, (16, "float8_e4m3fn"): True}
    needs_divisor = kinds.get((weights.block_size, weights.scales.dtype.name))
    divides = weights.super_divides and weights.super_scales is not None and weights.super_scales.shape == ()
    if (
        needs_divisor is None
        or k % 32
        or (weights.super_scales is not None and not (divides and needs_divisor))
    ):
        raise _shape_error(
            weights, "MXFP4 or NVFP4", "blocks of 32 under e8m0 or of 16 under e4m3, one divisor"
        )
    parts: dict[str, Array] = {"weight_packed": join_fields(weights.codes, 4)}
    if not needs_divisor:
        return parts | {"weight_scale": np.ascontiguousarray(weights.scales).view(np.uint8)}
    divisor = np.float32(1) if weights.super_scales is None else weights.super_scales.astype(np.float32)
    return parts | {
        "weight_scale": np.ascontiguousarray(weights.scales),
        "weight_global_scale": np.reshape(divisor, (1,)),
    }  # fmt: skip


def _gptq(name: str, offset: int) -> LayerCodec:
    return LayerCodec(
        name, ("qweight", "qzeros", "scales"), ("g_idx",),
        lambda parts: _read_gptq(parts, offset), lambda weights: _write_gptq(weights, offset, name),
    )  # fmt: skip


LAYER_CODECS: dict[str, LayerCodec] = {
    "gptq": _gptq("gptq", 1),
    "gptq_v2": _gptq("gptq_v2", 0),
    "awq": LayerCodec("awq", ("qweight", "qzeros", "scales"), (), _read_awq, _write_awq),
    "compressed-tensors": LayerCodec(
        "compressed-tensors", ("weight_packed", "weight_scale"),
        ("weight_shape", "weight_zero_point", "weight_g_idx", "weight_global_scale"),
        _read_packed, _write_packed,
    ),
    "naive-quantized": LayerCodec(
        "naive-quantized", ("weight_scale", "weight"), ("weight_zero_point",), read_naive, write_naive
    ),
    "mxfp4": LayerCodec("mxfp4", ("blocks", "scales"), (), _read_expert_fp4, _write_expert_fp4, "_"),
}  # fmt: skip
"""Every format of layers in safetensors files, by name. GPTQ stores zero points less 1, gptq_v2 does not."""

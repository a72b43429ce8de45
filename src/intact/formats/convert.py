"""Weights from one file format to another, tensor by tensor, without a change of any float."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing, together
from intact.errors import FileAccessError, IntactError, QuantValueError, UnsupportedError
from intact.formats.ggml_blocks import CODECS, GgmlCodec
from intact.formats.ggml_types import GGML_TYPES
from intact.formats.gguf_fields import GgufField
from intact.formats.gguf_file import GgufTensor, Tensor, write_gguf
from intact.formats.gguf_parts import SPLIT_KEYS
from intact.formats.naive_layers import naive_packing
from intact.formats.packed_layers import LAYER_CODECS
from intact.formats.quantization.read_config import CONFIG_FILE, OLD_FILE
from intact.formats.regrid import BlockGrid, describe, regrid
from intact.formats.safetensors_file import StoredTensor, write_safetensors
from intact.formats.weight_files import (
    GgufWeights,
    WeightFiles,
    floats_of,
    open_weights,
)
from intact.numerics import BlockWeights

FORMATS = ("gguf", *(name for name in LAYER_CODECS if name != "mxfp4"), "safetensors")
"""Formats that `convert` writes; "safetensors" holds the floats, as float32."""
_COPIED = (".json", ".txt", ".model", ".jinja")


@dataclass(frozen=True)
class Conversion:
    """Describes what a conversion wrote.

    Attributes:
        files: The weight files, and config.json where there is one.
        tensors: Number of tensors.
        grids: How many tensors there are of each grid, in words, "plain" for arrays of numbers. From GGUF to
            GGUF, where bytes are copied, of each type.
    """

    files: tuple[Path, ...]
    tensors: int
    grids: dict[str, int] = field(default_factory=dict)


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str], to: str) -> Conversion:
    """Write the weights of `source` in another format; all floats stay, and nothing is written if one cannot.

    Tensors come one at a time, so that memory holds one. Names stay as they are, but that a quantized layer
    ``a.b`` has the tensor "a.b.weight" in GGUF.

    Args:
        source: A GGUF, ONNX or safetensors file, or a folder of the last with config.json.
        target: A file, or for safetensors a folder; files that belong to a model, such as tokenizers, are
            copied from folder to folder.
        to: One of `FORMATS`.
    Returns:
        What was written.
    Raises:
        UnsupportedError: A tensor is on a grid that the format cannot hold; names it, and a format that can.
        QuantValueError: There is no such format.
        FileFormatError, FileAccessError: The source cannot be read, or the target not written.
    """
    if to not in FORMATS:
        raise QuantValueError("to", f"{to!r:.40}", ", ".join(FORMATS), "choose one of these")
    weights, path = open_weights(source), Path(target)
    grids: dict[str, int] = {}
    if to == "gguf":
        _to_gguf(weights, path, grids)
        return Conversion((path,), len(weights.names), grids)
    parts, schemes = _plan_safetensors(weights, to, grids)
    with _folder_of(path) as folder, together():
        file = folder / "model.safetensors" if path.suffix != ".safetensors" else path
        stored = {name: tensor for tensors in parts.values() for name, tensor in tensors.items()}
        write_safetensors(file, stored, _loader(weights, to, parts), {"format": "pt"})
        config = dict(weights.config)
        config.pop("quantization_config", None)
        if to != "safetensors":
            config["quantization_config"] = _quantization_config(to, schemes, weights, parts)
        with replacing(folder / CONFIG_FILE) as out:
            out.write(json.dumps(config, indent=2).encode() + b"\n")
        if path.suffix != ".safetensors" and Path(source).is_dir():
            _copy_others(Path(source), folder)
    return Conversion((file, folder / CONFIG_FILE), len(weights.names), grids)


# -- GGUF


def _to_gguf(weights: WeightFiles, path: Path, grids: dict[str, int]) -> None:
    if isinstance(weights, GgufWeights):
        file = weights.file
        for entry in file.tensors.values():
            grids[entry.kind.name] = grids.get(entry.kind.name, 0) + 1
        metadata = {key: field for key, field in file.metadata.items() if key not in SPLIT_KEYS}
        write_gguf(path, metadata, file.tensors, file.raw, version=file.version)
        return
    targets: dict[str, GgufTensor] = {}
    for name in weights.names:
        tensor = weights.read(name)
        _count_tensors(grids, tensor)
        kind, _ = _fit(name, tensor, _as_gguf)
        targets[name] = GgufTensor(GGML_TYPES[kind], tensor.shape)
    architecture = weights.config.get("model_type")
    text = architecture if isinstance(architecture, str) else "unknown"
    metadata = {"general.architecture": GgufField.of("string", text)}
    write_gguf(path, metadata, targets, lambda name: _as_gguf(weights.read(name))[1])


def _as_gguf(tensor: Tensor) -> tuple[str, Tensor]:
    """Return the GGUF type of a tensor, and the tensor on its grid."""
    if isinstance(tensor, BlockWeights):
        return gguf_weights(tensor)
    kind = next((t.name for t in GGML_TYPES.values() if t.dtype == tensor.dtype), None)
    if kind is None or not 1 <= tensor.ndim <= 4:
        raise UnsupportedError(
            "tensor", f"{tensor.dtype} {list(tensor.shape)}",
            "floats or signed integers of 1 to 4 axes, for GGUF", "leave it out, or choose another format",
        )  # fmt: skip
    return kind, tensor


# -- safetensors

_Parts = dict[str, dict[str, StoredTensor]]


@dataclass(frozen=True)
class _Scheme:
    """Describes the scheme of a layer in a configuration."""

    bits: int
    group_size: int
    symmetric: bool
    act_order: bool
    packing: str


def _plan_safetensors(
    weights: WeightFiles, to: str, grids: dict[str, int]
) -> tuple[_Parts, dict[str, _Scheme]]:
    """Plan the tensors that each one becomes, and the scheme of each quantized one."""
    parts: _Parts = {}
    schemes: dict[str, _Scheme] = {}
    for name in weights.names:
        tensor = weights.read(name)
        _count_tensors(grids, tensor)
        arrays = _fit(name, tensor, partial(_as_safetensors, name, to))
        parts[name] = {part: StoredTensor(array.dtype, array.shape) for part, array in arrays.items()}
        if isinstance(tensor, BlockWeights) and to != "safetensors":
            schemes[name] = _scheme(tensor, to)
    return parts, schemes


def _as_safetensors(name: str, to: str, tensor: Tensor) -> dict[str, NDArray]:
    if not isinstance(tensor, BlockWeights):
        return {name: tensor}
    if to == "safetensors":
        return {name: floats_of(tensor)}
    layer = name.removesuffix(".weight")
    return {f"{layer}.{suffix}": part for suffix, part in LAYER_CODECS[to].write(tensor).items()}


def _loader(weights: WeightFiles, to: str, parts: _Parts) -> Callable[[str], NDArray]:
    """Return a loader of tensors in the order of `parts`; those of one layer are made together."""
    owners = {part: name for name, tensors in parts.items() for part in tensors}
    ready: dict[str, NDArray] = {}

    def load(part: str) -> NDArray:
        if part not in ready:
            ready.clear()
            ready.update(_as_safetensors(owners[part], to, weights.read(owners[part])))
        return ready.pop(part)

    return load


def _scheme(tensor: BlockWeights, to: str) -> _Scheme:
    if to == "naive-quantized":
        packing = naive_packing(tensor)
    elif tensor.format == "fp4e2m1":
        packing = "mxfp4-pack-quantized" if tensor.block_size == 32 else "nvfp4-pack-quantized"
    else:
        packing = "pack-quantized"
    bits = {"naive-quantized": 8, "awq": 4}.get(to, tensor.bits)
    size = -1 if tensor.blocks == 1 else tensor.block_size
    return _Scheme(bits, size, _is_symmetric(tensor), tensor.groups is not None, packing)


def _is_symmetric(tensor: BlockWeights) -> bool:
    """Return whether every zero point is 0, or the middle of an unsigned grid."""
    middle = 2 ** (tensor.bits - 1) if tensor.codes.dtype == np.uint8 else 0
    return tensor.zero_points is None or bool((tensor.zero_points == middle).all())


def _quantization_config(
    to: str, schemes: Mapping[str, _Scheme], weights: WeightFiles, parts: _Parts
) -> dict[str, Any]:
    """Return the quantization_config of config.json."""
    if to in ("compressed-tensors", "naive-quantized"):
        return _config_groups(schemes, parts)
    first = next(iter(schemes.values()), None)
    for name, scheme in schemes.items():
        assert first is not None
        if (scheme.bits, scheme.group_size) != (first.bits, first.group_size):
            raise UnsupportedError(
                f"tensor '{name}'", f"{scheme.bits} bits in blocks of {scheme.group_size}",
                f"{first.bits} bits in blocks of {first.group_size}, as the first layer, for {to}",
                "convert to compressed-tensors",
            )  # fmt: skip
    bits, size = (first.bits, first.group_size) if first is not None else (4, 128)
    if to == "awq":
        return {
            "quant_method": "awq",
            "bits": bits,
            "group_size": size,
            "zero_point": True,
            "version": "gemm",
        }
    return {
        "quant_method": "gptq", "bits": bits, "group_size": size, "checkpoint_format": to,
        "desc_act": any(scheme.act_order for scheme in schemes.values()),
        "sym": all(scheme.symmetric for scheme in schemes.values()),
    }  # fmt: skip


def _config_groups(schemes: Mapping[str, _Scheme], parts: _Parts) -> dict[str, Any]:
    """Return one group of layers for each scheme, named one by one."""
    groups: dict[_Scheme, list[str]] = {}
    for name, scheme in schemes.items():
        groups.setdefault(scheme, []).append(name.removesuffix(".weight"))
    entries = {}
    for index, (scheme, layers) in enumerate(groups.items()):
        is_float = scheme.packing not in ("pack-quantized", "int-quantized")
        strategy = "channel" if scheme.group_size == -1 else "group"
        entries[f"group_{index}"] = {
            "targets": layers, "format": scheme.packing,
            "weights": {
                "num_bits": scheme.bits, "type": "float" if is_float else "int",
                "symmetric": scheme.symmetric, "dynamic": False,
                "strategy": "tensor_group" if scheme.packing.startswith("nvfp4") else strategy,
                "group_size": None if scheme.group_size == -1 else scheme.group_size,
                "actorder": "group" if scheme.act_order else None,
            },
        }  # fmt: skip
    packings = {scheme.packing for scheme in groups}
    return {
        "quant_method": "compressed-tensors", "quantization_status": "compressed",
        "format": packings.pop() if len(packings) == 1 else "mixed-precision", "config_groups": entries,
        "ignore": [n.removesuffix(".weight") for n in parts if n not in schemes and n.endswith(".weight")],
    }  # fmt: skip


# -- both


def _fit(name: str, tensor: Tensor, act: Callable[[Any], Any]) -> Any:
    """Apply `act` to a tensor; an error names the tensor, and a format that holds it."""
    try:
        return act(tensor)
    except UnsupportedError as error:
        alternatives = holders(tensor) if isinstance(tensor, BlockWeights) else []
        fix = f"convert to {' or '.join(alternatives)}, which hold it exactly" if alternatives else error.fix
        raise UnsupportedError(f"tensor '{name}'", error.got, error.want, fix) from error


def holders(weights: BlockWeights) -> list[str]:
    """Return the formats that hold these weights exactly, in the order of `FORMATS`, floats left out."""
    result = []
    for name in FORMATS[:-1]:
        try:
            _as_gguf(weights) if name == "gguf" else LAYER_CODECS[name].write(weights)
        except IntactError:
            continue
        result.append(name)
    return result


def _count_tensors(grids: dict[str, int], tensor: Tensor) -> None:
    words = describe(tensor) if isinstance(tensor, BlockWeights) else "plain"
    grids[words] = grids.get(words, 0) + 1


@contextmanager
def _folder_of(path: Path) -> Iterator[Path]:
    """Make the folder to write to; a new one is removed if an error comes."""
    if path.suffix == ".safetensors":
        yield path.parent
        return
    is_new = not path.is_dir()
    if is_new:
        try:
            path.mkdir()
        except OSError as error:
            raise FileAccessError.of(path, error, "written") from error
    try:
        yield path
    except BaseException:
        if is_new:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _copy_others(source: Path, folder: Path) -> None:
    """Copy what belongs to a model beside its weights: tokenizers, templates, settings of generation."""
    for file in sorted(source.iterdir()):
        skipped = file.name in (CONFIG_FILE, OLD_FILE) or file.name.endswith(".index.json")
        if file.is_file() and file.suffix in _COPIED and not skipped:
            with file.open("rb") as old, replacing(folder / file.name) as new:
                shutil.copyfileobj(old, new)


_ONE_LEVEL = (
    "TQ1_0", "TQ2_0", "IQ4_NL", "MXFP4", "NVFP4", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
)  # fmt: skip
"""Types with one level of scales, the smaller ones first."""


def gguf_weights(weights: BlockWeights) -> tuple[str, BlockWeights]:
    """Return the smallest type that holds weights exactly, and the weights on its grid.

    Args:
        weights: Shape [..., K].
    Returns:
        The name of the type, and weights that `write_gguf` takes for it.
    Raises:
        UnsupportedError: No type holds them.
    """
    if weights.super_scales is not None:
        for name, codec in CODECS.items():
            if codec.sub_bits and _is_k_quant(weights, codec):
                return name, weights
    for name in _ONE_LEVEL:
        if weights.codes.ndim > 4 or weights.shape[-1] % GGML_TYPES[name].block_size:
            continue
        codec = CODECS[name]
        grid = BlockGrid(
            f"GGUF {name}", codec.format, codec.block_size, (codec.scale,),
            zero_points=name == "TQ2_0", minima=codec.minima,
        )  # fmt: skip
        try:
            fitted = regrid(weights, grid)
        except UnsupportedError:
            continue
        if _has_fixed_parts(name, fitted):
            return name, fitted
    raise UnsupportedError(
        "weights", f"{describe(weights)}, {weights.shape[-1]} columns",
        "blocks of 32 or 256 with float16 scales, as Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 have them",
        "quantize the floats anew with llama.cpp",
    )  # fmt: skip


def _is_k_quant(weights: BlockWeights, codec: GgmlCodec) -> bool:
    supers, scales = weights.super_scales, weights.scales
    return (
        weights.format == codec.format and weights.block_size == codec.block_size
        and (weights.minima is not None) == codec.minima and weights.zero_points is None
        and weights.groups is None and supers is not None and supers.dtype == np.float16
        and supers.shape == (*weights.shape[:-1], weights.shape[-1] // 256) and weights.shape[-1] % 256 == 0
        and _fits_bits(scales, codec) and (weights.minima is None or _fits_bits(weights.minima, codec))
        and (weights.super_minima is None or weights.super_minima.dtype == np.float16)
    )  # fmt: skip


def _fits_bits(values: np.ndarray, codec: GgmlCodec) -> bool:
    half = 2 ** (codec.sub_bits - 1) if codec.signed_sub else 0
    if values.dtype != (np.int8 if codec.signed_sub else np.uint8):
        return False
    return not values.size or bool(-half <= values.min() and values.max() < 2**codec.sub_bits - half)


def _has_fixed_parts(name: str, fitted: BlockWeights) -> bool:
    """Return whether what the type does not store is what it stands for."""
    if name == "TQ1_0":
        return not (fitted.codes == -2).any()
    if name == "TQ2_0":
        return fitted.zero_points is not None and bool((fitted.zero_points == 1).all())
    if name == "NVFP4":
        return not (fitted.scales.view(np.uint8) > 126).any()
    return name != "MXFP4" or not (fitted.scales.view(np.uint8) == 255).any()

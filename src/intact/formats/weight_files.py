"""A model's weights tensor by tensor, whatever the format of its files, and comparisons of two such files."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileAccessError, FileFormatError, QuantValueError, require_path
from intact.formats.gguf_file import MAGIC, Tensor
from intact.formats.gguf_parts import first_parts, open_gguf
from intact.formats.metadata_fields import FieldUse
from intact.formats.packed_layers import LAYER_CODECS, LayerCodec
from intact.formats.quantization.layer_facts import LayerFacts, layer_facts
from intact.formats.quantization.read_config import CONFIG_FILE, KEY, OLD_FILE, QuantizationConfig
from intact.formats.safetensors_file import SafetensorsFile
from intact.graph import Constants, find_block_weights, load, read_block_weight
from intact.limits import RECORD_BYTES
from intact.numerics import BlockWeights, dequantize_blocks
from intact.reading import read_bytes, reading

_PACKED = (".qweight", ".weight_packed")
INDEX = "model.safetensors.index.json"


class WeightFiles(Protocol):
    """Gives the weights of a model, one tensor at a time.

    Attributes:
        format: "gguf", "onnx", "safetensors", or a name of `LAYER_CODECS`.
        names: Of the tensors; a quantized layer ``a.b`` has one, "a.b.weight".
        config: What config.json says; empty for GGUF.
        field_uses: What became of the fields of quantization_config.
    """

    format: str
    names: tuple[str, ...]
    config: dict[str, Any]
    field_uses: tuple[FieldUse, ...]

    def read(self, name: str) -> Tensor:
        """Return a tensor: `BlockWeights`, or an array in the file's own dtype.

        Raises:
            QuantValueError: There is no such tensor.
            FileFormatError, UnsupportedError: It cannot be read.
        """


def floats_of(tensor: Tensor) -> NDArray:
    """Return the floats that a tensor stands for; arrays of numbers as they are."""
    return dequantize_blocks(tensor) if isinstance(tensor, BlockWeights) else tensor


def open_weights(path: str | os.PathLike[str], accepted: Collection[str] = ()) -> WeightFiles:
    """Open a GGUF, ONNX or safetensors file, or a folder of the first or the last with its config.json.

    Args:
        path: The file or folder.
        accepted: Fields of quantization_config that the user lets pass where they would be refused.
    Raises:
        FileFormatError: It is none of these, or damaged.
        UnsupportedError: The configuration names a format that is not read.
        FileAccessError: It cannot be read.
    """
    require_path(path)
    folder = Path(path)
    if folder.suffix == ".onnx":
        from intact.formats.weight_files import OnnxWeights  # loads the package onnx

        return OnnxWeights(path)
    if folder.is_dir():
        models = [] if any(folder.glob("*.safetensors")) else _models(folder)
        return GgufWeights(models[0]) if models else SafetensorsWeights(folder, accepted)
    with reading(path), folder.open("rb") as file:
        begin = file.read(len(MAGIC))
    return GgufWeights(path) if begin == MAGIC else SafetensorsWeights(folder, accepted)


def _models(folder: Path) -> list[Path]:
    """Return the GGUF file of a folder, the first one of a model in several files; none without.

    Raises:
        FileFormatError: There are several models.
    """
    models = first_parts(folder)
    if len(models) > 1:
        names = ", ".join(file.name for file in models[:4])
        raise FileFormatError(
            f"folder '{folder}'", f"{len(models)} GGUF models: {names}", "one model", "name the file itself"
        )
    return models


class GgufWeights:
    """Gives the weights of a GGUF file, or of the files of one model. Errors as of `open_gguf`."""

    format = "gguf"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = open_gguf(path)
        self.names = tuple(self.file.tensors)
        self.config: dict[str, Any] = {}
        self.field_uses: tuple[FieldUse, ...] = ()

    def read(self, name: str) -> Tensor:
        """Return a tensor, as `GgufFile.read`."""
        return self.file.read(name)

    def code_bits(self) -> float:
        """Return the bits of a weight that has codes, on average with its scales; 0.0 where none has any."""
        coded = [tensor for tensor in self.file.tensors.values() if tensor.kind.block_size > 1]
        count = sum(prod(tensor.shape) for tensor in coded)
        return 8 * sum(tensor.nbytes for tensor in coded) / count if count else 0.0


class SafetensorsWeights:
    """Gives the weights of safetensors files whose layers may be quantized as config.json says.

    Args:
        path: A folder, or one file, beside which config.json is looked for.
        accepted: Fields of quantization_config that the user lets pass where they would be refused.

    Raises:
        FileFormatError: There is no safetensors file, one is damaged, or a layer lacks a tensor.
        UnsupportedError: The configuration names a format that is not read.
        FileAccessError: A file cannot be read.
    """

    def __init__(self, path: Path, accepted: Collection[str] = ()) -> None:
        self.where = f"'{path}'"
        folder = path if path.is_dir() else path.parent
        self.config = _read_json(folder / CONFIG_FILE)
        quantization = QuantizationConfig(self.config, _read_json(folder / OLD_FILE), accepted)
        self.format = quantization.codec
        files = [SafetensorsFile(file) for file in (_shards(path) if path.is_dir() else [path])]
        self._files = {name: file for file in files for name in file.tensors}
        if len(self._files) != sum(len(file.tensors) for file in files):
            raise FileFormatError(
                self.where, "a tensor in two files", "every tensor once", "remove old files"
            )
        self._layers = dict(self._find_layers())
        self.format = quantization.finish(self._facts(path.is_dir()))
        self.field_uses = tuple(quantization.fields.uses())
        parts = {part for layer in self._layers.values() for part in layer.values()}
        self.names = (
            *(f"{layer}.weight" for layer in self._layers),
            *(n for n in self._files if n not in parts),
        )
        if len(set(self.names)) != len(self.names):
            raise FileFormatError(
                self.where, "a weight both in floats and in codes", "one of them", "remove one"
            )

    def read(self, name: str) -> Tensor:
        """Return a tensor, as `WeightFiles.read` says.

        Raises:
            QuantValueError: There is no such tensor.
            FileFormatError: Its tensors or the configuration are damaged.
        """
        layer = self._layers.get(name.removesuffix(".weight")) if name.endswith(".weight") else None
        if layer is None:
            if name not in self._files:
                raise QuantValueError("tensor", f"'{name}'", f"a name of {self.where}", "see .names")
            return self._files[name].read(name)
        parts = {suffix: self._files[part].read(part) for suffix, part in layer.items()}
        try:
            return LAYER_CODECS[self.format].read(parts)
        except (FileFormatError, QuantValueError) as error:
            raise FileFormatError(
                f"{self.where}, tensor '{name}': {error.where}", error.got, error.want, error.fix
            ) from error

    def _facts(self, is_whole: bool) -> list[LayerFacts]:
        """Return what the tensors of layers show; `is_whole`: all files of the model are open.

        Raises:
            FileFormatError: The configuration names codes, and no layer has any; or the other way round.
        """
        if self.format == "safetensors":
            packed = next((name for name in self._files if name.endswith(_PACKED)), None)
            if packed is not None:
                raise FileFormatError(
                    self.where, f"codes ('{packed}') without a {KEY}", f"one in {CONFIG_FILE}",
                    "copy the file that belongs to these weights",
                )  # fmt: skip
            return []
        if not self._layers and is_whole:
            codec = LAYER_CODECS[self.format]
            raise FileFormatError(
                self.where, f"a {KEY}, but no layer with '{codec.separator}{codec.required[0]}'",
                "codes", f"remove {KEY} from {CONFIG_FILE} where the weights are floats",
            )  # fmt: skip
        parts = {
            layer: {suffix: self._files[part].read(part) for suffix, part in names.items()}
            for layer, names in self._layers.items()
        }
        facts = (layer_facts(layer, arrays, self.format) for layer, arrays in parts.items())
        return [each for each in facts if each is not None]

    def _find_layers(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Return the names of layers with their tensors by suffix."""
        codec: LayerCodec | None = LAYER_CODECS.get(self.format)
        if codec is None:
            return
        for name in self._files:
            end = codec.separator + codec.required[0]
            layer = name.removesuffix(end)
            if layer in ("", name):
                continue
            names = {s: f"{layer}{codec.separator}{s}" for s in (*codec.required, *codec.optional)}
            missing = [s for s in codec.required if names[s] not in self._files]
            if missing:
                raise FileFormatError(
                    self.where, f"layer '{layer}' without {', '.join(missing)}",
                    f"all of {', '.join(codec.required)}, as the format in {KEY} says",
                    "fetch the missing files",
                )  # fmt: skip
            yield layer, {s: part for s, part in names.items() if part in self._files}


def _shards(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileFormatError(
            f"folder '{folder}'",
            "no safetensors file",
            "*.safetensors, or a GGUF file",
            "name the file itself",
        )
    index = _read_json(folder / INDEX).get("weight_map", {})
    listed = index.values() if isinstance(index, dict) else ()
    names = {name for name in listed if isinstance(name, str)}
    if missing := sorted(names - {file.name for file in files}):
        raise FileFormatError(f"folder '{folder}'", f"no '{missing[0]}'", f"what {INDEX} lists", "fetch it")
    return [file for file in files if file.name in names] if names else files


def _read_json(path: Path) -> dict[str, Any]:
    """Return the table of a JSON file; empty where there is no file."""
    if not path.exists():
        return {}
    try:
        data = read_bytes(path)
        RECORD_BYTES.check(len(data), f"file '{path}'")
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FileFormatError | FileAccessError):
            raise
        raise FileFormatError(
            f"file '{path}'", "text that is no JSON", "a table", "fetch it again"
        ) from error
    if not isinstance(table, dict):
        raise FileFormatError(f"file '{path}'", f"a {type(table).__name__}", "a table", "fetch it again")
    return table


class OnnxWeights:
    """Gives the weights of an ONNX file: codes of MatMulNBits and DequantizeLinear, and its other constants.

    The axis of the blocks comes last: a weight [K, N] of a MatMul in blocks along K is read as [N, K]. Codes
    called "w.codes", as `intact quantize` writes them, are the tensor "w".

    Args:
        path: The file; external data must lie beside it.

    Raises:
        FileFormatError, UnsupportedError: As for `intact.graph.load`.
    """

    format = "onnx"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        graph = load(path, any_opset=True).graph
        self.where = f"file '{os.fspath(path)}'"
        self._constants = Constants(graph)
        codes = dict(find_block_weights(graph, self._constants))
        self._nodes = {
            _tensor_name(name, {*codes, *graph.initializers}): node for name, node in codes.items()
        }
        parts = {v.name for node in self._nodes.values() for v in node.inputs if v is not None}
        stored = {name: value for name, value in graph.initializers.items() if value in self._constants}
        self._others = {n: v for n, v in stored.items() if n not in parts and n not in codes}
        self.names = (*self._nodes, *self._others)
        self.config: dict[str, Any] = {}
        self.field_uses: tuple[FieldUse, ...] = ()

    def read(self, name: str) -> Tensor:
        """Return a tensor, as `WeightFiles.read` says.

        Raises:
            QuantValueError: There is no such tensor.
        """
        if name in self._nodes:
            return read_block_weight(self._nodes[name], self._constants)
        array = self._constants(self._others[name]) if name in self._others else None
        if array is None:
            raise QuantValueError("tensor", f"'{name}'", f"a name of {self.where}", "see .names")
        return array


def _tensor_name(codes: str, names: set[str]) -> str:
    """Return the name of the weights that codes stand for."""
    name = codes.removesuffix(".codes")
    return codes if not name or name in names else name


@dataclass(frozen=True)
class WeightDifference:
    """Counts the differences of one tensor's floats between two files.

    Attributes:
        name: Of the tensor.
        differing: Elements that differ; zeros of both signs are equal, and NaNs.
        elements: All of them.
        largest: The largest absolute difference.
        missing: "first" or "second" where that file has no such tensor, or another shape; else "".
    """

    name: str
    differing: int
    elements: int
    largest: float
    missing: str = ""


def compare_weights(
    first: str | os.PathLike[str], second: str | os.PathLike[str]
) -> Iterator[WeightDifference]:
    """Compare the floats that two files stand for, tensor by tensor, in the order of the first.

    Args:
        first, second: As `convert` takes its source.
    Yields:
        One difference for each tensor of either.
    Raises:
        FileFormatError, FileAccessError, UnsupportedError: A file cannot be read.
    """
    ours, theirs = open_weights(first), open_weights(second)
    names = set(theirs.names)
    for name in ours.names:
        if name not in names:
            yield WeightDifference(name, 0, 0, 0.0, "second")
            continue
        a, b = (floats_of(weights.read(name)).astype(np.float32) for weights in (ours, theirs))
        if a.shape != b.shape:
            yield WeightDifference(name, a.size, a.size, float("inf"), "second")
            continue
        with np.errstate(invalid="ignore"):
            differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
            largest = float(np.abs(a[differs] - b[differs]).max(initial=0))
        yield WeightDifference(name, int(differs.sum()), a.size, largest)
    for name in theirs.names:
        if name not in set(ours.names):
            yield WeightDifference(name, 0, 0, 0.0, "first")

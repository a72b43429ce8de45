"""Puts the codes of a weight file (GGUF, GPTQ, AWQ, compressed-tensors) into a float ONNX model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact import graph
from intact.errors import QuantValueError, UnsupportedError
from intact.formats import GgufWeights, WeightFiles, holders, nbits_inputs, open_weights, with_halves
from intact.graph import Model, pipelines
from intact.numerics import BlockWeights, block_scales, dequantize_blocks
from intact.patterns import nearest
from intact.ptq.blocks.block_settings import BlockSettings
from intact.ptq.blocks.linear_layers import LinearLayer, find_linear_layers
from intact.ptq.blocks.write_layers import QDQ_OPSET, write_dequantize, write_nbits

_WORST = 1.0  # relative squared error: zeros have it, too


@dataclass
class ConvertedModel:
    """Holds a model with the codes of a weight file.

    Attributes:
        model: The graph.
        layers: The tensor of the file whose codes each node got, by the node's name.
        numbers: Constants that got the file's plain numbers.
        unused: Why each other tensor of the file is not in the model.
        in_float: Names of the products whose weights stay as they are.
    """

    model: Model
    layers: dict[str, str] = field(default_factory=dict)
    numbers: list[str] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)
    in_float: list[str] = field(default_factory=list)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all; see `intact.graph.save`."""
        graph.save(self.model, path, external=external)


def convert_to_onnx(
    weights: str | os.PathLike[str], model: graph.Source, *, names: Mapping[str, str] | None = None,
    operator: str | None = None, activations: str = "float",
) -> ConvertedModel:  # fmt: skip
    """Put the codes of a weight file in the place of a float model's matrices; no float of the file changes.

    A tensor belongs to the MatMul or Gemm whose weight has its name, or whose own name is its path
    ("/model/layers.0/mlp/up_proj/MatMul" for "model.layers.0.mlp.up_proj.weight"), also without the first
    parts of either. Plain tensors replace constants of their name and shape: the scales of AWQ lie in norms.

    Args:
        weights: A file or folder, as `intact.formats.open_weights` takes it.
        model: The float model, never changed.
        names: Names of ONNX weights or nodes, by those of tensors, where they differ otherwise.
        operator, activations: As for `BlockSettings`.
    Returns:
        The model, and what became of each tensor.
    Raises:
        UnsupportedError: Weights are on a grid that the operator cannot hold; names the tensor, and a form
            that can.
        QuantValueError: No tensor fits a layer, shapes differ, or the floats are those of another model.
        FileFormatError, FileAccessError: A file cannot be read.
    """
    settings = BlockSettings(operator=operator, activations=activations)
    file = open_weights(weights)
    loaded = graph.load(model)
    graph.run_stages(loaded, (pipelines.INLINE, pipelines.LIFT_CONSTANTS, pipelines.PRUNE))
    if settings.file_operator == "DequantizeLinear":
        graph.upgrade_opset(loaded, QDQ_OPSET)
    layers, _ = find_linear_layers(loaded)
    result = ConvertedModel(loaded)
    by_name, free_names = _names_of_layers(layers), graph.Namer(loaded.graph)
    for name in file.names:
        tensor = file.read(name)
        if isinstance(file, GgufWeights):  # exporters of ONNX files begin with those of Hugging Face
            tensor = with_halves(file.file, name, tensor)
        wanted = (names or {}).get(name, name)
        if not isinstance(tensor, BlockWeights):
            _load_numbers(result, name, wanted, tensor)
        elif (layer := _layer_called(wanted, by_name)) is None:
            result.unused[name] = "no MatMul or Gemm has such a name"
        elif layer.name in result.layers:
            raise QuantValueError(
                f"tensor '{name}'", f"the node of '{result.layers[layer.name]}', '{layer.name}'",
                "a node for each tensor", "say which is meant by names (--names)",
            )  # fmt: skip
        else:
            _check_floats(name, tensor, layer)
            _write_tensor(free_names, name, tensor, layer, settings)
            result.layers[layer.name] = name
    if not result.layers:
        raise _no_match(file, by_name)
    graph.share_initializers(loaded)
    result.in_float = [layer.name for layer in layers if layer.name not in result.layers]
    return result


def _names_of_layers(layers: Iterable[LinearLayer]) -> dict[str, list[LinearLayer]]:
    """Return layers by each name that means them: of their weights, and their own as a dotted path."""
    by_name: dict[str, list[LinearLayer]] = {}
    for layer in layers:
        paths = [re.sub(r"[./](MatMul|Gemm)(_\d+)?$", "", name) for name in layer.names]
        weights = [twin.weight.name or "" for twin in layer.all]
        names = [*weights, *(weight.removesuffix(".weight") for weight in weights), *layer.names]
        for name in dict.fromkeys((*names, *(path.strip("/").replace("/", ".") for path in paths))):
            if name:
                by_name.setdefault(name, []).append(layer)
    return by_name


def _layer_called(name: str, by_name: Mapping[str, list[LinearLayer]]) -> LinearLayer | None:
    """Return the only layer of a name, or of its end: "layers.0.up" for "model.layers.0.up.weight"."""
    for wanted in (name, name.removesuffix(".weight")):
        if len(by_name.get(wanted, ())) == 1:
            return by_name[wanted][0]
    stem = f".{name.removesuffix('.weight')}"
    fitting = {
        id(layers[0]): layers[0]
        for candidate, layers in by_name.items()
        if len(layers) == 1 and (stem.endswith(f".{candidate}") or f".{candidate}".endswith(stem))
    }
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def _load_numbers(result: ConvertedModel, name: str, wanted: str, tensor: NDArray) -> None:
    """Let a constant have the numbers of a plain tensor, where there is one of its name and shape."""
    value = result.model.graph.initializers.get(wanted)
    if value is None or value.const_value is None:
        result.unused[name] = "no constant has such a name"
        return
    old = value.const_value
    shape = tuple(old.shape.numpy())
    if shape != tensor.shape:
        result.unused[name] = f"its shape is {list(tensor.shape)}, that of the constant {list(shape)}"
        return
    graph.set_initializer(result.model, wanted, tensor)
    result.numbers.append(name)


def _check_floats(name: str, tensor: BlockWeights, layer: LinearLayer) -> None:
    """Refuse weights of another shape, and those that are not near the model's."""
    if tensor.shape != layer.shape:
        raise QuantValueError(
            f"tensor '{name}'", f"shape {list(tensor.shape)}",
            f"{list(layer.shape)}, as node '{layer.name}' has",
            "give the model that the weights belong to, or say by names which node is meant",
        )  # fmt: skip
    rows = layer.rows()
    errors = dequantize_blocks(tensor) - rows
    error = float(np.vdot(errors, errors)) / max(float(np.vdot(rows, rows)), 1e-30)
    if not error < _WORST:
        raise QuantValueError(
            f"tensor '{name}'", f"weights with {error:.2g} times the square of '{layer.name}' as their error",
            "the same weights, rounded", "export the model that was quantized: others do not fit",
        )  # fmt: skip


def _write_tensor(
    names: graph.Namer, name: str, tensor: BlockWeights, layer: LinearLayer, settings: BlockSettings
) -> None:
    is_dequantized = settings.file_operator == "DequantizeLinear"
    scales = block_scales(tensor)
    if not np.array_equal(scales.astype(layer.dtype).astype(np.float32), scales, equal_nan=True):
        raise UnsupportedError(
            f"tensor '{name}'", f"{tensor.scales.dtype} scales", f"what {layer.dtype} holds",
            "give a model in float32",
        )  # fmt: skip
    try:
        if is_dequantized:
            write_dequantize(names, layer, tensor)
        else:
            for twin in layer.all:
                write_nbits(names, twin, tensor, settings.accuracy_level)
    except UnsupportedError as error:
        alternatives = holders(tensor)
        fix = f"convert to {' or '.join(alternatives)}, which hold it exactly" if alternatives else error.fix
        if is_dequantized and _fits_nbits(tensor):
            fix = f"write MatMulNBits (operator), or {fix}"
        raise UnsupportedError(f"tensor '{name}'", error.got, error.want, fix) from error


def _fits_nbits(tensor: BlockWeights) -> bool:
    try:
        nbits_inputs(tensor)
    except UnsupportedError:
        return False
    return True


def _no_match(file: WeightFiles, by_name: Mapping[str, list[LinearLayer]]) -> QuantValueError:
    quantized = next((name for name in file.names if isinstance(file.read(name), BlockWeights)), None)
    if quantized is None:
        return QuantValueError(
            "convert: weights", "no tensor with codes", "a quantized file", "use intact quantize for floats"
        )
    near = next(iter(nearest(quantized, list(by_name))), "none")
    return QuantValueError(
        "convert: model", f"no MatMul or Gemm that is called like '{quantized}'", "names that fit",
        f"give the model that the weights belong to, or a table of names; the nearest name is {near}",
    )  # fmt: skip

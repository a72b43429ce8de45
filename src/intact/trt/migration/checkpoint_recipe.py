"""Finds the layers of a `pytorch_quantization` checkpoint in an ONNX file, by their weights."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from intact import graph, numerics
from intact.calib import TrtCache
from intact.errors import CalibrationError, FileFormatError
from intact.graph import Constants, Model, Node, pipelines
from intact.graph.ops import may_move
from intact.placement import View, weight_axis
from intact.spec import INT8, QuantSpec
from intact.trt.migration.implicit_recipe import ImplicitRecipe, PinnedWeight

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_CLOSE = 1e-4
"""The largest distance of a folded channel from the checkpoint's, relative to its largest number."""


def read_checkpoint(path: str | os.PathLike[str], onnx: graph.Source) -> ImplicitRecipe:
    """Return the recipe of a checkpoint and the float ONNX file of the same model.

    Layers are found by their weights: equal, transposed, or with a BatchNormalization folded into them, which
    multiplies each channel. Of several layers that read one tensor the widest range counts.

    Raises:
        FileFormatError: The checkpoint has no ranges, or a layer that is not in the ONNX file; names it.
        CalibrationError: No input has a range.
    """
    from intact.torch.models import read_checkpoint_ranges

    layers, unused = read_checkpoint_ranges(path)
    model = graph.load(onnx)
    graph.run_stages(model, pipelines.CACHE)
    pipelines.BATCHNORM(model)
    weights = _weights_of(model)
    scales, pinned = dict[str, np.float32](), dict[str, PinnedWeight]()
    for layer in layers:
        free = ((node, _ratios(w, layer.weight)) for node, w in weights.items() if node.name not in pinned)
        match = next(((node, ratios) for node, ratios in free if ratios is not None), None)
        if match is None:
            raise FileFormatError(
                f"layer '{layer.name}' of '{os.fspath(path)}'", "no layer of the ONNX file with its weight",
                "the float export of the same model", "export it again from this checkpoint",
            )  # fmt: skip
        node, ratios = match
        values, axis = weights[node]
        amax = np.broadcast_to(layer.weight_amax.reshape(-1), ratios.shape) * ratios
        pinned[node.name or ""] = PinnedWeight(values, _scales(amax), axis)
        if layer.input_amax is not None:
            scale = _scales(np.array([layer.input_amax], np.float32))[0]
            for name in _names_of_input(node):
                scales[name] = max(scales.get(name, np.float32(0)), scale)
    if not scales:
        raise CalibrationError(
            f"file '{os.fspath(path)}'",
            "no range of any input",
            "'..._input_quantizer._amax'",
            "calibrate the model",
        )
    kind = f"checkpoint of pytorch_quantization, {len(layers)} layers"
    if unused:
        kind += f"; {len(unused)} quantizers are of no layer and left out: {', '.join(unused[:3])}"
    return ImplicitRecipe(onnx, TrtCache(scales), kind, weights=pinned)


def pin_weights(model: Model, weights: Mapping[str, PinnedWeight]) -> int:
    """Give weights of a Q/DQ model the scales of a checkpoint, and their codes on these; return how many."""
    count = 0
    nodes = {node.name: node for node in model.graph}
    for name, weight in weights.items():
        node = nodes.get(name)
        value = None if node is None or len(node.inputs) < 2 else node.inputs[1]
        dequantize = None if value is None else value.producer()
        if dequantize is None or dequantize.op_type != "DequantizeLinear":
            continue
        codes, scale = dequantize.inputs[:2]
        if codes is None or scale is None or codes.const_value is None or scale.const_value is None:
            continue
        stored = scale.const_value.numpy()
        if stored.size not in (1, weight.scales.size) or codes.const_value.shape != weight.values.shape:
            continue
        spec = QuantSpec(INT8, axis=weight.axis if weight.scales.size > 1 else None)
        zeros = np.zeros(weight.scales.shape, np.int32)
        fitted = numerics.quantize(weight.values, weight.scales, zeros, spec)
        graph.set_initializer(model, scale.name or "", weight.scales.reshape(stored.shape))
        graph.set_initializer(model, codes.name or "", fitted)
        count += 1
    return count


def _weights_of(model: Model) -> dict[Node, tuple[NDArray[np.float32], int | None]]:
    """Return the constant weights of layers, with the axis of their output channels."""
    constants, result = Constants(model.graph), {}
    for op in View(model).ops:
        if op.op_type not in _LAYERS or len(op.inputs) < 2 or op.inputs[1] is None:
            continue
        value = op.inputs[1]
        array = constants(value)
        if array is not None:
            result[op.node] = array.astype(np.float32), weight_axis(op, 1, value)
    return result


def _names_of_input(node: Node) -> list[str]:
    """Return the tensor that a layer reads, and those that it is moved from, where pairs may stand."""
    names, value = list[str](), node.inputs[0]
    while value is not None and value.name:
        names.append(value.name)
        producer = value.producer()
        value = producer.inputs[0] if producer is not None and may_move(producer) else None
    return names


def _ratios(
    weight: tuple[NDArray[np.float32], int | None], stored: NDArray[np.float32]
) -> NDArray[np.float32] | None:
    """Return by what each output channel of a weight is a multiple of the checkpoint's; None: it is not."""
    values, axis = weight
    rows = (
        values.reshape(1, -1)
        if axis is None
        else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    )
    own = stored.reshape(len(stored), -1)
    if rows.shape != own.shape:
        return None
    places = np.abs(own).argmax(1)[:, None]
    peaks = np.take_along_axis(own, places, 1)
    ratios = np.divide(np.take_along_axis(rows, places, 1), peaks, out=np.ones_like(peaks), where=peaks != 0)
    apart = np.abs(rows - ratios * own).max(1)
    bounds = _CLOSE * np.abs(rows).max(1) + 1e-30
    result: NDArray[np.float32] = np.abs(ratios[:, 0])
    return result if np.all(apart <= bounds) else None


def _scales(amax: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return scales of symmetric int8; that of a channel of zeros is 1."""
    return np.asarray(numerics.scale_from_amax(amax.astype(np.float32), QuantSpec(INT8)), np.float32)

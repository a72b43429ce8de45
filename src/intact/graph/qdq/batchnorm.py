"""Fold BatchNormalization into the weights of the layer in front of it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph import ops
from intact.graph.core.build import Inserter, drop_unused, is_read
from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import is_op
from intact.graph.rewrites.rewrite import Ensures, Outcome, Rewrite, Scene, Stays

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm")


def _fold(norm: ir.Node, scene: Scene) -> Outcome:
    """Fold a BatchNormalization into weight and bias of the Conv, ConvTranspose or Gemm in front of it.

    Before: ``y = BatchNormalization(Conv(x, w, b), gamma, beta, mean, var)``.
    After:  ``y = Conv(x, w * g, (b - mean) * g + beta)`` with ``g = gamma / sqrt(var + epsilon)`` per output
    channel, formed in float64 and rounded once to the weight's dtype.

    Guards: inference mode; constant parameters; finite results; nobody else reads what the layer puts out;
    the weight is not quantized already.
    """
    reason = _obstacle(norm, scene.constants)
    if reason:
        return Stays(f"not folded: {reason}")
    x = norm.inputs[0]
    assert x is not None
    layer = x.producer()
    assert layer is not None
    weight, bias = _fold_parameters(layer, norm, scene.constants)
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        return Stays("not folded: its parameters give numbers that are not finite")
    insert = scene.inserter(layer)
    layer.resize_inputs(3)
    for index, array in ((1, weight), (2, bias)):
        scene.constants.add(_store(layer, index, array, insert))
    parameters = norm.inputs[1:]
    norm.resize_outputs(1)
    result = norm.outputs[0]
    if not result.is_graph_output():  # else `replace` does the same
        # The layer puts out the normalized tensor now: statistics and caches know that by this name.
        x.name, result.name = result.name, None
    scene.replace(norm, x)
    drop_unused(scene.graph, *parameters)
    return f"folded into {layer.op_type} '{layer.name}'"


def _fold_parameters(layer: ir.Node, norm: ir.Node, constants: Constants) -> tuple[NDArray, NDArray]:
    """Weight and bias of `layer` with `norm` in them, in the weight's dtype."""
    weight = constants(layer.inputs[1])
    assert weight is not None
    with np.errstate(all="ignore"):  # the caller looks at what is not finite
        gain, shift = _affine(norm, constants)
        old = constants(layer.inputs[2]) if len(layer.inputs) > 2 else None
        bias = _bias(old, gain.size) * gain + shift
        folded = weight.astype(np.float64) * _broadcast_gain(layer, weight.shape, gain)
        return folded.astype(weight.dtype), bias.astype(weight.dtype)


def _store(layer: ir.Node, index: int, array: NDArray, insert: Inserter) -> ir.Value:
    """Store `array` as an input of `layer`; it takes the old name where nobody else reads that.

    Returns:
        What holds the array.
    """
    old = layer.inputs[index]
    new = insert.constant(f"{layer.name}.{('x', 'weight', 'bias')[index]}.folded", array)
    layer.replace_input_with(index, new)
    if old is not None and old.is_initializer():
        drop_unused(insert.graph, old)
        if not old.is_initializer():
            new.name = old.name
    return new


def _obstacle(norm: ir.Node, constants: Constants) -> str:
    """Return why `norm` cannot be folded; "" where it can."""
    layer = norm.inputs[0].producer() if norm.inputs[0] is not None else None
    if layer is None or not is_op(layer, *_WEIGHTED):
        before = "the model's input" if layer is None else f"the output of {layer.op_type} '{layer.name}'"
        return f"it normalizes {before}, and only {', '.join(_WEIGHTED)} have weights to fold into"
    if ops.BatchNormalization.of(norm).training_mode or any(is_read(v) for v in norm.outputs[1:]):
        return "it is in training mode"
    if any(constants(v) is None for v in norm.inputs[1:]):
        return "its parameters are not constant"
    output = layer.outputs[0]
    if output.is_graph_output() or len(output.uses()) > 1:
        return f"the output of '{layer.name}' has other readers"
    weight = layer.inputs[1]
    if is_op(weight.producer() if weight is not None else None, "DequantizeLinear"):
        return f"the weight of '{layer.name}' is quantized already"
    array = constants(weight)
    if array is None:
        return f"the weight of '{layer.name}' is not constant"
    if len(layer.inputs) > 2 and layer.inputs[2] is not None and constants(layer.inputs[2]) is None:
        return f"the bias of '{layer.name}' is not constant"
    return _mismatch(layer, array, norm, constants)


def _mismatch(layer: ir.Node, weight: NDArray, norm: ir.Node, constants: Constants) -> str:
    gamma = constants(norm.inputs[1])
    assert gamma is not None
    channels = _channels(layer, weight)
    if gamma.size != channels:
        return f"it has {gamma.size} channels, and '{layer.name}' {channels}"
    if is_op(layer, "Gemm"):
        bias = constants(layer.inputs[2]) if len(layer.inputs) > 2 else None
        form = ops.Gemm.of(layer)
        if form.alpha != 1 or (bias is not None and form.beta != 1):
            return f"'{layer.name}' scales its product or its bias"
        if bias is not None and bias.size not in (1, channels):
            return f"the bias of '{layer.name}' is a matrix"
    return ""


def _affine(norm: ir.Node, constants: Constants) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (gain, shift) with ``y = x * gain + shift``."""
    gamma, beta, mean, var = (np.asarray(constants(v), np.float64).reshape(-1) for v in norm.inputs[1:5])
    gain = gamma / np.sqrt(var + np.float64(np.float32(ops.BatchNormalization.of(norm).epsilon)))
    return gain, beta - mean * gain


def _bias(bias: NDArray | None, channels: int) -> NDArray[np.float64]:
    if bias is None:
        return np.zeros(channels)
    return np.broadcast_to(bias.astype(np.float64).reshape(-1), (channels,))


def _channels(layer: ir.Node, weight: NDArray) -> int:
    if is_op(layer, "Conv"):
        return int(weight.shape[0])
    if is_op(layer, "ConvTranspose"):
        return int(weight.shape[1]) * _groups(layer)
    return int(weight.shape[ops.Gemm.of(layer).weight_axis])


def _groups(layer: ir.Node) -> int:
    return ops.ConvTranspose.of(layer).group


def _broadcast_gain(layer: ir.Node, shape: tuple[int, ...], gain: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reshape `gain`, one per output channel, to multiply the weight."""
    if is_op(layer, "ConvTranspose"):
        # Weight (C, M/group, ...): input channel c feeds the outputs of group c // (C/group) alone.
        groups = _groups(layer)
        rows = np.repeat(gain.reshape(groups, -1), shape[0] // groups, axis=0)
        return rows.reshape(*rows.shape, *[1] * (len(shape) - 2))
    if is_op(layer, "Gemm") and ops.weight_axis(layer) == 1:
        return gain
    return gain.reshape(-1, *[1] * (len(shape) - 1))


BATCHNORM = Rewrite("fold BatchNormalization", _fold, ("BatchNormalization",), ensures=Ensures(gone=True))

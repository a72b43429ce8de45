"""Mean inputs of layers: E[x] over the positions where each weight element is multiplied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.graph import Constants, Model, Node, is_op, ops
from intact.numerics import to_float32
from intact.ptq.measure.layer_inputs import Readers
from intact.ptq.measure.running_sums import RunningSums
from intact.ptq.scope.quantization_ranges import QuantizedWeight

Means = dict[str, NDArray[np.float64]]
"""By layer: for every weight element of one output channel, [C, *kernel], or [K] of products and recurrent
layers."""


def layers_with_means(
    model: Model, weights: Sequence[QuantizedWeight]
) -> list[tuple[Node, str, QuantizedWeight]]:
    """Return the layers whose input means can be computed, each with its input tensor and weight.

    Args:
        model: Float.
        weights: How each weight is quantized, with its readers.
    """
    nodes = {node.name or "": node for node in model.graph}
    layers = []
    for weight in weights:
        for name, index in weight.readers:
            node = nodes[name]
            x = node.inputs[0]
            if index == 1 and x is not None and x.name and _is_supported(node):
                layers.append((node, x.name, weight))
    return layers


def mean_readers(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Readers[RunningSums]:
    """Return readers that compute the input means of layers (see `read_layer_inputs`).

    Args:
        model: Float.
        shapes: Of the weights of these layers, by name.
    """
    readers: dict[str, dict[str, _Mean]] = {}
    for node in model.graph:
        if (name := node.name or "") in shapes and (x := node.inputs[0]) is not None:
            readers.setdefault(x.name or "", {})[name] = _Mean(node, shapes[name])
    return readers


def weight_shapes(model: Model, weights: Sequence[QuantizedWeight]) -> dict[str, tuple[int, ...]]:
    """Return the weight shapes, by name, of the layers whose input means can be computed.

    Args:
        model: Float.
        weights: How each weight is quantized, with its readers.
    """
    return {node.name or "": weight.array.shape for node, _, weight in layers_with_means(model, weights)}


def constant_shapes(model: Model, readers: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Return the same shapes for layers whose weights are not quantized yet.

    Args:
        model: Float.
        readers: (node name, input index) of those who will read a weight quantized.
    """
    constants = Constants(model.graph)
    names, shapes = {name for name, index in readers if index == 1}, dict[str, tuple[int, ...]]()
    for node in model.graph:
        if (name := node.name or "") in names and node.inputs[0] is not None and _is_supported(node):
            array = constants(node.inputs[1])
            if array is not None:
                shapes[name] = array.shape
    return shapes


def _is_supported(node: Node) -> bool:
    op = ops.read(node)
    if isinstance(op, ops.ConvTranspose):  # not where its pads are what is left over
        return op.output_shape is None and not op.auto_pad.startswith("SAME")
    if isinstance(op, ops.Gemm):
        return op.alpha == op.beta == 1 and not op.transA
    return isinstance(op, ops.Conv | ops.MatMul) or is_op(node, *ops.RECURRENT)


class _Mean:
    """Computes E[x] over the positions where a layer multiplies each element of its weight.

    Args:
        node: A layer that `_is_supported` knows.
        weight: The shape of its weight.
    """

    def __init__(self, node: Node, weight: tuple[int, ...]) -> None:
        op = ops.read(node)
        self._conv = op if isinstance(op, ops.Conv | ops.ConvTranspose) else None
        self._kernel = weight[2:]
        self._cached_taps: tuple[tuple[int, ...], _Taps] | None = None  # the last sizes': few are unlike them

    def __call__(self, x: NDArray) -> RunningSums:
        """Return sums over samples, [C, *kernel], or [K] of a product or a recurrent layer."""
        if self._conv is None:
            mean = np.asarray(x.reshape(-1, x.shape[-1]).mean(axis=0, dtype=np.float64))
        else:
            windows, outputs = self._windows(x)
            mean = kernels.window_sums(to_float32(x), windows) / (len(x) * outputs)
        return RunningSums.of_mean(mean, len(x))

    def _windows(self, x: NDArray) -> _Taps:
        assert self._conv is not None, "products have none"
        spatial, cached = x.shape[2:], self._cached_taps
        if cached is None or cached[0] != spatial:
            self._cached_taps = cached = spatial, _taps(self._conv, self._kernel, spatial)
        return cached[1]

    def together(self, tensors: Sequence[NDArray]) -> list[RunningSums]:
        """Return the same of each of `tensors`, bit for bit, at once where they are one sample of one size
        each.
        """
        first = tensors[0].shape
        if len(tensors) == 1 or first[0] != 1 or any(x.shape != first for x in tensors):
            return [self(x) for x in tensors]
        x = np.concatenate(tensors)
        if self._conv is None:
            rows = x.reshape(len(x), -1, x.shape[-1])
            return [RunningSums(1, (mean,)) for mean in rows.mean(axis=1, dtype=np.float64)]
        windows, outputs = self._windows(x)
        channels = x.reshape(1, -1, *first[2:])  # of all runs
        sums = kernels.window_sums(to_float32(channels), windows)
        means = sums.reshape(len(x), *first[1:2], *self._kernel) / outputs
        return [RunningSums(1, (mean,)) for mean in means]


_Taps = tuple[Sequence[Sequence[slice]], int]
"""For each spatial axis, what each tap along it reads; and at how many positions."""


def _taps(op: ops.Conv | ops.ConvTranspose, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> _Taps:
    if isinstance(op, ops.ConvTranspose):
        return _taps_of_conv_transpose(op, kernel, spatial)
    strides, dilations = op.strides_of(len(kernel)), op.dilations_of(len(kernel))
    pads = op.pads_of(kernel, spatial)
    assert pads is not None, "the sizes are known"
    windows, outputs = [], 1
    for i, (n, s, k, d) in enumerate(zip(spatial, strides, kernel, dilations, strict=True)):
        before, behind = pads[i], pads[len(kernel) + i]
        count = (n + before + behind - ((k - 1) * d + 1)) // s + 1
        windows.append([_slice_for_inputs(n, t * d - before, s, count) for t in range(k)])
        outputs *= count
    return windows, outputs


def _taps_of_conv_transpose(
    op: ops.ConvTranspose, kernel: tuple[int, ...], spatial: tuple[int, ...]
) -> _Taps:
    """Return the taps of a transposed convolution, each of which writes every `stride`-th output position."""
    strides, dilations = op.strides_of(len(kernel)), op.dilations_of(len(kernel))
    pads = op.pads or (0, 0) * len(kernel)
    extra = op.output_padding or (0,) * len(kernel)
    windows, outputs = [], 1
    for i, (n, s, k, d, e) in enumerate(zip(spatial, strides, kernel, dilations, extra, strict=True)):
        size = (n - 1) * s + (k - 1) * d + 1 + e - pads[i] - pads[len(kernel) + i]
        windows.append([_slice_for_outputs(n, t * d - pads[i], s, size) for t in range(k)])
        outputs *= size
    return windows, outputs


def _slice_for_inputs(size: int, offset: int, stride: int, outputs: int) -> slice:
    """Return the inputs at ``offset + stride * output`` that exist, of `size`."""
    first, last = max(-(offset // stride), 0), min((size - 1 - offset) // stride, outputs - 1)
    return slice(offset + stride * first, offset + stride * last + 1, stride) if first <= last else slice(0)


def _slice_for_outputs(size: int, offset: int, stride: int, outputs: int) -> slice:
    """Return the inputs, of `size`, whose ``offset + stride * input`` is an output that exists."""
    first, last = -(offset // stride), (outputs - 1 - offset) // stride
    return slice(max(first, 0), max(min(last, size - 1) + 1, 0))

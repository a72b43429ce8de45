"""Coarsens weight scales so that biases beside 16-bit codes fit int32.

ONNX Runtime stores the bias of a layer between pairs as int32, in steps of the input's scale times the
weight's (`WeightBiasQuantization`, on by default), and what does not fit becomes another number. With 8 bits
a step is so coarse that everything fits; with 16 and 16 a bias that is larger than the product of the largest
input and the largest weight of its channel does not, with 16 and 8 one that is 500 times as large. Such a
channel adds next to nothing to its bias: its weights can have a coarser scale, and lose 2^-16 of the bias, or
2^-8 of what is 500 times less, at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.graph import Constants, Node
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import QuantizedWeight, grid_of
from intact.ptq.scope.quantization_targets import Target, channel_axis
from intact.ptq.stages.int16_activations import readers_behind, readers_of
from intact.spec import Format

_STEPS = 2.0**30
"""The largest bias, in steps: half of what int32 holds, as corrections of biases are still to come."""


def with_room_for_biases(state: State) -> State | None:
    """Return `state` with coarser weight scales where 16-bit inputs need them; None where nothing has 16
    bits.
    """
    targets = [target for target in state.targets if target.site.role == "weight"]
    if not any(_is_wide(target) for target in state.activations):
        return None
    nodes = {node.name or "": node for node in state.model.graph}
    scales, constants = _scales_read(state, nodes), Constants(state.model.graph)
    weights = []
    for target, weight in zip(targets, state.weights, strict=True):
        least_scales = [
            _least_scale(nodes[name], weight, constants, scales[name])
            for name, index in target.readers
            if index == 1 and name in scales
        ]
        least = np.zeros(weight.ends[1].shape)
        for least_scale in least_scales:
            least = least if least_scale is None else np.maximum(least, least_scale)
        weights.append(_with_scale(weight, least, target.settings.scale_bits))
    return replace(state, weights=tuple(weights))


def _is_wide(target: Target) -> bool:
    format = Format.parse(target.format)
    return format.bits > 8 and not format.is_float


def _scales_read(state: State, nodes: Mapping[str, Node]) -> dict[str, float]:
    """Return the least scale, under any configuration of ranges, of what each node reads with 16 bits.

    A pair may stand in front of operators that only move data.
    """
    assert state.chooser is not None
    scales: dict[str, float] = {}
    for target in filter(_is_wide, state.activations):
        spec = state.chooser.spec(target)
        scale = min(
            float(grid_of(spec, ranges[target.key].ends)[0]) for ranges in state.configurations.values()
        )
        for name in readers_behind(
            nodes, readers_of([target]), {activation.site.value for activation in state.activations}
        ):
            scales[name] = min(scale, scales.get(name, scale))
    return scales


def _least_scale(
    node: Node, weight: QuantizedWeight, constants: Constants, scale: float
) -> NDArray[np.float64] | None:
    """Return the smallest weight scale that leaves room for the bias of `node`; None without a bias."""
    bias = constants(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    axis, spec, sizes = channel_axis(node), weight.spec, weight.array.shape
    if bias is None or axis is None:
        return None
    least = np.abs(bias.astype(np.float64)).reshape(-1) / (scale * _STEPS)
    by_channel = isinstance(spec.axis, int) and spec.axis % len(sizes) == axis % len(sizes)
    if by_channel and spec.block_size is None and least.size % sizes[axis] == 0:  # groups of a ConvTranspose
        return np.asarray(least.reshape(-1, sizes[axis]).max(axis=0))
    return np.full(weight.ends[1].shape, least.max())


def _with_scale(weight: QuantizedWeight, least: NDArray, scale_bits: int | None) -> QuantizedWeight:
    """Return `weight` with no smaller scales than these."""
    amax = np.maximum(weight.ends[1], (least * weight.spec.qmax).astype(np.float32))
    if (amax == weight.ends[1]).all():
        return weight
    if scale_bits is not None:
        amax = numerics.short_amax(amax, weight.spec, scale_bits)
    rounded = weight.rounded
    if rounded is not None:
        unchanged = numerics.expand(amax == weight.ends[1], weight.array.shape, weight.spec)
        rounded = np.where(unchanged, rounded, numerics.to_float32(weight.array))
    return replace(weight, ends=(-amax, amax), rounded=rounded)

"""Facts of a quantized layer that its tensors show without reading its codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.numerics import split_stream

Parts = Mapping[str, NDArray]


@dataclass(frozen=True)
class LayerFacts:
    """Describes the codes of a layer as its tensors show them.

    Attributes:
        name: The layer, "model.layers.0.mlp.up_proj".
        bits: Of each code.
        is_float: Codes are small floats.
        inputs: Weights in a row.
        groups: Scales of a row.
        is_whole: One scale serves the whole layer.
        points: Distinct zero points as they are stored; None: the layer has no such tensor.
        is_ordered: Groups are neighbouring inputs.
        has_order: A tensor says which group each input is in.
    """

    name: str
    bits: int
    is_float: bool
    inputs: int
    groups: int
    is_whole: bool
    points: tuple[int, ...] | None
    is_ordered: bool = True
    has_order: bool = False

    @property
    def middle(self) -> int:
        """The code in the middle of an unsigned grid, 8 of 4 bits."""
        return int(2 ** (self.bits - 1))


def layer_facts(name: str, parts: Parts, codec: str) -> LayerFacts | None:
    """Return what the tensors of a layer show; None where they do not fit each other.

    Args:
        name: The layer.
        parts: Its tensors by suffix.
        codec: One of `LAYER_CODECS`.
    """
    functions = {
        "awq": _awq_facts, "compressed-tensors": _pack_facts, "naive-quantized": _naive_facts,
        "mxfp4": _expert_facts,
    }  # fmt: skip
    try:
        return functions.get(codec, _gptq_facts)(name, parts)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # the codec says what is wrong when it reads them


def _words(part: NDArray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(part).astype("<i4", copy=False).view(np.uint8)


def _values(array: NDArray) -> tuple[int, ...]:
    return tuple(int(value) for value in np.unique(array))


def _is_ordered(order: NDArray, inputs: int, groups: int) -> bool:
    size = -(-inputs // groups)
    return np.array_equal(order.reshape(-1), np.arange(inputs) // size)


def _gptq_facts(name: str, parts: Parts) -> LayerFacts:
    groups, n = parts["scales"].shape
    bits = parts["qzeros"].shape[1] * 32 // n
    inputs = parts["qweight"].shape[0] * 32 // bits
    order = parts.get("g_idx")
    return LayerFacts(
        name, bits, False, inputs, groups, False, _values(split_stream(_words(parts["qzeros"]), bits, n)),
        order is None or _is_ordered(order, inputs, groups), order is not None,
    )  # fmt: skip


def _awq_facts(name: str, parts: Parts) -> LayerFacts:
    groups, n = parts["scales"].shape
    bits = parts["qweight"].shape[1] * 32 // n
    points = _values(split_stream(_words(parts["qzeros"]), bits, n))
    return LayerFacts(name, bits, False, parts["qweight"].shape[0], groups, False, points)


def _pack_facts(name: str, parts: Parts) -> LayerFacts:
    packed, scales = parts["weight_packed"], parts["weight_scale"]
    if packed.dtype == np.uint8:
        return LayerFacts(name, 4, True, packed.shape[1] * 2, scales.shape[1], False, None)
    inputs = int(parts["weight_shape"].reshape(-1)[1])
    bits, groups = packed.shape[1] * 32 // inputs, scales.shape[1]
    points, order = parts.get("weight_zero_point"), parts.get("weight_g_idx")
    middle, stored = 2 ** (bits - 1), None
    if points is not None and points.dtype == np.int8:
        stored = _values(points)
    elif points is not None:
        fields = split_stream(_words(points.T), bits, packed.shape[0])
        stored = tuple(value - middle for value in _values(fields))
    is_set = order is not None and not (order < 0).all()
    return LayerFacts(
        name, bits, False, inputs, groups, scales.size == 1, stored,
        order is None or not is_set or _is_ordered(order, inputs, groups), is_set,
    )  # fmt: skip


def _expert_facts(name: str, parts: Parts) -> LayerFacts:
    groups = parts["scales"].shape[2]
    return LayerFacts(name, 4, True, groups * 32, groups, False, None)


def _naive_facts(name: str, parts: Parts) -> LayerFacts:
    weight, scales, points = parts["weight"], parts["weight_scale"], parts.get("weight_zero_point")
    groups = scales.shape[1] if scales.ndim == 2 else 1
    stored = None if points is None else _values(points)
    is_float = weight.dtype.name.startswith("float8")
    return LayerFacts(name, 8, is_float, weight.shape[1], groups, scales.size == 1, stored)

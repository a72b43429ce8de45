"""Implement `intact.torch.quantize_`: torchao's call and configurations, without importing torchao."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from intact.errors import QuantValueError, UnsupportedError
from intact.ptq.blocks import BlockFormat
from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.block_weights.linear_modules import convert_at, find_linear_modules, replace_modules_at
from intact.torch.exact import run_exactly
from intact.torch.models.modules import require_module

__all__ = ["quantize_"]


@dataclass(frozen=True)
class _Scheme:
    """Describes how a configuration quantizes a layer.

    Attributes:
        weights: Format of the codes.
        block: Elements that share a scale; None: a row.
        activations: As for `BlockWeightLinear`.
    """

    weights: str
    block: int | None
    activations: str


_DYNAMIC, _FLOAT = "dynamic-int8", "float"
_SCHEMES: Mapping[str, _Scheme] = {
    "Int4WeightOnlyConfig": _Scheme("uint4", 128, _FLOAT),
    "Int8WeightOnlyConfig": _Scheme("int8", None, _FLOAT),
    "IntxWeightOnlyConfig": _Scheme("int8", None, _FLOAT),
    "Int8DynamicActivationInt4WeightConfig": _Scheme("int4", 32, _DYNAMIC),
    "Int8DynamicActivationInt8WeightConfig": _Scheme("int8", None, _DYNAMIC),
    "Int8DynamicActivationIntxWeightConfig": _Scheme("int8", 32, _DYNAMIC),
}
"""Schemes of configurations without arguments, by the name of the class."""

_OLD_NAMES = {
    "int4_weight_only": "Int4WeightOnlyConfig",
    "int8_weight_only": "Int8WeightOnlyConfig",
    "int8_dynamic_activation_int4_weight": "Int8DynamicActivationInt4WeightConfig",
    "int8_dynamic_activation_int8_weight": "Int8DynamicActivationInt8WeightConfig",
}


def quantize_(
    model: nn.Module, config: Any, filter_fn: Callable[[nn.Module, str], bool] | None = None,
    device: Any = None,
) -> None:  # fmt: skip
    """Replace the linear layers of a model in place, as `torchao.quantization.quantize_` is called.

    Formats, block sizes and which layers are chosen are those of torchao. Activations are symmetric, and in
    blocks of the weights' size where torchao has one asymmetric range for each token.

    Args:
        model: Changed in place, and set to evaluation mode.
        config: A configuration of torchao, or the name of its class for its defaults:
            Int8DynamicActivationInt4WeightConfig, Int8DynamicActivationInt8WeightConfig,
            Int8DynamicActivationIntxWeightConfig, Int4WeightOnlyConfig, Int8WeightOnlyConfig and
            IntxWeightOnlyConfig.
        filter_fn: Called with a linear layer and its path; whether it is quantized. None: all are.
        device: None, or the CPU.
    Raises:
        UnsupportedError: Another configuration, or an argument of one that has no counterpart here.
        QuantValueError: The model is itself a linear layer, or weights are not finite; names the module.
    """
    require_module(model, "quantize_")
    if device is not None and str(device) != "cpu":
        raise UnsupportedError("device", str(device)[:40], "the CPU", "leave it out")
    scheme = _scheme_of(config)
    layers, _ = find_linear_modules(model)
    layers = {path: layer for path, layer in layers.items() if filter_fn is None or filter_fn(layer, path)}
    if "" in layers:
        raise QuantValueError(
            "quantize_: model", "a linear layer, which cannot be replaced in place", "a module around it",
            "use intact.torch.BlockWeightLinear.from_linear(model)",
        )  # fmt: skip
    replacements = {
        path: convert_at(path, partial(_convert, layer, scheme)) for path, layer in layers.items()
    }
    run_exactly(replace_modules_at(model, replacements).eval())


def _convert(layer: nn.Linear, scheme: _Scheme) -> BlockWeightLinear:
    grid = scheme.weights if scheme.block is None else BlockFormat(scheme.weights, scheme.block)
    return BlockWeightLinear.from_linear(layer, grid, activations=scheme.activations)


def _scheme_of(config: Any) -> _Scheme:
    """Read a configuration by the names of its class and attributes."""
    name = config if isinstance(config, str) else type(config).__name__
    scheme = _SCHEMES.get(_OLD_NAMES.get(name, name))
    if scheme is None:
        raise UnsupportedError(
            "quantize_: config", name[:80], f"one of {', '.join(_SCHEMES)}",
            "choose one of these, or intact.quantize(model, block=32, weights=...)",
        )  # fmt: skip
    if isinstance(config, str):
        return scheme
    if getattr(config, "weight_only_decode", False):
        raise UnsupportedError(
            f"{name}: weight_only_decode", "True", "activations that are quantized in every call",
            "leave it out: a single token is fast with quantized activations, too",
        )  # fmt: skip
    weights, block = scheme.weights, scheme.block
    dtype = getattr(config, "weight_dtype", None)
    if dtype is not None:
        weights = str(dtype).removeprefix("torch.")
    for attribute in ("granularity", "weight_granularity"):
        if (granularity := getattr(config, attribute, None)) is not None:
            block = _block_of(granularity, f"{name}: {attribute}")
    size = getattr(config, "group_size", None)
    block = block if size is None else size
    mapping = getattr(config, "weight_mapping_type", None)
    if mapping is None:
        mapping = getattr(config, "mapping_type", None)
    if getattr(mapping, "name", "") == "ASYMMETRIC":
        weights = f"u{weights.removeprefix('u')}"
    return _Scheme(weights, block, scheme.activations)


def _block_of(granularity: Any, where: str) -> int | None:
    """Return the block of PerGroup, None for PerRow, PerToken and PerAxis(0); of a pair that of weights."""
    if isinstance(granularity, tuple | list) and granularity:
        granularity = granularity[-1]
    kind = type(granularity).__name__
    if kind == "PerGroup" and isinstance(size := getattr(granularity, "group_size", None), int):
        return size
    if kind in ("PerRow", "PerToken") or (kind == "PerAxis" and getattr(granularity, "axis", 0) == 0):
        return None
    raise UnsupportedError(
        where, f"{granularity!r:.60}", "PerRow(), PerAxis(0) or PerGroup(size)", "choose one of these"
    )

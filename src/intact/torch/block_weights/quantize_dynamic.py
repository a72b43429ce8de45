"""Implement `intact.torch.quantize_dynamic`: PyTorch's call, for inference with dynamic ranges."""

from __future__ import annotations

import copy
from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch import nn

from intact.errors import QuantValueError, UnsupportedError
from intact.ptq.blocks import BlockFormat
from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.block_weights.linear_modules import convert_at, find_modules, replace_modules_at

__all__ = ["quantize_dynamic"]


def quantize_dynamic(
    model: nn.Module, qconfig_spec: Collection[Any] | None = None, dtype: torch.dtype = torch.qint8,
    mapping: Any = None, inplace: bool = False, *, weights: str = "int8", block: int | None = None,
) -> nn.Module:  # fmt: skip
    """Replace linear layers by `BlockWeightLinear`, as `torch.ao.quantization.quantize_dynamic` is called.

    Layers of other kinds that PyTorch's function converts (LSTM, GRU, cells, EmbeddingBag) stay in float.
    Weights have a scale for each output, not one for all, and activations one for each token, not one for a
    batch: what a sample gives does not depend on its neighbours.

    Args:
        model: Any module.
        qconfig_spec: Types of modules, or names of modules, that are converted. None: all `nn.Linear`.
        dtype: torch.qint8.
        mapping: None.
        inplace: Change `model` itself.
        weights: "int8" or "int4".
        block: Inputs that share a scale, of weights and of activations: a multiple of 8; 32 loses least.
            None: a scale for each row of weights, and for each token.
    Returns:
        The model in evaluation mode, with the layers replaced.
    Raises:
        UnsupportedError: Another dtype, or a mapping.
        QuantValueError: Weights are empty or not finite, or there is no such format or block; names the
            module.
    """
    if dtype != torch.qint8 or mapping is not None:
        raise UnsupportedError(
            "dtype" if dtype != torch.qint8 else "mapping", str(dtype if mapping is None else mapping)[:80],
            "torch.qint8, and no mapping", "leave it out; choose bits by weights='int4'",
        )  # fmt: skip
    if weights not in ("int8", "int4"):
        raise QuantValueError("weights", repr(weights), "'int8' or 'int4'", "choose one of these")
    if block is not None and block % 8:
        raise QuantValueError("block", repr(block), "a multiple of 8", "choose 32, or None for none")
    result = model if inplace else copy.deepcopy(model)
    layers = {
        path: convert_at(path, partial(_convert, module, weights, block))
        for path, module in find_modules(result, [nn.Linear])
        if qconfig_spec is None or type(module) in qconfig_spec or path in qconfig_spec
    }
    return replace_modules_at(result, layers).eval()


def _convert(module: nn.Module, weights: str, block: int | None) -> BlockWeightLinear:
    assert isinstance(module, nn.Linear)
    return BlockWeightLinear.from_linear(module, weights if block is None else BlockFormat(weights, block))

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
from intact.torch.block_weights.embedding import EMBEDDINGS, BlockWeightEmbedding
from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.block_weights.linear_modules import convert_at, find_modules, replace_modules_at
from intact.torch.block_weights.recurrent import RECURRENT, BlockWeightCell, BlockWeightRecurrent
from intact.torch.exact import run_exactly

__all__ = ["quantize_dynamic"]

_KINDS: dict[torch.dtype, tuple[type, ...]] = {
    torch.qint8: (nn.Linear, *RECURRENT), torch.quint8: EMBEDDINGS, torch.quint4x2: EMBEDDINGS,
}  # fmt: skip
"""The types that PyTorch's function converts for each dtype."""


def quantize_dynamic(
    model: nn.Module, qconfig_spec: Collection[Any] | None = None, dtype: torch.dtype = torch.qint8,
    mapping: Any = None, inplace: bool = False, *, weights: str = "int8", block: int | None = None,
) -> nn.Module:  # fmt: skip
    """Replace layers by ones with integer products, as `torch.ao.quantization.quantize_dynamic` is called.

    Weights have a scale for each output, not one for all, and activations one for each token, not one for a
    batch: what a sample gives does not depend on its neighbours.

    Args:
        model: Any module.
        qconfig_spec: Types of modules, or names of modules, that are converted; a dict's keys. None: all
            that `dtype` is for.
        dtype: torch.qint8: linear and recurrent layers (LSTM, GRU, LSTMCell, GRUCell, RNNCell).
            torch.quint8, torch.quint4x2: Embedding and EmbeddingBag, with rows of 8 or 4 bits.
        mapping: None.
        inplace: Change `model` itself.
        weights: "int8" or "int4", of linear and recurrent layers.
        block: Inputs that share a scale, of weights and of activations: a multiple of 8; 32 loses least.
            None: a scale for each row of weights, and for each token.
    Returns:
        The model in evaluation mode, with the layers replaced.
    Raises:
        UnsupportedError: Another dtype, a mapping, an LSTM with projections or an Embedding with max_norm.
        QuantValueError: Weights are empty or not finite, or there is no such format or block; names the
            module.
    """
    if dtype not in _KINDS or mapping is not None:
        raise UnsupportedError(
            "mapping" if dtype in _KINDS else "dtype", str(mapping if dtype in _KINDS else dtype)[:80],
            f"one of {', '.join(map(str, _KINDS))}, and no mapping",
            "leave it out; choose bits by weights='int4'",
        )  # fmt: skip
    if weights not in ("int8", "int4"):
        raise QuantValueError("weights", repr(weights), "'int8' or 'int4'", "choose one of these")
    if block is not None and block % 8:
        raise QuantValueError("block", repr(block), "a multiple of 8", "choose 32, or None for none")
    result = model if inplace else copy.deepcopy(model)
    linear = partial(
        BlockWeightLinear.from_linear, grid=weights if block is None else BlockFormat(weights, block)
    )
    layers = {
        path: convert_at(path, partial(_convert, module, linear, 4 if dtype == torch.quint4x2 else 8))
        for path, module in find_modules(result, _KINDS[dtype])
        if qconfig_spec is None or type(module) in qconfig_spec or path in qconfig_spec
    }
    return run_exactly(replace_modules_at(result, layers).eval())


def _convert(module: nn.Module, linear: Any, bits: int) -> nn.Module:
    if isinstance(module, nn.Linear):
        return linear(module)  # type: ignore[no-any-return]
    if isinstance(module, nn.LSTM | nn.GRU):
        return BlockWeightRecurrent(module, linear)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return BlockWeightEmbedding(module, bits)
    assert isinstance(module, nn.LSTMCell | nn.GRUCell | nn.RNNCell)
    return BlockWeightCell(module, linear)

"""Quantize linear layers of a module for inference, with activation ranges found while they run."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import QuantValueError, UnsupportedError
from intact.numerics import join_stream
from intact.torch.operators.dynamic_linear import dynamic_linear

__all__ = ["DynamicLinear", "quantize_dynamic"]

_BITS = {"int8": 8, "int4": 4}


class DynamicLinear(nn.Module):
    """Computes a linear layer in integers: int8 activations with ranges of their own, weights in blocks.

    It is for inference: no gradient passes.

    Attributes:
        codes: uint8 [out_features, bytes], one row of codes behind the other.
        scales: float32 [out_features, blocks].
        bias: float32 [out_features], or None.
    """

    codes: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, weights: str = "int8", block: int | None = None) -> None:
        """Quantize the weights of a layer.

        Args:
            linear: Its weights are finite.
            weights: "int8" or "int4".
            block: Inputs that share a scale, of weights and of activations: a multiple of 8. None: a scale
                for each row of weights, and for each token.
        Raises:
            QuantValueError: The weights are empty or not finite, or there is no such format or block.
        """
        super().__init__()
        if weights not in _BITS:
            raise QuantValueError("weights", repr(weights), "'int8' or 'int4'", "choose one of these")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        size = block or self.in_features
        if size % 8 and block:
            raise QuantValueError("block", repr(block), "a multiple of 8", "choose 32, or None for none")
        self.bits, self.block = _BITS[weights], size
        matrix = linear.weight.detach().to("cpu", torch.float32).numpy()
        if not matrix.size or not np.isfinite(matrix).all():
            raise QuantValueError(
                "weight",
                f"shape {matrix.shape}, or a NaN or an infinity",
                "finite numbers",
                "look at the layer",
            )
        codes, scales = _round(matrix, self.bits, size)
        self.register_buffer("codes", torch.from_numpy(join_stream(codes, self.bits, 1)))
        self.register_buffer("scales", torch.from_numpy(scales))
        bias = None if linear.bias is None else linear.bias.detach().to("cpu", torch.float32).clone()
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Compute it.

        Args:
            x: Floats [..., in_features].
        Returns:
            [..., out_features], of x's dtype.
        """
        return dynamic_linear(
            x, self.codes, self.scales, self.bias, self.in_features, self.bits, self.block, self.block
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return f"{self.in_features}, {self.out_features}, bits={self.bits}, block={self.block}"


def _round(matrix: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Round to nearest by the largest magnitude of each block; codes are without a sign."""
    outputs, inputs = matrix.shape
    blocks, high = -(-inputs // block), 2 ** (bits - 1) - 1
    padded = np.zeros((outputs, blocks * block), np.float32)
    padded[:, :inputs] = matrix
    tiles = padded.reshape(outputs, blocks, block)
    scales = (np.abs(tiles).max(-1) / np.float32(high)).astype(np.float32)
    scales[scales < np.finfo(np.float32).tiny] = 1
    steps = np.clip(np.rint(tiles / scales[..., None]), -high, high).reshape(outputs, -1)[:, :inputs]
    return (steps + 2 ** (bits - 1)).astype(np.uint8), scales


def quantize_dynamic(
    model: nn.Module, qconfig_spec: Collection[Any] | None = None, dtype: torch.dtype = torch.qint8,
    mapping: Any = None, inplace: bool = False, *, weights: str = "int8", block: int | None = None,
) -> nn.Module:  # fmt: skip
    """Replace linear layers by `DynamicLinear`, as `torch.ao.quantization.quantize_dynamic` is called.

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
        block: As for `DynamicLinear`; 32 loses least.
    Returns:
        The model in evaluation mode, with the layers replaced.
    Raises:
        UnsupportedError: Another dtype, or a mapping.
        QuantValueError: As for `DynamicLinear`; names the module.
    """
    if dtype != torch.qint8 or mapping is not None:
        raise UnsupportedError(
            "dtype" if dtype != torch.qint8 else "mapping", str(dtype if mapping is None else mapping)[:80],
            "torch.qint8, and no mapping", "leave it out; choose bits by weights='int4'",
        )  # fmt: skip
    result = model if inplace else copy.deepcopy(model)
    if isinstance(result, nn.Linear) and _is_chosen("", result, qconfig_spec):
        return _convert("", result, weights, block)
    for name, module in list(result.named_modules()):
        for child_name, child in list(module.named_children()):
            path = f"{name}.{child_name}" if name else child_name
            if type(child) is nn.Linear and _is_chosen(path, child, qconfig_spec):
                setattr(module, child_name, _convert(path, child, weights, block))
    return result.eval()


def _is_chosen(path: str, module: nn.Module, spec: Collection[Any] | None) -> bool:
    return spec is None or type(module) in spec or path in spec


def _convert(path: str, module: nn.Linear, weights: str, block: int | None) -> DynamicLinear:
    try:
        return DynamicLinear(module, weights, block)
    except QuantValueError as error:
        where = f"module '{path}': {error.where}" if path else error.where
        raise QuantValueError(where, error.got, error.want, error.fix) from error

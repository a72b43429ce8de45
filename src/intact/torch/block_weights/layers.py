"""Linear layers whose weights are codes in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.errors import QuantValueError, UnsupportedError
from intact.numerics import BlockWeights, join_stream
from intact.ptq.blocks import BlockFormat, round_to_nearest
from intact.torch.operators.block_linear import block_linear, block_values, block_weights
from intact.torch.operators.fake_quantize import is_tracing
from intact.torch.private_torch import DisableTorchFunctionSubclass
from intact.torch.tracing.function_names import function_of

__all__ = ["BlockWeightLinear", "finite_rows"]

_UNIT = 8
"""Elements that kernels multiply together: blocks of integer products are multiples, or whole rows."""


class _FixedWeight(Tensor):
    """The floats of a layer whose weights are codes: they can be read, and not written to."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        writes = args and isinstance(args[0], _FixedWeight) and function_of(func).writes
        is_set = getattr(func, "__name__", "") == "__set__" and func.__self__ is not Tensor.requires_grad
        if (writes or is_set) and function_of(func).name != "requires_grad":
            raise UnsupportedError(
                "weight of a BlockWeightLinear", "a write into it", "a read: the codes are fixed",
                "leave adapters unmerged, or merge them into the float model and quantize that",
            )  # fmt: skip
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        is_data = getattr(getattr(func, "__self__", None), "__name__", "") == "data"
        return result.as_subclass(_FixedWeight) if is_data else result


class BlockWeightLinear(nn.Linear):
    """Computes a linear layer by the engine's kernels: weights in blocks, activations in int8 or floats.

    It is an `nn.Linear` for code that puts adapters around layers. Gradients pass to its input, not to the
    codes; scales and bias learn where somebody sets `requires_grad`. ``state_dict`` holds the codes.

    Attributes:
        codes: uint8 [out_features, bytes], one row of codes behind the other.
        scales: float32 [out_features, blocks].
        zero_points: uint8 [out_features, blocks]; None: half of the codes' range.
        bias: float32 [out_features], or None.
        channel_factors: float32 [in_features] by which inputs are multiplied first, or None.
        activations: "dynamic-int8": int8 in blocks of the weights' size (N69). "float": floats (N51).
    """

    codes: Tensor
    scales: nn.Parameter
    zero_points: Tensor | None
    bias: nn.Parameter | None  # type: ignore[assignment]
    channel_factors: Tensor | None

    def __init__(
        self, weights: BlockWeights, bias: Tensor | None = None, *, activations: str = "dynamic-int8",
        channel_factors: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Hold weights that are quantized already.

        Args:
            weights: Shape [out_features, in_features], integer codes with one level of scales.
            bias: [out_features].
            activations: "dynamic-int8" or "float".
            channel_factors: [in_features]; None: nothing is multiplied.
        Raises:
            QuantValueError: Kernels do not multiply int8 codes in such blocks.
        """
        nn.Module.__init__(self)
        self.out_features, self.in_features = weights.shape
        self.bits, self.block, self.activations = weights.bits, weights.block_size, activations
        if activations != "float" and self.block < self.in_features and self.block % _UNIT:
            raise QuantValueError(
                "block", repr(self.block), f"a multiple of {_UNIT}, or whole rows", "choose 32"
            )
        middle = 2 ** (self.bits - 1) if weights.codes.dtype == np.int8 else 0
        codes = (weights.codes.astype(np.int16) + middle).astype(np.uint8)
        self.register_buffer("codes", torch.from_numpy(join_stream(codes, self.bits, 1)))
        # Parameters, because libraries read the device and type of a model's first one.
        scales = torch.from_numpy(weights.scales.astype(np.float32))
        self.scales = nn.Parameter(scales, requires_grad=False)
        points = weights.zero_points
        self.register_buffer(
            "zero_points",
            None if points is None else torch.from_numpy((points.astype(np.int16) + middle).astype(np.uint8)),
        )
        floats = (
            None if values is None else values.detach().to("cpu", torch.float32).clone()
            for values in (bias, channel_factors)
        )  # fmt: skip
        own_bias, factors = floats
        self.bias = None if own_bias is None else nn.Parameter(own_bias, requires_grad=False)
        self.register_buffer("channel_factors", factors)

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, grid: BlockFormat | str = "int4", *, activations: str = "dynamic-int8"
    ) -> BlockWeightLinear:
        """Round the weights of a layer to the nearest codes.

        Args:
            linear: Its weights are finite.
            grid: Format and block size; a name alone: one block for each row.
            activations: As for the constructor.
        Raises:
            QuantValueError: The weights are empty or not finite.
        """
        rows = finite_rows(linear)
        grid = BlockFormat(grid, rows.shape[1]) if isinstance(grid, str) else grid
        return cls(round_to_nearest(rows, grid), linear.bias, activations=activations)

    def forward(self, x: Tensor) -> Tensor:
        """Compute it.

        Args:
            x: Floats [..., in_features].
        Returns:
            [..., out_features], of x's dtype.
        """
        if self.channel_factors is not None:
            x = x * self.channel_factors.to(x.dtype)
        x_block = 0 if self.activations == "float" else self.block
        return block_linear(
            x, self.codes, self.scales, self.zero_points, self.bias, self.in_features, self.bits,
            self.block, x_block,
        )  # fmt: skip

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The floats that multiply inputs, with channel factors; computed at each read."""
        values = self.dequantize()
        values = values if self.channel_factors is None else values * self.channel_factors
        return values if is_tracing() else values.as_subclass(_FixedWeight)

    def reset_parameters(self) -> None:
        """Refuse what would write new weights.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "BlockWeightLinear.reset_parameters",
            "a layer of fixed codes",
            "a float layer",
            "build an nn.Linear",
        )

    @property
    def weights(self) -> BlockWeights:
        """The record of its weights, without channel factors."""
        return block_weights(
            self.codes, self.scales, self.zero_points, self.in_features, self.bits, self.block
        )

    def dequantize(self) -> Tensor:
        """Return the floats that the codes stand for, float32 [out_features, in_features]."""
        return block_values(
            self.codes, self.scales, self.zero_points, self.in_features, self.bits, self.block
        )

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return (
            f"{self.in_features}, {self.out_features}, bits={self.bits}, block={self.block}, "
            f"activations={self.activations}"
        )


def finite_rows(linear: Any) -> np.ndarray:
    """Return the weights of a layer, float32 [out_features, in_features]; refuse what has no codes.

    Raises:
        QuantValueError: They are empty, or not finite.
    """
    matrix = linear.weight.detach().to("cpu", torch.float32).numpy()
    if not matrix.size or not np.isfinite(matrix).all():
        raise QuantValueError(
            "weight", f"shape {matrix.shape}, or a NaN or an infinity", "finite numbers", "look at the layer"
        )
    return np.ascontiguousarray(matrix)

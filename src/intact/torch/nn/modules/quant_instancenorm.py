"""Instance normalization of a quantized input; in no default replacement, as TensorRT runs it in float."""

from __future__ import annotations

from torch import nn

from intact.torch.nn.modules._utils import QuantizedInput

__all__ = ["QuantInstanceNorm1d", "QuantInstanceNorm2d", "QuantInstanceNorm3d"]


class QuantInstanceNorm1d(QuantizedInput, nn.InstanceNorm1d):
    """`torch.nn.InstanceNorm1d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantInstanceNorm2d(QuantizedInput, nn.InstanceNorm2d):
    """`torch.nn.InstanceNorm2d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantInstanceNorm3d(QuantizedInput, nn.InstanceNorm3d):
    """`torch.nn.InstanceNorm3d` of a quantized input: its arguments and `quant_desc_input`."""

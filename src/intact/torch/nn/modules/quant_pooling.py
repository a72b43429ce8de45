"""Pooling layers that quantize their input: as one reads it in int8, so does the next layer."""

from __future__ import annotations

from torch import nn

from intact.torch.nn.modules._utils import QuantizedInput

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "QuantAdaptiveAvgPool1d",
    "QuantAdaptiveAvgPool2d",
    "QuantAdaptiveAvgPool3d",
    "QuantAvgPool1d",
    "QuantAvgPool2d",
    "QuantAvgPool3d",
    "QuantMaxPool1d",
    "QuantMaxPool2d",
    "QuantMaxPool3d",
]


class QuantAdaptiveAvgPool1d(QuantizedInput, nn.AdaptiveAvgPool1d):
    """`torch.nn.AdaptiveAvgPool1d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantAdaptiveAvgPool2d(QuantizedInput, nn.AdaptiveAvgPool2d):
    """`torch.nn.AdaptiveAvgPool2d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantAdaptiveAvgPool3d(QuantizedInput, nn.AdaptiveAvgPool3d):
    """`torch.nn.AdaptiveAvgPool3d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantAvgPool1d(QuantizedInput, nn.AvgPool1d):
    """`torch.nn.AvgPool1d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantAvgPool2d(QuantizedInput, nn.AvgPool2d):
    """`torch.nn.AvgPool2d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantAvgPool3d(QuantizedInput, nn.AvgPool3d):
    """`torch.nn.AvgPool3d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantMaxPool1d(QuantizedInput, nn.MaxPool1d):
    """`torch.nn.MaxPool1d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantMaxPool2d(QuantizedInput, nn.MaxPool2d):
    """`torch.nn.MaxPool2d` of a quantized input: its arguments and `quant_desc_input`."""


class QuantMaxPool3d(QuantizedInput, nn.MaxPool3d):
    """`torch.nn.MaxPool3d` of a quantized input: its arguments and `quant_desc_input`."""


AdaptiveAvgPool1d = QuantAdaptiveAvgPool1d
AdaptiveAvgPool2d = QuantAdaptiveAvgPool2d
AdaptiveAvgPool3d = QuantAdaptiveAvgPool3d
AvgPool1d = QuantAvgPool1d
AvgPool2d = QuantAvgPool2d
AvgPool3d = QuantAvgPool3d
MaxPool1d = QuantMaxPool1d
MaxPool2d = QuantMaxPool2d
MaxPool3d = QuantMaxPool3d

"""Convolutions and transposed convolutions with a quantized input and weight.

The weight of a convolution, [out, in / groups, ...], has one range per output channel (axis 0), with any
number of groups. That of a transposed convolution, [in, out / groups, ...], has one per index of axis 1:
with groups > 1 the output channels j, j + out / groups, ... share the range of index j, as no single axis
of that layout tells the groups' outputs apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from intact.torch import tensor_quant
from intact.torch.nn.modules._utils import QuantizedLayer, engine_functions

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "QuantConv1d",
    "QuantConv2d",
    "QuantConv3d",
    "QuantConvTranspose1d",
    "QuantConvTranspose2d",
    "QuantConvTranspose3d",
]


class _QuantConvNd(QuantizedLayer):
    """The part that the three convolutions share; padding, of any mode, pads the quantized input."""

    def forward(self, input: Tensor) -> Tensor:
        with engine_functions(self):  # type: ignore[arg-type]
            quant_input, quant_weight = self._input_quantizer(input), self._weight_quantizer(self.weight)  # type: ignore[attr-defined]
            return self._conv_forward(quant_input, quant_weight, self.bias)  # type: ignore[attr-defined, no-any-return]


class QuantConv1d(_QuantConvNd, nn.Conv1d):
    """`torch.nn.Conv1d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONV1D_WEIGHT_PER_CHANNEL


class QuantConv2d(_QuantConvNd, nn.Conv2d):
    """`torch.nn.Conv2d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONV2D_WEIGHT_PER_CHANNEL


class QuantConv3d(_QuantConvNd, nn.Conv3d):
    """`torch.nn.Conv3d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONV3D_WEIGHT_PER_CHANNEL


class _QuantConvTransposeNd(QuantizedLayer):
    """The part that the three transposed convolutions share."""

    _function: Callable[..., Tensor]

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        m: nn.ConvTranspose2d = self  # type: ignore[assignment]
        output_padding = m._output_padding(
            input,
            output_size,  # type: ignore[arg-type]
            m.stride,  # type: ignore[arg-type]
            m.padding,  # type: ignore[arg-type]
            m.kernel_size,  # type: ignore[arg-type]
            len(m.kernel_size),
            m.dilation,  # type: ignore[arg-type]
        )
        with engine_functions(m):
            quant_input, quant_weight = self._input_quantizer(input), self._weight_quantizer(m.weight)
            return self._function(
                quant_input, quant_weight, m.bias, m.stride, m.padding, output_padding, m.groups, m.dilation
            )


class QuantConvTranspose1d(_QuantConvTransposeNd, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONVTRANSPOSE1D_WEIGHT_PER_CHANNEL
    _function = staticmethod(F.conv_transpose1d)


class QuantConvTranspose2d(_QuantConvTransposeNd, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONVTRANSPOSE2D_WEIGHT_PER_CHANNEL
    _function = staticmethod(F.conv_transpose2d)


class QuantConvTranspose3d(_QuantConvTransposeNd, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d`, quantized: its arguments, `quant_desc_input` and `quant_desc_weight`."""

    default_quant_desc_weight = tensor_quant.QUANT_DESC_8BIT_CONVTRANSPOSE3D_WEIGHT_PER_CHANNEL
    _function = staticmethod(F.conv_transpose3d)


Conv1d = QuantConv1d
Conv2d = QuantConv2d
Conv3d = QuantConv3d
ConvTranspose1d = QuantConvTranspose1d
ConvTranspose2d = QuantConvTranspose2d
ConvTranspose3d = QuantConvTranspose3d

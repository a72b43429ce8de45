"""`QuantLinear`: `torch.nn.Linear` with a quantized input and weight."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from intact.torch.nn.modules._utils import QuantizedLayer, engine_functions
from intact.torch.tensor_quant import QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW

__all__ = ["Linear", "QuantLinear"]


class QuantLinear(QuantizedLayer, nn.Linear):
    """`torch.nn.Linear`, quantized: input per-tensor, weight [out, in] per row (axis 0) by default.

    Args:
        in_features, out_features, bias, device, dtype: As for `torch.nn.Linear`.
        quant_desc_input, quant_desc_weight: Descriptors; the class's defaults where left out.
    """

    default_quant_desc_weight = QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW

    def forward(self, input: Tensor) -> Tensor:
        with engine_functions(self):
            return F.linear(self._input_quantizer(input), self._weight_quantizer(self.weight), self.bias)


Linear = QuantLinear

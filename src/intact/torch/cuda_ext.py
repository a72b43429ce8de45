"""`pytorch_quantization.cuda_ext`: the functions of the old library's compiled extension, on any device.

Those of `intact.torch.tensor_quant` under the extension's names and arguments; none has a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from intact.torch import tensor_quant

__all__ = ["fake_e4m3fy", "fake_tensor_quant", "fake_tensor_quant_", "fake_tensor_quant_with_axis"]


def fake_tensor_quant(
    inputs: Tensor, amax: Tensor, num_bits: int = 8, is_unsigned: bool = False, narrow_range: bool = True
) -> Tensor:
    """Quantize and dequantize `inputs` with one range; see `intact.torch.tensor_quant.fake_tensor_quant`."""
    with torch.no_grad():
        return tensor_quant.fake_tensor_quant(inputs, amax, num_bits, is_unsigned, narrow_range)


def fake_tensor_quant_(
    inputs: Tensor, amax: Tensor, num_bits: int = 8, is_unsigned: bool = False, narrow_range: bool = True
) -> Tensor:
    """Run `fake_tensor_quant` in place."""
    with torch.no_grad():
        return inputs.copy_(fake_tensor_quant(inputs, amax, num_bits, is_unsigned, narrow_range))


def fake_tensor_quant_with_axis(
    inputs: Tensor,
    amax: Tensor,
    axis: int,
    num_bits: int = 8,
    is_unsigned: bool = False,
    narrow_range: bool = True,
) -> Tensor:
    """Run `fake_tensor_quant` with a range for each index of `axis`: `amax` has as many elements."""
    shape = [1] * inputs.dim()
    shape[axis] = -1
    return fake_tensor_quant(inputs, amax.reshape(shape), num_bits, is_unsigned, narrow_range)


def fake_e4m3fy(inputs: Tensor) -> Tensor:
    """Round each value to the nearest FP8 E4M3 number."""
    with torch.no_grad():
        return tensor_quant.scaled_e4m3(inputs)

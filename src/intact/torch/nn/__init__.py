"""Quantized modules under the old library's names: `quant_nn.QuantConv2d`, `quant_nn.TensorQuantizer`, ...

The names without "Quant" are the same classes.
"""

from intact.torch.nn.modules import (
    fused_rnn,
    quant_conv,
    quant_instancenorm,
    quant_linear,
    quant_pooling,
    quant_rnn,
)
from intact.torch.nn.modules.clip import Clip
from intact.torch.nn.modules.fused_rnn import *  # noqa: F403
from intact.torch.nn.modules.quant_conv import *  # noqa: F403
from intact.torch.nn.modules.quant_instancenorm import *  # noqa: F403
from intact.torch.nn.modules.quant_linear import *  # noqa: F403
from intact.torch.nn.modules.quant_pooling import *  # noqa: F403
from intact.torch.nn.modules.quant_rnn import *  # noqa: F403
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

__all__ = ["Clip", "TensorQuantizer"]
__all__ += fused_rnn.__all__
__all__ += quant_conv.__all__
__all__ += quant_instancenorm.__all__
__all__ += quant_linear.__all__
__all__ += quant_pooling.__all__
__all__ += quant_rnn.__all__

"""`pytorch_quantization.utils`."""

from intact.torch.utils import quant_logging
from intact.torch.utils.reduce_amax import reduce_amax

__all__ = ["quant_logging", "reduce_amax"]

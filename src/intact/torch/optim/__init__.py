"""`pytorch_quantization.optim`."""

from intact.torch.optim import helper

__all__ = ["helper"]

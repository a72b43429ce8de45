"""The PyTorch face of INTact, in the vocabulary of `pytorch_quantization` 2.2.1.

Code written for that library runs unchanged after ``intact.torch.alias()``, or under
``python -m intact.torch script.py``. New code calls `replace_modules`, `calibrate`, `finetune` and `export`.
"""

from __future__ import annotations

from intact.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtraError.of("torch", "torch", "intact.torch") from None

from intact import __version__ as _intact_version
from intact.torch import calib, nn, ops, tensor_quant, utils
from intact.torch.alias import alias
from intact.torch.ops import fake_quantize

# The surface that scripts may ask for, then who really answers.
__version__ = f"2.2.1+intact.{_intact_version}"

__all__ = [
    "__version__",
    "alias",
    "calib",
    "fake_quantize",
    "nn",
    "ops",
    "tensor_quant",
    "utils",
]

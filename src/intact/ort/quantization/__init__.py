"""The functions of `onnxruntime.quantization`, with INTact's results for scripts that exist.

``intact.ort.policy(quantization="intact")`` or ``INTACT_ORT_QUANTIZATION=intact`` asks for it.
"""

from intact.ort.quantization.replace_functions import patch_functions, patch_matmul_nbits

__all__ = ["patch_functions", "patch_matmul_nbits"]

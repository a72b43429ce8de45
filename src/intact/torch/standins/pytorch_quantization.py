"""Stand-in for ``import pytorch_quantization`` in the worker processes of a script: `intact.torch`.

``python -m intact.torch script.py`` puts this folder first on the path that new processes inherit.
"""

import os

import intact.torch
from intact.torch import cuda_on_cpu

intact.torch.alias(force=True)
if os.environ.get(cuda_on_cpu.VARIABLE):
    cuda_on_cpu.install(force=True)

"""Stand-in for ``import pytorch_quantization`` in the worker processes of a script: `intact.torch`.

``python -m intact.torch script.py`` puts this folder at the end of the path that new processes inherit.
"""

import intact.torch

intact.torch.alias(force=True)

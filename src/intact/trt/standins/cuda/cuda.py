"""Stand-in for ``import cuda`` in the worker processes of a script: `intact.trt`'s.

``python -m intact.trt script.py`` puts this folder first on the path that new processes inherit.
"""

from intact.trt.alias import alias

alias(force=True)

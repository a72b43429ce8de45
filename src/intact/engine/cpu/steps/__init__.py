"""How each kind of step becomes native: importing this folder registers all.

A kind whose home is ``intact.engine.steps.moves.slice`` becomes native in ``moves/slice.py`` of this folder.
What several kinds share stands in `base`.
"""

from importlib import import_module

from intact.engine.cpu.steps.products import attention as attention
from intact.engine.cpu.steps.reductions import norm_and_codes as norm_and_codes
from intact.engine.steps import KINDS

for _kind in KINDS.values():
    if _kind.native:
        _room, _stem = _kind.__module__.split(".")[-2:]
        import_module(f"{__name__}.{_room}.{_stem}")

"""The same codes on another grid."""

from __future__ import annotations

import numpy as np

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import Reinterpret
from intact.kernels import NativeStep, moves, pointwise


@binds(Reinterpret)
def bind_reinterpret(step: Reinterpret, binding: Binding) -> list[NativeStep]:
    """Bind a copy of the codes, as the same bytes or with a constant added to all."""
    x, y = binding.view(step.x), binding.view(step.y)
    if further := binding.codes(step.y).offset - binding.codes(step.x).offset:
        shifted = np.clip(np.arange(256) + further, 0, 255).astype(np.uint8)
        return [pointwise.lookup(x, binding.hold(shifted), y, binding.kernels)]
    return [] if binding.same_memory(x, y) else [moves.copy(x, y, binding.kernels)]

"""LSTM, GRU and simple networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.operands import operand_of, transpose_operand
from intact.engine.steps import Recurrent
from intact.kernels import NativeStep, Real, float_gemm, recurrent


@binds(Recurrent)
def bind_recurrent(step: Recurrent, binding: Binding) -> list[NativeStep]:
    """Views with the batch last but one, whatever comes first in the graph."""
    weight = binding.weight(step.weight)
    kernel = binding.kernels[float_gemm.FAMILY]

    def pack() -> NDArray[np.float32]:
        return recurrent.pack_states(np.asarray(weight, np.float32), step.cell, kernel)

    def real(name: str, order: Sequence[int]) -> Real | None:
        if not name:
            return None
        operand = operand_of(binding, name)
        return transpose_operand(operand, order) if step.batch_first else operand

    x = real(step.x, (1, 0, 2))
    assert x is not None
    state = (1, 0, 2)
    bias = binding.hold(binding.array(step.bias).reshape(-1)) if step.bias else None
    return [
        recurrent.recurrent(
            step.cell,
            x.view,
            binding.hold(binding.pack_constant(step.weight, f"{kernel}.{step.cell}", pack)),
            hidden=weight.shape[2],
            reverse=step.reverse,
            bias=bias,
            h=real(step.h, state),
            c=real(step.c, state),
            lengths=binding.view(step.lengths) if step.lengths else None,
            y=real(step.y, (1, 2, 0, 3)),
            last_h=real(step.last_h, state),
            last_c=real(step.last_c, state),
            threads=binding.threads,
            kernels=binding.kernels,
        )
    ]

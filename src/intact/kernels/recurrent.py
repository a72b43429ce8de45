"""Makers of the native steps of networks with a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native, float_gemm
from intact.kernels.float_steps import REALS, Real
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen


def pack_states(weight: NDArray[np.float32], cell: str, kernel: str) -> NDArray[np.float32]:
    """Weights of states as `recurrent` reads them: each direction's panels behind the other's.

    Args:
        weight: float32 [directions, gates * hidden, hidden].
        cell: One of `numerics.GATES`: "gru" multiplies its last gate apart.
        kernel: Of family "float_gemm".
    """
    if cell != "gru":
        return float_gemm.pack(weight.swapaxes(1, 2), kernel)
    first = weight.shape[1] * 2 // 3
    return np.concatenate(
        [float_gemm.pack(p.T, kernel) for one in weight for p in (one[:first], one[first:])]
    )


def recurrent(
    cell: str,
    x: View,
    packed: View,
    *,
    hidden: int,
    reverse: Sequence[bool],
    bias: View | None = None,
    h: Real | None = None,
    c: Real | None = None,
    lengths: View | None = None,
    y: Real | None = None,
    last_h: Real | None = None,
    last_c: Real | None = None,
    threads: int = 1,
    kernels: Kernels | None = None,
) -> NativeStep:
    """All steps in all directions (N52).

    Args:
        cell: One of `numerics.GATES`.
        x: float32 [steps, batch, directions * gates * hidden].
        packed: What `pack_states` returned for the chosen kernel of "float_gemm".
        hidden: Elements of a state.
        reverse: Of each direction, whether it begins at the last step.
        bias: float32 [directions * hidden], where the candidate of "gru_reset_after" begins.
        h, c: The first states [directions, batch, hidden]; None: 0.
        lengths: int32 [batch]; None: all steps.
        y: All states [steps, directions, batch, hidden].
        last_h, last_c: The last states, as the first ones.
        threads: That will share the work.
    Raises:
        ValueError: Views do not fit each other.
    """
    chosen = kernels_or_chosen(kernels)
    return _native.step_recurrent(
        chosen[REALS],
        chosen[float_gemm.FAMILY],
        cell,
        x,
        packed,
        hidden,
        reverse,
        bias,
        None if h is None else h.read(),
        None if c is None else c.read(),
        lengths,
        None if y is None else y.written(),
        None if last_h is None else last_h.written(),
        None if last_c is None else last_c.written(),
        threads,
    )

"""The maker of native steps of recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native, float_gemm
from intact.kernels.float_steps import REALS, Real
from intact.kernels.program import NativeStep, View
from intact.kernels.registry import Kernels, kernels_or_chosen


def pack_states(weight: NDArray[np.float32], cell: str, kernel: str) -> NDArray[np.float32]:
    """Pack the weights of states for `recurrent`, one direction after the other.

    Args:
        weight: float32 [directions, gates * hidden, hidden].
        cell: One of `numerics.GATES`. The last gate of "gru" is packed apart, because it multiplies another
            state.
        kernel: A kernel of the family "float_gemm".
    Returns:
        float32, as described in csrc/kernels/float_gemm/float_gemm.h.
    """
    if cell != "gru":
        return float_gemm.pack(weight.swapaxes(1, 2), kernel)
    first = weight.shape[1] * 2 // 3
    return np.concatenate(
        [float_gemm.pack(p.T, kernel) for matrix in weight for p in (matrix[:first], matrix[first:])]
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
    """Make all time steps of a recurrent network, in all directions (N52).

    Args:
        cell: One of `numerics.GATES`.
        x: float32 [steps, batch, directions * gates * hidden].
        packed: The result of `pack_states` for the chosen kernel of "float_gemm".
        hidden: Elements of a state.
        reverse: For each direction, whether it begins at the last step.
        bias: float32 [directions * hidden], where the candidate of "gru_reset_after" begins.
        h, c: The first states [directions, batch, hidden]; None: 0.
        lengths: int32 [batch]; None: all steps.
        y: All states [steps, directions, batch, hidden].
        last_h, last_c: The last states, as the first ones.
        threads: The number of threads for which the work is divided.
    Raises:
        ValueError: Views do not fit each other.
    """
    k = kernels_or_chosen(kernels)
    return _native.step_recurrent(
        k[REALS],
        k[float_gemm.FAMILY],
        cell,
        x,
        packed,
        hidden,
        reverse,
        bias,
        None if h is None else h.read(),
        None if c is None else c.read(),
        lengths,
        None if y is None else y.write(),
        None if last_h is None else last_h.write(),
        None if last_c is None else last_c.write(),
        threads,
    )

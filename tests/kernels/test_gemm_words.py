"""Panels of words: which weights become them, and what a damaged plan may not say of them."""

from __future__ import annotations

import numpy as np
import pytest

from intact import kernels
from intact.kernels import gemm
from intact.kernels.epilogue import BoundEpilogue
from intact.kernels.program import ARENA, View

GROUPING = "gemm_avx2"
HEADER = PANEL = 64
"""Bytes, as csrc/kernels/gemm/packed.h has them."""

needs_grouping = pytest.mark.skipif(
    GROUPING not in [k.name for k in kernels.kernel_list() if k.available], reason="needs AVX2"
)


def weights(rng: np.random.Generator, spread: float, out: int = 16, taps: int = 64) -> np.ndarray:
    return np.clip(np.rint(rng.normal(0, spread, (out, 1, 1, taps))), -127, 127).astype(np.int8)


@needs_grouping
def test_weights_decide_between_groups_and_words(rng):
    """Words where groups would split nearly every step; the other panels of the layer stay as they are."""
    small, large = weights(rng, 8), weights(rng, 200)
    *groups, words = gemm.steps_by_group(gemm.pack(small, high=255, kernel=GROUPING), GROUPING)
    assert words == 0
    assert sum(groups) == 16
    *groups, words = gemm.steps_by_group(gemm.pack(large, high=255, kernel=GROUPING), GROUPING)
    assert words == 16
    assert sum(groups) == 0
    both = gemm.pack(np.concatenate([small, large]), high=255, kernel=GROUPING)
    *groups, words = gemm.steps_by_group(both, GROUPING)
    assert (sum(groups), words) == (16, 16)
    assert gemm.steps_by_group(gemm.pack(large, high=57, kernel=GROUPING), GROUPING)[-1] == 0


@needs_grouping
def test_weights_of_words_lie_in_halves(rng):
    """Bytes 0 and 2 of each channel, then 1 and 3; those of groups as they are multiplied, four by four."""
    for spread, order in (200, (0, 2, 1, 3)), (1, None):
        large = weights(rng, spread, taps=8)
        packed = gemm.pack(large, high=255, kernel=GROUPING)
        begin = int(packed[48:56].view(np.int64)[0])
        got = packed[begin : begin + large.size].view(np.int8).reshape(2, -1)
        steps = large.reshape(16, 2, 4).transpose(1, 0, 2)
        if order is None:
            assert {row.tobytes() for row in got} == {step.tobytes() for step in steps}
            continue
        assert gemm.steps_by_group(packed, GROUPING)[-1] == 2
        halves = np.stack([steps[:, :, [0, 2]], steps[:, :, [1, 3]]], axis=1)
        np.testing.assert_array_equal(got, halves.reshape(2, -1))


@needs_grouping
@pytest.mark.parametrize("damage", ["order", "steps"])
def test_words_that_are_not_the_window_are_refused(rng, damage):
    """All panels of words read one row: a panel with other steps would read beyond it."""
    packed = gemm.pack(weights(rng, 200, out=32), high=255, kernel=GROUPING)
    header = np.frombuffer(packed[:HEADER].tobytes(), np.int32)
    panels, positions = int(header[10]), int(header[11])
    assert (panels, positions) == (2, 32)
    words = packed.view(np.int32)
    if damage == "order":
        at = (HEADER + panels * PANEL) // 4
        words[at], words[at + 1] = words[at + 1], words[at]
    else:
        words[HEADER // 4 + 3] -= 1
    x = View(ARENA, 0, "uint8", (1, 1, 4, 64), (256, 256, 64, 1))
    y = View(ARENA, 1024, "uint8", (1, 1, 4, 32), (128, 128, 32, 1))
    ones = np.ones(32, np.float32)
    with pytest.raises(ValueError, match="words are damaged"):
        gemm.conv(x, y, packed, BoundEpilogue(ones, ones, np.zeros(32, np.int32)), kernel=GROUPING)

"""Random graphs of free sizes, the same ones each time; `make fuzz-head` tries others."""

from __future__ import annotations

import warnings

import pytest
from tests.fuzz.free_sizes import check

GRAPHS = 60
PIECE = 10
LEAST_NATIVE = 5
"""Of each piece: as many have one plan for all sizes. Others are lowered again for new ones."""


@pytest.mark.parametrize("first", range(0, GRAPHS, PIECE))
def test_engine_reference_and_onnx_runtime_agree(first: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statuses = [check(seed) for seed in range(first, first + PIECE)]
    assert statuses.count("native") >= LEAST_NATIVE, statuses

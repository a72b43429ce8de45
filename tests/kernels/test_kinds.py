"""Every kind of step equals its integer reference on every kernel of this machine, in any layout.

Cases are drawn (tests/kernels/kinds); what is at the edges of a kernel is in the other files of this folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.kernel_paths import environment, kernel_paths
from tests.kernels.kinds import elements, moves, products, reductions
from tests.kernels.kinds.draw import Draw
from tests.one_step import Case, Guarded, check, one_step

from intact.engine.steps import Clip
from intact.kernels import kernel_list, kernels_in_use, native_kinds

KINDS = {**elements.KINDS, **moves.KINDS, **products.KINDS, **reductions.KINDS}
ELSEWHERE = {
    "block_float_linear": "engine/test_bind_block_float_linear.py",
    "block_gather": "engine/test_lower_block_gather.py",
    "block_linear": "engine/test_bind_block_linear.py",
    "cached_attention": "engine/test_lower_cached_attention.py",
    "causal_conv": "engine/test_lower_causal_conv.py",
    "linear_attention": "engine/test_lower_linear_attention.py",
    "chosen_block_linear": "engine/test_chosen_block_linear.py",
    "dynamic_conv": "engine/test_lower_dynamic_conv.py",
    "dynamic_recurrent": "engine/test_lower_dynamic_recurrent.py",
    "elementwise": "kernels/test_elementwise_steps.py",
    "resize_places": "engine/test_lower_resize.py",
    "size_vector": "engine/test_shape_arithmetic.py",
}
"""Files that test a kind whose operands are not drawn here."""
ROOT = Path(__file__).parents[1]


@pytest.mark.rule("N42", "N49", "N50", "N51", "N54", "N56", "N57", "N58", "N59", "N60", "N62")
@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_random_cases(kind: str, batch: int) -> None:
    for number in range(10 * batch, 10 * batch + 10):
        check(KINDS[kind](Draw(np.random.default_rng([number, 3]))), seed=number)


def test_every_kind_that_kernels_run_is_tested() -> None:
    assert set(native_kinds()) == (KINDS.keys() & set(native_kinds())) | ELSEWHERE.keys()
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).is_file()] == []


def test_paths_choose_every_kernel_of_this_machine() -> None:
    chosen = set()
    for path in kernel_paths():
        with environment(**path):
            chosen |= set(kernels_in_use().values())
    assert chosen == {k.name for k in kernel_list() if k.available}


def clip_case() -> Case:
    """Codes between bounds."""
    return one_step(
        Clip("c", (), "x", "y", 0.0, 1.0), {"x": np.linspace(-2, 2, 30, dtype=np.float32).reshape(5, 6)}
    )


def test_a_bit_that_differs_is_found() -> None:
    case = clip_case()
    wrong = case.want["y"].copy()
    wrong[3, 2] = -0.0 if wrong[3, 2] == 0 else -wrong[3, 2]
    with pytest.raises(AssertionError, match=r"1 of 30 differ, first \(3, 2\)"):
        check(Case(case.plan, case.feeds, {**case.want, "y": wrong}))


@pytest.mark.parametrize("where", [-1, 30])
def test_a_byte_written_around_an_array_is_found(where: int) -> None:
    for rng in (None, np.random.default_rng(1)):
        guarded = Guarded((5, 6), np.dtype(np.float32), rng)
        guarded.array.fill(7)
        assert guarded.is_intact()
    dense = Guarded((5, 6), np.dtype(np.float32))
    flat = np.ndarray((32,), np.float32, dense.buffer, dense.first - 4)
    flat[where + 1] = 0
    assert not dense.is_intact()

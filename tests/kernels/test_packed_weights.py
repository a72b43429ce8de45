"""Weights that gemm_avx2 groups: which become groups, words or inliers; what a damaged plan may not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kernel_paths import environment
from tests.kernels.kinds.layers import Layer
from tests.one_step import Case, check

from intact.engine.cpu.bound_plan import Bound, PreparedPlan
from intact.engine.cpu.fallback import FallbackSessions
from intact.errors import IntactError
from intact.kernels import ThreadPool, kernel_list

GROUPING = "gemm_avx2"
HEADER = PANEL = 64
"""Bytes, as csrc/kernels/gemm/packed.h has them."""
Packed = dict[tuple[str, str], NDArray[Any]]

pytestmark = pytest.mark.skipif(
    GROUPING not in [k.name for k in kernel_list() if k.available], reason="needs AVX2"
)


def bind(case: Case, packed: Mapping[tuple[str, str], NDArray[Any]] | None = None) -> tuple[Bound, Packed]:
    """Bind a case on the kernel that groups, to packed weights where they are given; and what is packed."""
    prepared = PreparedPlan(case.plan, FallbackSessions(case.plan, 1))
    prepared.host.packed_weights = dict(packed or {})
    with environment(INTACT_FORCE_KERNEL=GROUPING):
        bound = prepared.bind({n: a.shape for n, a in case.feeds.items()}, ThreadPool(1), {})
    return bound, dict(prepared.host.packed_weights)


def weights_of(packed: Packed) -> tuple[tuple[str, str], NDArray[Any]]:
    """The one matrix that was packed for the kernel, with its name."""
    ((name, array),) = (
        (k, a) for k, a in packed.items() if k[1].startswith(GROUPING) and a.dtype == np.uint8
    )
    return name, array


def loops(case: Case) -> set[str]:
    """The inner loops that run."""
    bound, _ = bind(case)
    return {name for step in range(len(bound.program)) for name in bound.program.loops(step)}


def grouping(case: Case) -> int:
    """1: groups that hold all bytes, or words; 2: groups that hold inliers."""
    return int(weights_of(bind(case)[1])[1].view(np.int32)[2])


def evenly_spread(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-128, 128, shape).astype(np.int8)


def normal(rng: np.random.Generator, spread: float, out: int = 16, depth: int = 64) -> NDArray[np.int8]:
    return np.clip(np.rint(rng.normal(0, spread, (out, 1, 1, depth))), -127, 127).astype(np.int8)


def matrix(weight: NDArray[np.int8], high: int = 255, **more: Any) -> Layer:
    """A layer of four rows."""
    x = np.random.default_rng(0).integers(0, high + 1, (1, weight.shape[3], 1, 4)).astype(np.uint8)
    return Layer(x, weight, high=high, **more)


def test_weights_that_groups_would_split_are_grouped_for_inliers(rng) -> None:
    weight = evenly_spread(rng, (96, 1, 1, 256))
    assert grouping(matrix(weight).case()) == 2 and "words" not in loops(matrix(weight).case())
    for other, high in (weight // 16, 255), (weight, 127):
        case = matrix(other, high).case()
        assert grouping(case) == 1, "sums hold all bytes"
        assert "words" not in loops(case)


def test_weights_decide_between_groups_and_words(rng) -> None:
    """Words where groups would split nearly every step; the other panels of the layer stay as they are."""
    small, large = normal(rng, 8), normal(rng, 200)
    assert "words" not in loops(matrix(small).case())
    assert loops(matrix(large).case()) == {"words"}
    assert loops(matrix(np.concatenate([small, large])).case()) > {"words"}
    assert "words" not in loops(matrix(large, high=57).case())


@pytest.mark.parametrize("zero", [0, 40, 139, 255])
@pytest.mark.parametrize("share", [0, 0.003, 0.03, 0.5, 1])
def test_any_number_of_bytes_may_be_outliers(rng, share: float, zero: int) -> None:
    """No byte, a few, and so many that rows become words; of both signs; in the halo, too."""
    x = np.clip(rng.normal(zero, 20, (1, 256, 3, 17)), zero - 63, zero + 63)
    x = np.clip(np.where(rng.random(x.shape) < share, rng.integers(0, 256, x.shape), x), 0, 255)
    weight = evenly_spread(rng, (104, 1, 1, 256))
    for near in (zero, 255 - zero):  # where the bytes are, and where they are not
        case = Layer(x.astype(np.uint8), weight, zero=near).case()
        assert grouping(case) == 2
        check(case, moves=False)


@pytest.mark.parametrize("extreme", [-128, 127])
@pytest.mark.parametrize("byte", [0, 127, 128, 255])
def test_excesses_at_their_ends(byte: int, extreme: int) -> None:
    """The largest products of inliers and of excesses, wherever the inliers are, fit their sums."""
    weight = np.tile(np.int8([extreme, 0, 0, 0, extreme, extreme, 0, 0]), (96, 1, 1, 64))
    for zero in 0, 128, 255:
        x = np.full((1, 512, 2, 9), zero, np.uint8)
        x[:, 4:10, 1], x[:, 500, 0, ::3] = byte, byte
        case = Layer(x, weight, zero=zero).case()
        assert grouping(case) == 2
        check(case, moves=False)


@pytest.mark.parametrize(
    ("c", "kernel", "window"),
    [
        (228, 1, {}),
        (36, 3, {"pads": (1, 1, 1, 1)}),
        (36, 3, {"strides": (2, 1)}),
        (64, 3, {"dilations": (1, 2), "pads": (0, 2, 1, 1)}),
        (480, 1, {"groups": 2}),
    ],
)
def test_any_window(rng, c: int, kernel: int, window: dict[str, Any]) -> None:
    """Runs of any length, joined or not; panels of 8 and of 16 channels, and of several groups."""
    x = np.where(rng.random((2, c, 7, 9)) < 0.01, 255, rng.integers(0, 100, (2, c, 7, 9))).astype(np.uint8)
    weight = evenly_spread(rng, (200, kernel, kernel, c // window.get("groups", 1)))
    case = Layer(x, weight, window=window).case()
    assert grouping(case) == 2
    check(case)


@pytest.mark.parametrize("damage", ["twice", "bytes", "groups", "order", "steps"])
def test_steps_that_are_not_the_window_are_refused(rng, damage: str) -> None:
    """A step that a panel lacks would have no place: outliers would be multiplied by what lies elsewhere. All
    panels of words read one row: a panel with other steps would read beyond it."""
    of_words = damage in ("order", "steps")
    weight = normal(rng, 200, out=32) if of_words else evenly_spread(rng, (96, 1, 1, 256))
    case = matrix(weight, **({} if of_words else {"high": 200})).case()
    name, array = weights_of(bind(case)[1])
    packed = array.copy()
    numbers = packed.view(np.int32)
    panels = int(numbers[10])
    steps = (HEADER + panels * PANEL) // 4
    if damage == "twice":
        numbers[steps] = numbers[steps + 1]
    elif damage == "bytes":
        numbers[9] = 127  # the header's largest byte
    elif damage == "groups":
        numbers[HEADER // 4 + 8 : HEADER // 4 + 16] = 0
    elif damage == "order":
        numbers[steps], numbers[steps + 1] = numbers[steps + 1], numbers[steps]
    else:
        numbers[HEADER // 4 + 3] -= 1
    with pytest.raises(IntactError, match=r"are damaged|another kernel|smaller bytes"):
        bind(case, {name: packed})
    bind(case, {name: array})


def test_weights_packed_for_smaller_bytes_than_a_step_reads_are_refused() -> None:
    weight = np.ones((8, 1, 1, 8), np.int8)
    (constant, form), packed = weights_of(bind(matrix(weight, 15).case())[1])
    renamed = {(constant, form.replace(".to15", ".to16")): packed}
    with pytest.raises(IntactError, match="smaller bytes"):
        bind(matrix(weight, 16).case(), renamed)

"""Rows multiplied by the matrices that they choose, against the integer reference: every byte equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import intact
from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower.passes.skip_unread_rows import choose_rows
from intact.engine.reference import evaluate
from intact.engine.steps import ChosenLinear, Codes, Epilogue, GatherRows, Linear, Reshape
from intact.errors import FileFormatError, QuantValueError
from intact.kernels.registry import kernel_list

SIGNED = Codes(0.05, -3, True, -128, 127)
UNSIGNED = Codes(0.03, 17, False, 0, 255)
KERNELS = [k.name for k in kernel_list() if k.family == "gemm" and k.available and not k.refused]


def apart(  # the whole product, of which rows keep parts
    groups: int, width: int, depth: int, rows: tuple, each: int, grids: tuple, index: np.ndarray, *,
    function: str = "", constant: bool = False,
) -> tuple[Plan, dict]:  # fmt: skip
    rng = np.random.default_rng(groups * width + depth)
    out, count = groups * width, int(np.prod(rows)) * each
    spread = np.float32(0.02 / np.sqrt(depth))
    constants = {
        "w": rng.integers(-127, 128, (out, depth)).astype(np.int8),
        "m": (rng.uniform(0.5, 1.5, out) * spread).astype(np.float32),
        "b": rng.normal(0, 20 if grids[1] else 1, out).astype(np.float32),
    }
    if constant:
        constants["i"] = index.reshape(-1, 1)

    def make_tensor(name: str, shape: tuple) -> Tensor:
        return Tensor(name, "codes", shape, grids[1]) if grids[1] else Tensor(name, "float32", shape)

    tensors = {
        "x": Tensor("x", "codes", (*rows, depth), grids[0]),
        "l": make_tensor("l", (*rows, out)),
        "r": make_tensor("r", (int(np.prod(rows)) * groups, width)),
        "y": make_tensor("y", (count, width)),
    }
    if not constant:
        tensors["i"] = Tensor("i", index.dtype.name, (count, 1))
    steps = (
        Linear("layer", ("layer",), "x", "l", "w", Epilogue("m", "b", activation=function)),
        Reshape("shape", ("shape",), "l", "r"),
        GatherRows("keep", ("keep",), "r", "i", "y", (groups,)),
    )
    x = rng.integers(grids[0].low, grids[0].high + 1, (*rows, depth))
    feeds = {"x": x.astype(np.int8 if grids[0].signed else np.uint8), "i": index.reshape(-1, 1)}
    names = ("x",) if constant else ("x", "i")
    return Plan(steps, tensors, constants, names, ("y",)), {name: feeds[name] for name in names}


def check(plan: Plan, feeds: dict, threads: int = 2) -> None:
    """The joined plan is one step, whose reference and native form make what the steps apart make."""
    joined = choose_rows(plan)
    assert [step.kind for step in joined.steps] == ["chosen_linear"] and "choose rows" in joined.notes[-1]
    want = evaluate(plan, feeds)["y"]
    assert np.array_equal(evaluate(joined, feeds)["y"], want)
    assert np.array_equal(Engine(joined, threads=threads).run(feeds)["y"], want)


def random_groups(groups: int, count: int, *, ordered: bool = False, dtype=np.int64) -> np.ndarray:
    rng = np.random.default_rng(count)
    index = rng.integers(-groups, groups, count)
    return (np.sort(index % groups) if ordered else index).astype(dtype)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ordered", [True, False], ids=["in order", "in any order"])
@pytest.mark.parametrize("grids", [(SIGNED, None), (UNSIGNED, SIGNED)], ids=["to floats", "to codes"])
def test_every_kernel(kernel, ordered, grids, monkeypatch):
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    for groups, width, depth, rows in [(3, 20, 37, 11), (5, 64, 64, 40), (2, 7, 16, 1)]:
        index = random_groups(groups, rows, ordered=ordered)
        check(*apart(groups, width, depth, (rows,), 1, grids, index))


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_and_weights_are_cut_into_items(threads):
    index = random_groups(7, 900, ordered=True)
    check(*apart(7, 160, 300, (900,), 1, (UNSIGNED, None), index), threads=threads)


def test_a_row_may_choose_several(monkeypatch):
    check(*apart(4, 24, 32, (3, 5), 2, (SIGNED, None), random_groups(4, 30, dtype=np.int32)))
    check(*apart(4, 24, 32, (6,), 3, (SIGNED, UNSIGNED), random_groups(4, 18), function="silu"))


def test_constant_indices_and_no_rows():
    check(*apart(4, 24, 32, (6,), 1, (SIGNED, None), random_groups(4, 6), constant=True))
    check(*apart(4, 24, 32, (0,), 1, (SIGNED, None), random_groups(4, 0)))


@pytest.mark.parametrize("wrong", [4, -5])
def test_an_index_out_of_range_ends_the_run(wrong):
    plan, feeds = apart(4, 24, 32, (6,), 1, (SIGNED, None), np.array([0, 1, 2, wrong, 0, 0]))
    for backend in ("cpu", "reference"):
        with pytest.raises(QuantValueError):
            intact.compile(choose_rows(plan), backend=backend).run(feeds)


def test_what_others_read_too_and_what_chooses_more_than_there_are_stays():
    plan, _ = apart(4, 24, 32, (6,), 1, (SIGNED, None), random_groups(4, 6))
    assert len(choose_rows(replace(plan, outputs=("y", "r"))).steps) == 3
    plan, _ = apart(2, 24, 32, (6,), 3, (SIGNED, None), random_groups(2, 18))
    assert len(choose_rows(plan).steps) == 3


def test_files_cannot_say_what_does_not_fit():
    plan, _ = apart(4, 24, 32, (6,), 1, (SIGNED, None), random_groups(4, 6))
    (step,) = choose_rows(plan).steps
    assert isinstance(step, ChosenLinear)
    with pytest.raises(FileFormatError, match=r"groups 5, weight\[0\] 96, want as many columns"):
        check_limits(
            replace(choose_rows(plan), steps=(replace(step, groups=5),)),
            {name: (array.dtype.name, array.shape) for name, array in plan.constants.items()},
        )

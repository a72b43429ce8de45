"""Rows times the block weights that they choose equal the reference and the steps apart, by every kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intact import numerics
from intact.engine import Plan, Tensor
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.lower.passes.skip_unread_rows import choose_rows
from intact.engine.reference import evaluate
from intact.engine.steps import BlockFloatLinear, BlockLinear, DynamicQuantize, GatherRows, Reshape
from intact.errors import FileFormatError, QuantValueError
from intact.kernels import kernel_list

KERNELS = [k.name for k in kernel_list() if k.family in ("block_gemm", "float_gemm") and k.available]


def separate_steps(
    groups: int, width: int, k: int, rows: int, each: int, *, bits: int = 4, block: int = 32,
    x_block: int = 32, offsets: str = "", bias: bool = True, whole_range: bool = False,
) -> Plan:  # fmt: skip
    """The whole product, of which GatherRows keeps parts; `x_block` 0: of floats."""
    rng = np.random.default_rng(groups * width + k + rows)
    outputs, blocks = groups * width, -(-k // block)
    constants: dict[str, Any] = {
        "w": numerics.join_stream(rng.integers(0, 2**bits, (outputs, k), np.uint8), bits, 1),
        "s": rng.normal(0, 0.05, (outputs, blocks)).astype(np.float32),
    }
    optional = {"bias": "b"} if bias else {}
    if bias:
        constants["b"] = rng.normal(0, 1, outputs).astype(np.float32)
    if "t" in offsets:
        constants["t"] = rng.permutation(256)[:16].astype(np.float32) - 128
        optional["table"] = "t"
    if "z" in offsets:
        constants["z"] = rng.integers(0, 2**bits, (outputs, blocks), np.uint8)
        optional["zero_points"] = "z"
    if "m" in offsets:
        constants["m"] = rng.normal(0, 0.1, (outputs, blocks)).astype(np.float32)
        optional["minima"] = "m"
    if "l" in offsets:
        constants["s"] = rng.normal(0, 4e-4, (outputs, 1)).astype(np.float16).astype(np.float32)
        constants["m"] = rng.normal(0, 1e-3, (outputs, 1)).astype(np.float32)
        integers = rng.integers(-128, 128, (2, outputs, blocks)).astype(np.int8)
        constants |= {"ss": integers[0], "sm": integers[1]}
        optional |= {"minima": "m", "sub_scales": "ss", "sub_minima": "sm"}
    tensors = [
        Tensor("x", "float32", (rows, k)),
        Tensor("l", "float32", (rows, outputs)),
        Tensor("r", "float32", (rows * groups, width)),
        Tensor("i", "int64", (rows * each, 1)),
        Tensor("y", "float32", (rows * each, width)),
    ]
    weights = {"weight": "w", "scales": "s", "inputs": k, "bits": bits, "block": block, **optional}
    steps: list[Any] = [BlockFloatLinear("layer", ("layer",), "x", "l", **weights)]
    if x_block:
        ranges = () if whole_range else (rows, -(-k // x_block))
        tensors += [Tensor("q", "int8", (rows, k)), Tensor("qs", "float32", ranges)]
        steps = [
            DynamicQuantize("codes", ("codes",), "x", "q", "qs", block=x_block),
            BlockLinear("layer", ("layer",), "q", "qs", "l", x_block, **weights),
        ]
    steps += [
        Reshape("shape", ("shape",), "l", "r"),
        GatherRows("keep", ("keep",), "r", "i", "y", (groups,)),
    ]
    return Plan(tuple(steps), {t.name: t for t in tensors}, constants, ("x", "i"), ("y",))


def some_feeds(plan: Plan, groups: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, plan.tensors["x"].shape).astype(np.float32)
    return {"x": x, "i": rng.integers(-groups, groups, plan.tensors["i"].shape)}


def check(plan: Plan, groups: int, threads: int = 2) -> None:
    """The joined plan has one step fewer than each of its parts, and the bits of these."""
    joined = choose_rows(plan)
    assert [step.kind for step in joined.steps][-1] == "chosen_block_linear"
    assert len(joined.steps) == len(plan.steps) - 2
    feeds = some_feeds(plan, groups)
    want = evaluate(plan, feeds)["y"]
    np.testing.assert_array_equal(evaluate(joined, feeds)["y"], want)
    np.testing.assert_array_equal(Engine(joined, threads=threads).run(feeds)["y"], want)


@pytest.mark.rule("N75")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("x_block", [0, 32])
@pytest.mark.parametrize(
    ("bits", "offsets"), [*((bits, levels) for bits in (2, 4, 5, 6, 8) for levels in ("", "l")), (4, "tl")]
)
def test_every_kernel(
    kernel: str, x_block: int, bits: int, offsets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    for groups, width, k, rows, each in [(4, 16, 64, 1, 2), (3, 80, 96, 9, 2), (8, 32, 32, 40, 3)]:
        plan = separate_steps(groups, width, k, rows, each, bits=bits, x_block=x_block, offsets=offsets)
        check(plan, groups)


@pytest.mark.parametrize("x_block", [0, 24, 72])
@pytest.mark.parametrize("offsets", ["", "z", "m", "zm", "zl"])
@pytest.mark.parametrize("bits", [4, 6])
def test_offsets_and_blocks(x_block: int, offsets: str, bits: int) -> None:
    form: dict[str, Any] = {"bits": bits, "block": 24, "x_block": x_block, "offsets": offsets, "bias": False}
    for k in (72, 96):  # codes of 6 bits fill whole groups of units only of 96
        check(separate_steps(5, 32, k, 7, 2, **form), 5)


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("x_block", [0, 40])
def test_threads_and_many_rows_of_one_group(threads: int, x_block: int) -> None:
    # 600 rows choose 2 matrices: more than a kernel takes at once.
    check(separate_steps(2, 576, 40, 600, 1, block=40, x_block=x_block), 2, threads)


def test_no_rows() -> None:
    check(separate_steps(4, 16, 64, 0, 2), 4)
    check(separate_steps(4, 16, 64, 0, 2, x_block=0), 4)


def test_groups_that_fill_no_panel_stay_apart() -> None:
    plan = separate_steps(4, 24, 64, 3, 2)
    assert choose_rows(plan) == plan


def test_as_many_rows_as_matrices_stay_apart() -> None:
    plan = separate_steps(2, 16, 64, 3, 3)
    assert choose_rows(plan) == plan


@pytest.mark.parametrize("index", [4, -5])
@pytest.mark.parametrize("x_block", [0, 32])
def test_indices_out_of_range_are_refused(index: int, x_block: int) -> None:
    plan = choose_rows(separate_steps(4, 16, 64, 3, 1, x_block=x_block))
    feeds = some_feeds(plan, 4)
    feeds["i"][1] = index
    with pytest.raises(QuantValueError, match="'i': got index"):
        evaluate(plan, feeds)
    with pytest.raises(QuantValueError, match="'i': got index"):
        Engine(plan).run(feeds)


@pytest.mark.parametrize(
    "change",
    [
        {"groups": 3},
        {"groups": 0},
        {"groups": 8},
        {"x_block": 0},
        {"x_scales": ""},
        {"inputs": 60},
        {"index": "x"},
        {"bits": 9},
        {"sub_scales": "w"},
        {"sub_minima": "s"},
    ],
)
def test_damaged_steps_are_refused(change: dict[str, Any]) -> None:
    plan = choose_rows(separate_steps(4, 16, 64, 3, 1))
    *front, step = plan.steps
    damaged = replace(plan, steps=(*front, replace(step, **change)))
    with pytest.raises((FileFormatError, QuantValueError)):
        damaged.check()
        check_limits(damaged, {name: (a.dtype.name, a.shape) for name, a in plan.constants.items()})


def test_rows_without_axes_are_refused() -> None:
    plan = choose_rows(separate_steps(4, 16, 64, 3, 1, x_block=0))
    number = Tensor("x", "float32", ())
    damaged = replace(plan, tensors={**plan.tensors, "x": number})
    with pytest.raises(FileFormatError, match="one rank"):
        check_limits(damaged, {name: (a.dtype.name, a.shape) for name, a in plan.constants.items()})

"""Products with block weights, bound and run, equal the integer reference in every bit, by every kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from intact import numerics
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import BlockLinear, DynamicQuantize, Step, Tensor
from intact.errors import IntactError, QuantValueError
from intact.kernels import kernel_list

MULTIPLY = [k.name for k in kernel_list() if k.family == "block_gemm" and k.available]
QUANTIZE = [k.name for k in kernel_list() if k.family == "dynamic_quantize" and k.available]
OFFSETS = ("none", "zeros", "minima", "both", "levels")


def pack_codes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    return numerics.join_stream(codes, bits, 1)


def plan_of(
    rng: np.random.Generator, rows: int, k: int, n: int, bits: int, block: int, x_block: int,
    signed: bool, offsets: str = "none", table: NDArray[np.float32] | None = None,
) -> Plan:  # fmt: skip
    """Return a plan that quantizes rows of floats and multiplies them; x_block 0: one range for all."""
    blocks = -(-k // block)
    supers = max(n for n in range(1, blocks + 1) if blocks % n == 0 and n < max(blocks, 2))
    constants: dict[str, Any] = {
        "w": pack_codes(rng.integers(0, 2**bits, (n, k), np.uint8), bits),
        "s": rng.normal(0, 0.02, (n, blocks)).astype(np.float32),
        "b": rng.normal(0, 1, n).astype(np.float32),
    }
    optional = {}
    if table is not None:
        constants["t"] = table
        optional["table"] = "t"
    if offsets in ("zeros", "both"):
        constants["z"] = rng.integers(0, 2**bits, (n, blocks), np.uint8)
        optional["zero_points"] = "z"
    if offsets in ("minima", "both"):
        constants["m"] = rng.normal(0, 0.1, (n, blocks)).astype(np.float32)
        optional["minima"] = "m"
    if offsets == "levels":
        constants["s"] = rng.normal(0, 4e-4, (n, supers)).astype(np.float16).astype(np.float32)
        constants["m"] = rng.normal(0, 1e-3, (n, supers)).astype(np.float32)
        constants |= {name: rng.integers(-128, 128, (n, blocks)).astype(np.int8) for name in ("ss", "sm")}
        optional |= {"minima": "m", "sub_scales": "ss", "sub_minima": "sm"}
    ranges = (rows, -(-k // x_block)) if x_block else ()
    tensors = [
        Tensor("x", "float32", (rows, k)),
        Tensor("q", "int8" if signed else "uint8", (rows, k)),
        Tensor("r", "float32", ranges),
        Tensor("y", "float32", (rows, n)),
    ]
    points = "" if signed else "p"
    if points:
        tensors.append(Tensor("p", "uint8", ranges))
    steps: list[Step] = [
        DynamicQuantize("quantize", ("quantize",), "x", "q", "r", points, x_block),
        BlockLinear(
            "product", ("product",), "q", "r", "y", x_block or k, points, "b", weight="w", scales="s",
            inputs=k, bits=bits, block=block, **optional,
        ),
    ]  # fmt: skip
    return Plan(tuple(steps), {t.name: t for t in tensors}, constants, ("x",), ("y", "q", "r"))


def check(plan: Plan, x: NDArray[np.float32], threads: int = 2) -> None:
    got, want = Engine(plan, threads=threads).run({"x": x}), evaluate(plan, {"x": x})
    for name in plan.outputs:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name)
        assert np.array_equal(np.signbit(got[name]), np.signbit(want[name])), name


@pytest.mark.parametrize("kernel", MULTIPLY)
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("signed", [True, False])
def test_every_kernel(
    kernel: str, bits: int, offsets: str, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    rng = np.random.default_rng(bits)
    for rows, k, n, block, x_block in [
        (1, 64, 33, 32, 32), (1, 192, 50, 16, 32), (4, 256, 20, 32, 32), (13, 100, 16, 32, 32),
        (5, 37, 20, 64, 37), (3, 96, 7, 16, 48), (27, 64, 40, 64, 16), (3, 160, 17, 32, 16),
        (7, 512, 70, 32, 64), (1, 48, 9, 48, 24), (2, 9, 3, 16, 16), (4, 80, 17, 16, 0), (1, 301, 33, 512, 0),
        (200, 96, 33, 32, 32),
    ]:  # fmt: skip
        x = rng.normal(0, 3, (rows, k)).astype(np.float32)
        check(plan_of(rng, rows, k, n, bits, block, x_block, signed, offsets), x)


@pytest.mark.parametrize("kernel", MULTIPLY)
@pytest.mark.parametrize("offsets", ["none", "minima", "levels"])
@pytest.mark.parametrize("signed", [True, False])
def test_tables_by_every_kernel(
    kernel: str, offsets: str, signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    rng = np.random.default_rng(len(offsets))
    for rows, k, n, block, x_block in [
        (1, 64, 33, 32, 32), (4, 256, 20, 32, 32), (5, 37, 20, 64, 37), (3, 96, 7, 16, 48),
        (200, 96, 33, 32, 32), (2, 9, 3, 16, 16), (3, 64, 33, 32, 32), (1, 8, 1, 8, 8),
    ]:  # fmt: skip
        x = rng.normal(0, 3, (rows, k)).astype(np.float32)
        table = rng.integers(-128, 128, 16).astype(np.float32)
        check(plan_of(rng, rows, k, n, 4, block, x_block, signed, offsets, table), x)


@pytest.mark.parametrize("signed", [True, False])
def test_products_of_equal_codes_keep_their_tables(signed: bool) -> None:
    rng = np.random.default_rng(0)
    plan = plan_of(rng, 3, 64, 20, 4, 32, 32, signed, table=np.arange(16, dtype=np.float32))
    quantize, product = plan.steps
    assert isinstance(product, BlockLinear)
    plan.constants["other"] = -2 * plan.constants["t"]
    both = (quantize, product, replace(product, name="again", y="y2", table="other"))
    tensors = plan.tensors | {"y2": Tensor("y2", "float32", (3, 20))}
    two = Plan(both, tensors, plan.constants, plan.inputs, (*plan.outputs, "y2"))
    check(two, rng.normal(0, 3, (3, 64)).astype(np.float32))


@pytest.mark.parametrize("value", [0.5, 128, -129, np.inf, np.nan])
def test_a_product_of_codes_wants_a_table_of_whole_numbers(value: float) -> None:
    table = np.arange(16, dtype=np.float32)
    table[15] = value
    plan = plan_of(np.random.default_rng(0), 1, 64, 8, 4, 32, 32, True, table=table)
    x = np.ones((1, 64), np.float32)
    with pytest.raises(QuantValueError, match="whole numbers"):
        evaluate(plan, {"x": x})
    with pytest.raises(IntactError, match="whole numbers"):
        Engine(plan).run({"x": x})


@pytest.mark.parametrize("kernel", QUANTIZE)
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("x_block", [0, 16, 24, 1000])
def test_ranges_of_odd_values(
    kernel: str, signed: bool, x_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    rng = np.random.default_rng(x_block)
    x = rng.normal(0, 1, (9, 53)).astype(np.float32)
    x[0] = 0
    x[1] = -np.abs(x[1])
    x[2] = 1e-40
    x[3] *= np.float32(1e38)
    x[4, ::3] *= 1e-30
    x[5] = np.float32(np.finfo(np.float32).max) * np.where(np.arange(53) % 2, 1, -1)
    x[6] = np.rint(x[6] * 64) / 2  # ties
    plan = plan_of(rng, 9, 53, 5, 4, 53, x_block, signed)
    with np.errstate(all="ignore"):
        check(plan, np.where(np.abs(x) < 10, x, 0).astype(np.float32) if x_block == 0 else x)
        for bad in (np.nan, np.inf, -np.inf):
            x[7, 20] = bad
            check(plan, x)


@pytest.mark.parametrize("x_block", [0, 16])
@pytest.mark.parametrize("sizes", [(0, 48), (2, 0, 48), (0, 3, 48), (2, 3, 48), (1, 1, 48), (48,)])
def test_any_number_of_axes(sizes: tuple[int, ...], x_block: int) -> None:
    rng = np.random.default_rng(0)
    flat = plan_of(rng, 1, 48, 20, 4, 16, x_block, True)
    last = {"x": 48, "q": 48, "r": 3, "y": 20}
    shapes = {name: () if name == "r" and not x_block else (*sizes[:-1], n) for name, n in last.items()}
    tensors = {name: Tensor(name, t.dtype, shapes[name]) for name, t in flat.tensors.items()}
    plan = Plan(flat.steps, tensors, flat.constants, flat.inputs, flat.outputs)
    check(plan, rng.normal(0, 1, sizes).astype(np.float32))


@pytest.mark.parametrize("bits", [4, 8])
def test_largest_sums_of_words(bits: int) -> None:
    """Codes and activations at their ends, where sums of words in registers are largest."""
    rng = np.random.default_rng(0)
    plan = plan_of(rng, 6, 256, 16, bits, 64, 64, True, "zeros")
    plan.constants["w"][...] = 255
    plan.constants["z"][...] = 0
    x = np.where(rng.integers(0, 2, (6, 1)), np.float32(1), np.float32(-1)) * np.ones((6, 256), np.float32)
    check(plan, x)


def test_threads_and_batches_change_no_bit() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (130, 96)).astype(np.float32)
    whole = plan_of(rng, 130, 96, 72, 4, 32, 32, True)
    row_plan = Plan(
        whole.steps,
        {name: Tensor(name, t.dtype, (1, *t.shape[1:])) for name, t in whole.tensors.items()},
        whole.constants, whole.inputs, whole.outputs,
    )  # fmt: skip
    want = Engine(whole, threads=1).run({"x": x})["y"]
    for threads in (2, 8):
        np.testing.assert_array_equal(Engine(whole, threads=threads).run({"x": x})["y"], want)
    row = Engine(row_plan)
    for i in range(0, 130, 9):
        np.testing.assert_array_equal(row.run({"x": x[i : i + 1]})["y"][0], want[i])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_several_threads_find_one_range(signed: bool, threads: int) -> None:
    rng = np.random.default_rng(2)
    rows, k = 700, 264  # three parts, of which the last is short
    plan = plan_of(rng, rows, k, 5, 8, k, 0, signed)
    x = rng.normal(0, 1, (rows, k)).astype(np.float32)
    check(plan, x, threads)
    check(plan, np.abs(x), threads)
    check(plan, -np.abs(x) - 1, threads)
    for row, value in ((0, 9), (rows - 1, -9), (rows // 2, 1e30), (rows - 1, np.nan), (3, np.inf)):
        x[row, 7] = value
        with np.errstate(all="ignore"):
            check(plan, x, threads)
    check(plan, np.zeros_like(x), threads)

"""Layers with integer sums, bound and run, against the integer reference: every byte equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes, Conv, ConvTranspose, Epilogue, Linear, Tensor

SIGNED = Codes(0.05, -3, True, -128, 127)
RELU = Codes(0.04, 0, True, 0, 127)
UNSIGNED = Codes(0.03, 17, False, 0, 255)
GRIDS = [SIGNED, RELU, UNSIGNED]


def plan_of(
    kind: Any, weight: np.ndarray, x: tuple, y: tuple, grids: tuple, *, residual=False, bias=True, **more
):
    """One layer between two tensors of codes; the second may be None, for floats."""
    rng = np.random.default_rng(weight.size)
    out = weight.shape[0]
    spread = np.float32(0.02 / np.sqrt(weight[0].size))
    constants = {
        "w": weight,
        "m": (rng.uniform(0.5, 1.5, out) * spread).astype(np.float32),
        "b": rng.normal(0, 20, out).astype(np.float32),
        "ib": rng.integers(-999, 1000, out).astype(np.int32),
    }
    grid = grids[1]
    low, high = (grid.low + 3, grid.high - 5) if grid else (-1.5, 2.5)
    epilogue = Epilogue("m", "b" if bias else "", "" if bias else "ib", low=low, high=high)
    if residual:
        epilogue = replace(epilogue, residual="r", residual_multiplier=float(np.float32(0.7)))
    tensors = {
        "x": Tensor("x", "codes", x, grids[0]),
        "y": Tensor("y", "codes", y, grid) if grid else Tensor("y", "float32", y),
    }
    if residual:
        tensors["r"] = Tensor("r", "codes", y, UNSIGNED)
    step = kind(name="layer", nodes=("layer",), x="x", y="y", weight="w", epilogue=epilogue, **more)
    return Plan((step,), tensors, constants, ("x", "r") if residual else ("x",), ("y",))


def check(plan: Plan) -> None:
    rng = np.random.default_rng(5)
    inputs = {}
    for name in plan.inputs:
        codes = plan.tensors[name].codes
        dtype = np.int8 if codes.signed else np.uint8
        inputs[name] = rng.integers(codes.low, codes.high + 1, plan.tensors[name].shape).astype(dtype)
    got = Engine(plan, threads=2).run(inputs)["y"]
    np.testing.assert_array_equal(got, evaluate(plan, inputs)["y"])


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize("y_grid", [*GRIDS, None], ids=["signed", "relu", "unsigned", "float_steps"])
@pytest.mark.parametrize("x_grid", GRIDS, ids=["signed", "relu", "unsigned"])
@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
def test_conv_of_every_grid(x_grid, y_grid, residual):
    check(
        plan_of(
            Conv, weights(24, 3, 3, 5), (2, 5, 9, 8), (2, 24, 5, 4), (x_grid, y_grid),
            residual=residual, bias=not residual, strides=(2, 2), pads=(1, 1, 1, 1),
        )
    )  # fmt: skip


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 3)])
def test_conv_with_groups_and_dilations(groups, dilations):
    h, w = 11 - 2 * (dilations[0] - 1), 12 - 2 * (dilations[1] - 1) - 1
    plan = plan_of(
        Conv, weights(8 * groups, 3, 3, 3), (1, 3 * groups, 11, 12), (1, 8 * groups, h, w),
        (SIGNED, UNSIGNED), dilations=dilations, pads=(1, 0, 1, 1), groups=groups,
    )  # fmt: skip
    check(plan)


@pytest.mark.parametrize("rows", [(7,), (1, 13), (2, 3, 5), (2, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("y_grid", [SIGNED, None], ids=["codes", "float_steps"])
def test_linear_over_any_axes(rows, y_grid):
    check(plan_of(Linear, weights(40, 19), (*rows, 19), (*rows, 40), (SIGNED, y_grid), residual=True))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_transposed_convolution(data):
    integer = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    kernel, strides = [integer(1, 4) for _ in "hw"], [integer(1, 3) for _ in "hw"]
    dilations = [integer(1, 3) for _ in "hw"]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [integer(0, reach[i % 2] - 1) for i in range(4)]
    extra = [integer(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
    x, groups = [integer(2, 5) for _ in "hw"], data.draw(st.sampled_from([1, 1, 2]))
    y = [(x[i] - 1) * strides[i] + reach[i] + extra[i] - pads[i] - pads[i + 2] for i in range(2)]
    if min(y) < 1:
        return
    plan = plan_of(
        ConvTranspose, weights(6 * groups, *kernel, 3), (2, 3 * groups, *x), (2, 6 * groups, *y),
        (UNSIGNED, SIGNED), residual=data.draw(st.booleans()), strides=tuple(strides),
        dilations=tuple(dilations), pads=tuple(pads), output_padding=tuple(extra), groups=groups,
    )  # fmt: skip
    check(plan)


def test_a_residual_that_nobody_reads_again_is_overwritten():
    first = plan_of(
        Conv, weights(72, 3, 3, 5), (2, 5, 9, 8), (2, 72, 9, 8), (SIGNED, UNSIGNED), pads=(1,) * 4
    )
    second = plan_of(Conv, weights(72, 1, 1, 72), (2, 72, 9, 8), (2, 72, 9, 8), (UNSIGNED, UNSIGNED))
    third = plan_of(
        Conv, weights(72, 1, 1, 72), (2, 72, 9, 8), (2, 72, 9, 8), (UNSIGNED, UNSIGNED), residual=True
    )
    grid, shape = UNSIGNED, (2, 72, 9, 8)
    links = [("x", "a", ""), ("a", "b", ""), ("b", "c", "a"), ("c", "y", "")]
    steps, constants = [], {}
    for i, (plan, (x, y, r)) in enumerate(zip([first, second, third, second], links, strict=True)):
        constants |= {f"{name}{i}": value for name, value in plan.constants.items()}
        epilogue = plan.steps[0].epilogue
        epilogue = replace(epilogue, multiplier=f"m{i}", bias=f"b{i}", residual=r)
        steps.append(replace(plan.steps[0], name=y, x=x, y=y, weight=f"w{i}", epilogue=epilogue))
    tensors = {"x": first.tensors["x"]} | {n: Tensor(n, "codes", shape, grid) for n in "abcy"}
    check(Plan(tuple(steps), tensors, constants, ("x",), ("y",)))

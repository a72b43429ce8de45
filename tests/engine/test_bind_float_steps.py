"""Layers in floats and products of activations, bound and run, equal the integer reference in every bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import (
    Binary,
    Clip,
    Codes,
    Epilogue,
    Function,
    LayerNorm,
    MatMul,
    Quantize,
    Reduce,
    Reshape,
    Softmax,
    Step,
    Tensor,
    Transpose,
)
from intact.kernels import kernel_list

SIGNED = Codes(0.05, -3, True, -128, 127)
UNSIGNED = Codes(0.03, 17, False, 0, 255)
WEIGHTS = Codes(1 / 255, 0, False, 0, 255)
GRIDS = {"float_steps": None, "int8": SIGNED, "uint8": UNSIGNED}


def tensor(name: str, shape: tuple[int, ...], grid: Codes | None) -> Tensor:
    return Tensor(name, "float32" if grid is None else "codes", shape, grid)


def check(steps: list[Step], tensors: list[Tensor], constants: dict[str, Any], inputs: list[str]) -> None:
    check_plan(Plan(tuple(steps), {t.name: t for t in tensors}, constants, tuple(inputs), ("y",)))


def check_plan(plan: Plan) -> None:
    rng = np.random.default_rng(len(plan.constants))
    feeds = {}
    for name in plan.inputs:
        shape, codes = plan.tensors[name].shape, plan.tensors[name].codes
        if codes is None:
            feeds[name] = rng.normal(0, 2, shape).astype(np.float32)
        else:
            feeds[name] = rng.integers(codes.low, codes.high + 1, shape)
            feeds[name] = feeds[name].astype(np.int8 if codes.signed else np.uint8)
    got, want = Engine(plan, threads=2).run(feeds)["y"], evaluate(plan, feeds)["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.fixture(params=sorted(GRIDS))
def x_grid(request: pytest.FixtureRequest) -> Codes | None:
    return GRIDS[request.param]


@pytest.fixture(params=sorted(GRIDS))
def y_grid(request: pytest.FixtureRequest) -> Codes | None:
    return GRIDS[request.param]


@pytest.mark.parametrize("function", ["gelu", "sigmoid", "relu"])
def test_function(x_grid: Codes | None, y_grid: Codes | None, function: str) -> None:
    step = Function("f", ("f",), "x", "y", function)
    check([step], [tensor("x", (2, 5, 33), x_grid), tensor("y", (2, 5, 33), y_grid)], {}, ["x"])


@pytest.mark.parametrize("ends", [(0.0, 6.0), (None, 1.5), (-1.0, None), (None, None)], ids=str)
def test_clip(x_grid: Codes | None, y_grid: Codes | None, ends: tuple[float | None, float | None]) -> None:
    step = Clip("c", ("c",), "x", "y", *ends)
    check([step], [tensor("x", (2, 5, 33), x_grid), tensor("y", (2, 5, 33), y_grid)], {}, ["x"])


@pytest.mark.parametrize("function", ["add", "sub", "mul", "div", "max", "min", "slope"])
@pytest.mark.parametrize("shape", [(2, 5, 33), (5, 1), (33,), (1,)], ids=str)
def test_binary(x_grid: Codes | None, y_grid: Codes | None, function: str, shape: tuple[int, ...]) -> None:
    b = np.random.default_rng(0).uniform(0.5, 3, shape).astype(np.float32)
    step = Binary("f", ("f",), function, "x", "c", "y")
    check([step], [tensor("x", (2, 5, 33), x_grid), tensor("y", (2, 5, 33), y_grid)], {"c": b}, ["x"])


def test_binary_of_two_tensors(x_grid: Codes | None) -> None:
    step = Binary("f", ("f",), "mul", "x", "z", "y")
    tensors = [tensor("x", (4, 1, 7), x_grid), tensor("z", (6, 7), SIGNED), tensor("y", (4, 6, 7), None)]
    check([step], tensors, {}, ["x", "z"])


@pytest.mark.parametrize("function", ["mean", "sum"])
@pytest.mark.parametrize("axes", [(2,), (0,), (1, 2), (0, 2), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduce(
    x_grid: Codes | None, y_grid: Codes | None, function: str, axes: tuple[int, ...], keepdims: bool
) -> None:
    shape = (4, 5, 33)
    reduced_shape = [1 if axis in axes else n for axis, n in enumerate(shape) if keepdims or axis not in axes]
    step = Reduce("r", ("r",), "x", "y", function, axes, keepdims)
    check([step], [tensor("x", shape, x_grid), tensor("y", tuple(reduced_shape), y_grid)], {}, ["x"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("mask", ["", "m", "c"])
def test_softmax(x_grid: Codes | None, y_grid: Codes | None, axis: int, mask: str) -> None:
    c = np.where(np.arange(21) < 15, 0, -1e4).astype(np.float32)
    step = Softmax("s", ("s",), "x", "y", axis, 0.125, mask)
    tensors = [
        tensor("x", (3, 4, 21), x_grid), tensor("y", (3, 4, 21), y_grid), tensor("m", (3, 1, 21), None),
    ]  # fmt: skip
    check([step], tensors, {"c": c}, ["x", "m"] if mask == "m" else ["x"])


@pytest.mark.parametrize("residual", ["", "r"])
@pytest.mark.parametrize("weighted", [False, True], ids=["bare", "weighted"])
def test_layer_norm(x_grid: Codes | None, y_grid: Codes | None, residual: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    constants = {name: rng.standard_normal(40).astype(np.float32) for name in "wb"} if weighted else {}
    step = LayerNorm("n", ("n",), "x", "y", *("wb" if weighted else ("", "")), 1e-12, residual)
    tensors = [
        tensor("x", (2, 3, 40), x_grid), tensor("y", (2, 3, 40), y_grid), tensor("r", (2, 3, 40), UNSIGNED),
    ]  # fmt: skip
    check([step], tensors, constants, ["x", "r"] if residual else ["x"])


@pytest.mark.parametrize("b_shape", [(3, 8, 20), (2, 3, 8, 20), (8, 20), (1, 1, 8, 20)], ids=str)
def test_matmul(y_grid: Codes | None, b_shape: tuple[int, ...]) -> None:
    epilogue = Epilogue("m", low=None if y_grid else -2.0)
    step = MatMul("p", ("p",), "x", "z", "y", epilogue)
    tensors = [
        tensor("x", (2, 3, 5, 8), SIGNED), tensor("z", b_shape, UNSIGNED), tensor("y", (2, 3, 5, 20), y_grid),
    ]  # fmt: skip
    check([step], tensors, {"m": np.float32([0.003])}, ["x", "z"])


def heads(scores: Codes | None, mask: str, tokens: int, width: int, y: Codes | None = UNSIGNED) -> Plan:
    """Heads split, transposed, multiplied, normalized and put together again."""
    batch, count = 2, 3
    whole, split = (batch, tokens, count * width), (batch, tokens, count, width)
    turned, square = (batch, count, tokens, width), (batch, count, tokens, tokens)
    steps: list[Step] = []
    tensors = [tensor(n, whole, SIGNED) for n in "qkv"] + [tensor("y", whole, y)]
    tensors.append(tensor("mask", (batch, 1, 1, tokens), None))
    for name in "qkv":
        perm = (0, 2, 3, 1) if name == "k" else (0, 2, 1, 3)
        shape = tuple(split[i] for i in perm)
        tensors += [tensor(f"{name}1", split, SIGNED), tensor(f"{name}2", shape, SIGNED)]
        steps += [
            Reshape(f"r{name}", (), name, f"{name}1"),
            Transpose(f"t{name}", (), f"{name}1", f"{name}2", perm),
        ]
    low, high = (-90, 100) if scores else (None, None)
    steps += [
        MatMul("qk", (), "q2", "k2", "s", Epilogue("m", low=low, high=high)),
        Softmax("soft", (), "s", "p", -1, 0.7, mask),
        MatMul("pv", (), "p", "v2", "o", Epilogue("m")),
        Transpose("back", (), "o", "o1", (0, 2, 1, 3)),
        Reshape("join", (), "o1", "y"),
    ]
    tensors += [
        tensor("s", square, scores), tensor("p", square, WEIGHTS), tensor("o", turned, y),
        tensor("o1", split, y),
    ]  # fmt: skip
    constants = {"m": np.float32([0.002])}
    inputs = ("q", "k", "v", *((mask,) if mask else ()))
    return Plan(tuple(steps), {t.name: t for t in tensors}, constants, inputs, ("y",))


KERNELS = [k.name for k in kernel_list() if k.family == "matmul" and k.available]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("tokens", "width"), [(11, 8), (1, 5), (150, 16), (64, 64)], ids=str)
@pytest.mark.parametrize("mask", ["", "mask"], ids=["bare", "masked"])
@pytest.mark.parametrize("scores", [None, SIGNED], ids=["float_steps", "codes"])
def test_attention(
    monkeypatch: pytest.MonkeyPatch, kernel: str, tokens: int, width: int, mask: str, scores: Codes | None
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    check_plan(heads(scores, mask, tokens, width))


def test_attention_to_reals() -> None:
    check_plan(heads(None, "", 9, 4, y=None))


def test_attention_runs_as_one_step_unless_its_scores_are_asked_for() -> None:
    plan = heads(None, "", 9, 4)
    shapes = {name: plan.tensors[name].shape for name in plan.inputs}
    fused = [s.name for s in Engine(plan).prepare(shapes).bound.labels if s]
    assert "pv" in fused and not {"qk", "soft"} & set(fused)
    with_sums = replace(plan, outputs=("y", "s"))
    assert {"pv", "qk", "soft"} <= {s.name for s in Engine(with_sums).prepare(shapes).bound.labels if s}
    feeds = {name: np.zeros(shape, np.int8) for name, shape in shapes.items()}
    assert {"s", "p"} <= set(Engine(plan).tap(feeds))


@pytest.mark.parametrize("second", [False, True], ids=["one", "two"])
def test_layer_norm_makes_reals_and_codes_in_one_step(x_grid: Codes | None, second: bool) -> None:
    steps: list[Step] = [
        LayerNorm("norm", (), "x", "n", "", "", 1e-5, "r"),
        Quantize("codes", (), "n", "c"),
        Function("f", (), "c", "g", "gelu"),
        Binary("sum", (), "add", "n", "g", "y"),
    ]
    shape = (2, 3, 40)
    grids = {"x": x_grid, "r": UNSIGNED, "n": None, "c": SIGNED, "d": UNSIGNED, "g": None, "y": None}
    if second:
        steps[2:2] = [Quantize("again", (), "n", "d")]
        steps[3:4] = [Binary("f", (), "mul", "c", "d", "g")]
    plan = Plan(
        tuple(steps),
        {name: tensor(name, shape, grid) for name, grid in grids.items()},
        {},
        ("x", "r"),
        ("y",),
    )
    check_plan(plan)
    labels = [s.name for s in Engine(plan).prepare({"x": shape, "r": shape}).bound.labels if s]
    assert "norm" in labels and "codes" not in labels
    assert ("again" in labels) == second


@pytest.mark.parametrize("shape", [(40,), (1, 1, 40)], ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["norm first", "constant first"])
def test_layer_norm_makes_codes_of_its_product_with_a_vector(shape: tuple[int, ...], turned: bool) -> None:
    a, b = ("w", "n") if turned else ("n", "w")
    steps: list[Step] = [
        LayerNorm("norm", (), "x", "n", "", "", 1e-5),
        Binary("smoothed", (), "mul", a, b, "c"),
        Binary("sum", (), "add", "n", "c", "y"),
    ]
    grids = {"x": None, "n": None, "c": SIGNED, "y": None}
    factors = np.exp2(np.arange(40) % 5 - 2).astype(np.float32).reshape(shape)
    tensors = {name: tensor(name, (2, 3, 40), grid) for name, grid in grids.items()}
    plan = Plan(tuple(steps), tensors, {"w": factors}, ("x",), ("y",))
    check_plan(plan)
    assert "smoothed" not in [s.name for s in Engine(plan).prepare({"x": (2, 3, 40)}).bound.labels if s]


def test_products_that_are_no_layer_norms_own_run_by_themselves() -> None:
    """By another tensor, by a constant that varies along other axes, and to floats."""
    rows, vector = np.ones((3, 1), np.float32), np.ones(40, np.float32)
    for b, constants, grid in (
        ("x", {}, SIGNED), ("w", {"w": rows}, SIGNED), ("w", {"w": vector}, None),
    ):  # fmt: skip
        steps: list[Step] = [
            LayerNorm("norm", (), "x", "n", "", "", 1e-5),
            Binary("product", (), "mul", "n", b, "c"),
            Binary("sum", (), "add", "n", "c", "y"),
        ]
        grids = {"x": None, "n": None, "c": grid, "y": None}
        tensors = {name: tensor(name, (2, 3, 40), g) for name, g in grids.items()}
        plan = Plan(tuple(steps), tensors, constants, ("x",), ("y",))
        check_plan(plan)
        assert "product" in [s.name for s in Engine(plan).prepare({"x": (2, 3, 40)}).bound.labels if s]

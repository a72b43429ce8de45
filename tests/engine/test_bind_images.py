"""Steps on planes of codes, bound and run, against the integer reference: every element equal.

Each step stands between a Quantize and a Dequantize; images pass through pools of one pixel besides, so that
they lie channels last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import (
    Add,
    Codes,
    Concat,
    Conv,
    Dequantize,
    Epilogue,
    Pad,
    Pool,
    Quantize,
    Rescale,
    Reshape,
    Resize,
    Slice,
    Step,
    Table,
    Tensor,
    Transpose,
)

SIGNED = Codes(0.05, -3, True, -128, 127)
RELU = Codes(0.04, 0, True, 0, 127)
UNSIGNED = Codes(0.03, 17, False, 0, 255)
GRIDS = [SIGNED, RELU, UNSIGNED]
FULL = [SIGNED, UNSIGNED]
IMAGES = pytest.mark.parametrize("images", [False, True], ids=["rows", "images"])


def names(grids: tuple[Codes, ...]) -> str:
    return "-".join({SIGNED: "signed", RELU: "relu", UNSIGNED: "unsigned"}[g] for g in grids)


EVERY_GRID = pytest.mark.parametrize("grids", [(a, b) for a in GRIDS for b in FULL], ids=names)


def check(
    make: Any, shapes: list[tuple], y: tuple, grids: tuple, images: bool = False, **constants: np.ndarray
) -> None:
    """One step of codes; `make(xs, "y")` makes its record. The last grid is that of y."""
    tensors: dict[str, Tensor] = {}
    steps: list[Step] = []

    def record(name: str, shape: tuple, codes: Codes | None) -> str:
        tensors[name] = Tensor(name, "codes" if codes else "float32", shape, codes)
        return name

    def pool(name: str, shape: tuple, codes: Codes) -> str:
        if not images:
            return name
        image = record(f"{name}.image", shape, codes)
        steps.append(Pool(image, (), name, image, "max", (1, 1)))
        return image

    xs = []
    for i, (shape, codes) in enumerate(zip(shapes, grids, strict=False)):
        real, q = record(f"x{i}", shape, None), record(f"q{i}", shape, codes)
        steps.append(Quantize(q, (), real, q))
        xs.append(pool(q, shape, codes))
    record("y", y, grids[-1])
    steps.append(make(xs, "y"))
    last = pool("y", y, grids[-1])
    steps.append(Dequantize("out", (), last, record("out", y, None)))
    inputs = tuple(f"x{i}" for i in range(len(shapes)))
    plan = Plan(tuple(steps), tensors, constants, inputs, ("out",))
    rng = np.random.default_rng(3)
    arrays = {}
    for name, codes in zip(inputs, grids, strict=False):
        x = (rng.standard_normal(tensors[name].shape) * 4).astype(np.float32)
        arrays[name] = np.abs(x) if codes.low == codes.zero_point else x
    got = Engine(plan, threads=2).run(arrays)["out"]
    np.testing.assert_array_equal(got, evaluate(plan, arrays)["out"])


@EVERY_GRID
@IMAGES
def test_rescale(grids: tuple, images: bool) -> None:
    check(lambda xs, y: Rescale("s", (), xs[0], y), [(2, 5, 7, 6)], (2, 5, 7, 6), grids, images)


@pytest.mark.parametrize("grids", [(SIGNED, RELU, UNSIGNED), (RELU, SIGNED, RELU)], ids=names)
@pytest.mark.parametrize(
    "shapes",
    [((2, 5, 7, 6), (2, 5, 7, 6)), ((2, 5, 7, 6), (1, 5, 1, 1)), ((2, 5, 1, 1), (1, 1, 7, 6))],
    ids=["equal", "channels", "both"],
)
@IMAGES
def test_add(shapes: tuple, grids: tuple, images: bool) -> None:
    check(lambda xs, y: Add("s", (), *xs, y, 0, 100), list(shapes), (2, 5, 7, 6), grids, images)


def test_add_of_another_rank() -> None:
    check(lambda xs, y: Add("s", (), *xs, y), [(2, 3, 4), (4,)], (2, 3, 4), (SIGNED, RELU, UNSIGNED))


@IMAGES
def test_table(images: bool) -> None:
    table = np.random.default_rng(0).permutation(256).astype(np.uint8)
    shape = (2, 5, 7, 6)
    grids = (SIGNED, UNSIGNED)
    check(lambda xs, y: Table("s", (), xs[0], y, "t"), [shape], shape, grids, images, t=table)


@pytest.mark.parametrize("grids", [(SIGNED, SIGNED), (RELU, RELU), (RELU, SIGNED)], ids=names)
@pytest.mark.parametrize("ceil_mode", [False, True], ids=["floor", "ceil"])
def test_max_pool(grids: tuple, ceil_mode: bool) -> None:
    y = Codes(grids[0].scale, grids[0].zero_point, True, grids[1].low, grids[1].high)
    size = (5, 4) if ceil_mode else (4, 4)
    pool = lambda xs, name: Pool("s", (), xs[0], name, "max", (3, 2), (2, 2), (1, 1), (1, 0, 0, 1), ceil_mode)  # noqa: E731
    check(pool, [(2, 21, 9, 7)], (2, 21, *size), (grids[0], y))


@EVERY_GRID
@pytest.mark.parametrize("include", [False, True], ids=["inside", "padded"])
def test_mean_pool(grids: tuple, include: bool) -> None:
    def pool(xs: list[str], y: str) -> Pool:
        return Pool("s", (), xs[0], y, "average", (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), True, include)

    check(pool, [(2, 21, 9, 8)], (2, 21, 5, 5), grids)


@EVERY_GRID
def test_global_mean(grids: tuple) -> None:
    check(lambda xs, y: Pool("s", (), xs[0], y, "average"), [(2, 70, 5, 3)], (2, 70, 1, 1), grids)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@IMAGES
def test_concat(axis: int, images: bool) -> None:
    shapes = [[2, 5, 7, 6] for _ in range(3)]
    for i, shape in enumerate(shapes):
        shape[axis] += i
    y = [2, 5, 7, 6]
    y[axis] = sum(shape[axis] for shape in shapes)
    grids = (SIGNED, RELU, UNSIGNED, SIGNED)
    make = lambda xs, name: Concat("s", (), tuple(xs), name, axis)  # noqa: E731
    check(make, [tuple(s) for s in shapes], tuple(y), grids, images)


@pytest.mark.parametrize("shape", [(2, 30, 7), (2, 210), (5, 2, 7, 6)], ids=str)
@IMAGES
def test_reshape(shape: tuple, images: bool) -> None:
    images = images and len(shape) == 4
    make = lambda xs, y: Reshape("s", (), xs[0], y)  # noqa: E731
    check(make, [(2, 5, 7, 6)], shape, (SIGNED, SIGNED), images)


def test_reshape_behind_an_image() -> None:
    def make(xs: list[str], y: str) -> Reshape:
        return Reshape("s", (), xs[0], y)

    tensors = {
        "x": Tensor("x", "codes", (2, 5, 4, 3), SIGNED),
        "p": Tensor("p", "codes", (2, 5, 4, 3), SIGNED),
        "y": Tensor("y", "codes", (2, 60), SIGNED),
    }
    steps = (Pool("p", (), "x", "p", "max", (1, 1)), make(["p"], "y"))
    plan = Plan(steps, tensors, {}, ("x",), ("y",))
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 4, 3)).astype(np.int8)
    np.testing.assert_array_equal(Engine(plan).run({"x": x})["y"], x.reshape(2, 60))


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (3, 1, 0, 2), (0, 1, 3, 2)], ids=str)
@IMAGES
def test_transpose(perm: tuple, images: bool) -> None:
    shape = (2, 5, 7, 6)
    y = tuple(shape[i] for i in perm)
    check(lambda xs, n: Transpose("s", (), xs[0], n, perm), [shape], y, (RELU, RELU), images)


@pytest.mark.parametrize(
    ("starts", "steps"), [((0, 1, 2, 0), (1, 1, 2, 3)), ((1, 4, 6, 5), (-1, -2, -3, -1))]
)
@IMAGES
def test_slice(starts: tuple, steps: tuple, images: bool) -> None:
    y = np.zeros((2, 5, 7, 6))[tuple(slice(a, None, s) for a, s in zip(starts, steps, strict=True))].shape
    make = lambda xs, n: Slice("s", (), xs[0], n, starts, steps)  # noqa: E731
    check(make, [(2, 5, 7, 6)], y, (SIGNED, SIGNED), images)


@pytest.mark.parametrize("grid", GRIDS, ids=["signed", "relu", "unsigned"])
@IMAGES
def test_pad(grid: Codes, images: bool) -> None:
    pads = ((0, 0), (1, 2), (2, 0), (0, 3))
    make = lambda xs, y: Pad("s", (), xs[0], y, pads)  # noqa: E731
    check(make, [(2, 5, 7, 6)], (2, 8, 9, 9), (grid, grid), images)


@IMAGES
def test_resize(images: bool) -> None:
    make = lambda xs, y: Resize("s", (), xs[0], y, (2, 3), ("rows", "columns"))  # noqa: E731
    rows, columns = np.arange(14) // 2, np.array([5, 0, 2, 2])
    check(make, [(2, 5, 7, 6)], (2, 5, 14, 4), (SIGNED, SIGNED), images, rows=rows, columns=columns)


@settings(deadline=None, max_examples=40)
@given(
    channels=st.integers(2, 80),
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    kernel=st.sampled_from([(3, 3), (5, 5), (3, 1)]),
    stride=st.integers(1, 2),
    grids=st.tuples(*[st.sampled_from(GRIDS)] * 2, st.sampled_from(FULL)),
    activation=st.sampled_from(["", "", "silu", "relu"]),
)
def test_depthwise(
    channels: int, size: tuple, kernel: tuple, stride: int, grids: tuple, activation: str
) -> None:
    rng = np.random.default_rng(channels)
    pads = tuple(k // 2 for k in kernel) * 2
    y = tuple((s + 2 * p - k) // stride + 1 for s, p, k in zip(size, pads[:2], kernel, strict=True))
    gain = 2.0**-14 if activation else 2.0**-9
    constants = {
        "w": rng.integers(-128, 128, (channels, *kernel, 1)).astype(np.int8),
        "m": (rng.standard_normal(channels) * gain).astype(np.float32),
        "b": rng.standard_normal(channels).astype(np.float32),
        "i": rng.integers(-999, 999, channels).astype(np.int32),
    }
    bounds = (None, None) if activation else (2, 99)
    factor = float(np.float32(0.7 * gain * 512))

    def make(xs: list[str], name: str) -> Conv:
        epilogue = Epilogue("m", "b", "i", xs[1], factor, activation, *bounds)
        return Conv("s", (), xs[0], name, "w", epilogue, (stride, stride), (1, 1), pads, channels)

    check(make, [(2, channels, *size), (2, channels, *y)], (2, channels, *y), grids, **constants)

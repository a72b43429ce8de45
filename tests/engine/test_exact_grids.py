"""Grids whose zero point no producer writes: padding is that byte all the same, and proofs have to know it.

Each consumer against the integer reference, compiled, saved and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from intact.engine.build import load
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes, Conv, ConvTranspose, Epilogue, Reinterpret, Tensor
from intact.kernels.registry import kernel_list

ABOVE = (0.01, -50, "int8", 0.6, 0.9)
"""int8 codes of 10 to 40, whose zero point is -50."""
BELOW = (0.1, 255, "uint8", -25.5, -24.0)
"""Bytes up to 15, whose zero point is 255: what 16-bit sums were proved for was 15."""
GRIDS = [ABOVE, BELOW, (0.02, -128, "int8", 2.6, 4.0), (0.02, 127, "int8", -4.5, -2.6)]
SIZE = 12


def narrow(graph: Any, x: str, grid: tuple) -> str:
    """`x`, within a few codes of a grid that do not include its zero point."""
    scale, zero, dtype, low, high = grid
    bounds = graph.constant(np.float32(low)), graph.constant(np.float32(high))
    real = graph.pair(x, scale, zero, dtype)
    return str(graph.pair(graph.node("Clip", real, *bounds), scale, zero, dtype))


def _conv(graph: Any, x: str, y: str, weight: Any = None, **more: Any) -> str:
    w = graph.weight(8, 8, 3, 3) if weight is None else weight
    return str(graph.node("Conv", x, w, pads=[1, 1, 1, 1], **more))


def _heavy(graph: Any) -> str:
    """Weights that fill 16-bit sums as far as their proof lets them."""
    codes = graph.constant(np.full((8, 8, 3, 3), 127, np.int8))
    grid = graph.constant(np.float32(0.001)), graph.constant(np.int8(0))
    return str(graph.node("DequantizeLinear", codes, *grid))


CONSUMERS: dict[str, Callable[[Any, str, str], str]] = {
    "conv": lambda g, x, y: _conv(g, x, y),
    "conv of heavy weights": lambda g, x, y: _conv(g, x, y, _heavy(g)),
    "conv without pads": lambda g, x, y: g.node("Conv", x, g.weight(8, 8, 3, 3)),
    "depthwise": lambda g, x, y: _conv(g, x, y, g.weight(8, 1, 3, 3), group=8),
    "groups": lambda g, x, y: _conv(g, x, y, g.weight(8, 4, 3, 3), group=2),
    "transposed": lambda g, x, y: g.node("ConvTranspose", x, g.weight(8, 8, 3, 3, axis=1), strides=[2, 2]),
    "residual": lambda g, x, y: g.node("Add", _conv(g, x, y), y),
    "linear": lambda g, x, y: g.node("MatMul", x, g.weight(SIZE, 5, axis=1)),
    "matmul": lambda g, x, y: g.node("MatMul", x, y),
    "add": lambda g, x, y: g.node("Add", x, y),
    "mul": lambda g, x, y: g.node("Mul", x, y),
    "average": lambda g, x, y: g.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
    "average with pads": lambda g, x, y: g.node(
        "AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1
    ),
    "max": lambda g, x, y: g.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4),
    "global": lambda g, x, y: g.node("GlobalAveragePool", x),
    "concat": lambda g, x, y: g.node("Concat", x, y, axis=1),
    "pad": lambda g, x, y: g.node("Pad", x, g.ints(0, 0, 1, 2, 0, 0, 2, 1)),
    "padded and mapped": lambda g, x, y: g.node("Sigmoid", g.pair(
        g.node("Pad", x, g.ints(0, 0, 1, 2, 0, 0, 2, 1)), 0.1, 3)),
    "transpose": lambda g, x, y: g.node("Transpose", x, perm=[0, 3, 1, 2]),
    "slice": lambda g, x, y: g.node("Slice", x, g.ints(1), g.ints(7), g.ints(2)),
    "sigmoid": lambda g, x, y: g.node("Sigmoid", x),
    "softmax": lambda g, x, y: g.node("Softmax", x),
    "none": lambda g, x, y: g.node("Identity", x),
}  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS, ids=["above", "below", "lowest", "highest"])
@pytest.mark.parametrize("real", [False, True], ids=["codes", "float_steps"])
@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_zero_point_that_no_producer_writes(qdq, lower_graph, consumer, real, grid, tmp_path):
    graph = qdq()
    x = narrow(graph, graph.input("x", ["n", 8, SIZE, SIZE]), grid)
    y = narrow(graph, graph.input("y", ["n", 8, SIZE, SIZE]), grid)
    consumed = CONSUMERS[consumer](graph, x, y)
    consumed = graph.node("Identity", consumed) if real else graph.pair(consumed, 0.05, 1)
    lowered = lower_graph(graph, consumed, sizes={"n": 2})
    assert any(
        t.codes and t.codes.stored_range != (t.codes.low, t.codes.high) for t in lowered.plan.tensors.values()
    )
    reach_every_code(lowered, tmp_path)


def reach_every_code(lowered: Any, path: Path) -> None:
    """As `exact`, on every code of the grids, from memory and from a file."""
    every = np.linspace(-30, 30, 2 * 8 * SIZE * SIZE, dtype=np.float32).reshape(2, 8, SIZE, SIZE)
    feeds = {"x": every, "y": every[:, :, ::-1].copy()}
    feeds = {name: array for name, array in feeds.items() if name in lowered.plan.inputs}
    engine = Engine(lowered.plan, threads=2)
    want = evaluate(lowered.plan, feeds)
    for name, got in engine.tap(feeds).items():
        np.testing.assert_array_equal(got, want[name], err_msg=name, strict=True)
    engine.save(path / "model.plan")
    for name, got in load(path / "model.plan", threads=1).run(feeds).items():
        np.testing.assert_array_equal(got, want[name], err_msg=name, strict=True)


@pytest.mark.parametrize(("zeros", "signed"), [((0, -5), True), ((-5, 0), True), ((0, 255), False)], ids=str)
def test_codes_reread_under_another_zero_point_keep_their_values(zeros, signed):
    """Not the bytes do: these depend on the zero point."""
    a, b = (Codes(0.1, zero, signed, 3, 90) for zero in zeros)
    tensors = {"x": Tensor("x", "codes", (64,), a), "y": Tensor("y", "codes", (64,), b)}
    plan = Plan((Reinterpret("r", ("r",), "x", "y"),), tensors, {}, ("x",), ("y",))
    x = np.linspace(3, 90, 64).astype(np.int8 if signed else np.uint8)
    assert signed is False or a.offset != b.offset
    np.testing.assert_array_equal(Engine(plan, threads=1).run({"x": x})["y"], x, strict=True)


def two_layers(kind: Any, weight: np.ndarray, grids: tuple, more: tuple, shapes: tuple) -> Plan:
    """Two layers with the same weights, each with an input and an output of its own."""
    out = weight.shape[0]
    constants = {"w": weight, "m": np.full(out, 1e-3, np.float32)}
    tensors, steps = {}, []
    for i, (grid, extra, shape) in enumerate(zip(grids, more, shapes, strict=True)):
        tensors[f"x{i}"] = Tensor(f"x{i}", "codes", (1, weight.shape[-1], 9, 9), grid)
        tensors[f"y{i}"] = Tensor(f"y{i}", "float32", (1, out, *shape))
        steps.append(kind(f"l{i}", (f"l{i}",), f"x{i}", f"y{i}", "w", Epilogue("m"), **extra))
    return Plan(tuple(steps), tensors, constants, ("x0", "x1"), ("y0", "y1"))


def check(plan: Plan, **engine: Any) -> Engine:
    rng = np.random.default_rng(3)
    feeds = {}
    for name in plan.inputs:
        codes = plan.tensors[name].codes
        assert codes is not None
        dtype = np.int8 if codes.signed else np.uint8
        feeds[name] = rng.integers(codes.low, codes.high + 1, plan.tensors[name].shape).astype(dtype)
    native, want = Engine(plan, threads=1, **engine), evaluate(plan, feeds)
    for name, got in native.run(feeds).items():
        np.testing.assert_array_equal(got, want[name], err_msg=name)
    return native


NARROW, WIDE = Codes(0.1, 0, False, 0, 15), Codes(0.1, 0, False, 0, 255)
PADS = {"pads": (1, 1, 1, 1)}


@pytest.mark.parametrize("channels", [8, 64], ids=["gemm", "winograd"])
@pytest.mark.parametrize("order", [(NARROW, WIDE), (WIDE, NARROW)], ids=["narrow first", "wide first"])
def test_layers_of_one_weight_do_not_share_a_proof(order, channels):
    """Weights packed for bytes up to 15 were used for bytes up to 255."""
    weight = np.full((channels, 3, 3, channels), 127, np.int8)
    check(two_layers(Conv, weight, order, (PADS, PADS), ((9, 9), (9, 9))))


def test_layers_of_one_weight_do_not_share_taps():
    """Phases of a transposed convolution are some of the taps: which, depends on pads and strides."""
    weight = np.random.default_rng(1).integers(-127, 128, (6, 4, 4, 5)).astype(np.int8)
    strides = {"strides": (2, 2)}
    more = (strides, {**strides, "pads": (1, 1, 1, 1)}, {"strides": (4, 4)}, {})
    sizes = [(20, 20), (18, 18), (36, 36), (12, 12)]
    for i in range(4):
        for j in range(4):
            check(two_layers(ConvTranspose, weight, (WIDE, WIDE), (more[i], more[j]), (sizes[i], sizes[j])))


def test_layers_of_one_weight_do_not_share_groups():
    weight = np.random.default_rng(1).integers(-127, 128, (6, 3, 3, 2)).astype(np.int8)
    far = {"pads": (2, 2, 2, 2), "dilations": (2, 2)}
    plan = two_layers(Conv, weight, (WIDE, WIDE), (far, {**far, "groups": 3}), ((9, 9), (9, 9)))
    plan.tensors["x1"] = replace(plan.tensors["x1"], shape=(1, 6, 9, 9))
    check(plan)


def test_what_an_old_plan_packed_for_too_few_bytes_is_not_used():
    """Its key was the kernel's name alone, and its bound left the halo out."""
    weight = np.full((8, 3, 3, 8), 127, np.int8)
    plan = two_layers(Conv, weight, (Codes(0.1, 255, False, 0, 15),) * 2, (PADS, PADS), ((9, 9), (9, 9)))
    narrow = two_layers(Conv, weight, (NARROW, NARROW), ({}, {}), ((7, 7), (5, 5)))
    engine = Engine(narrow, threads=1)
    engine.prepare({name: narrow.tensors[name].shape for name in narrow.inputs})
    names = [k.name for k in kernel_list() if k.family == "gemm" and k.available]
    packed = [array for (_, form), array in engine.packed_weights.items() if form.startswith(tuple(names))]
    assert packed
    check(plan, packed={("w", name): packed[0] for name in names})

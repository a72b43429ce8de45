"""Sizes of 0: images without pixels whose halo is read, batches of nothing, windows over nothing.

What the reference computes the engine computes; what it refuses, the engine refuses as an INTact error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import (
    Codes,
    Conv,
    ConvTranspose,
    Epilogue,
    Linear,
    Pool,
    Reshape,
    Step,
    Tensor,
)
from intact.errors import IntactError

GRIDS = [
    Codes(0.05, -3, True, -128, 127), Codes(0.04, 0, True, 0, 127), Codes(0.03, 17, False, 0, 255),
    Codes(0.1, 255, False, 0, 15), Codes(0.1, -7, True, 3, 90), Codes(0.1, 120, True, -100, -3),
]  # fmt: skip


class Draw:
    """Random layers: small, and of sizes of 0 more often than not."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.integer(low, high), self.integer(low, high)

    def size(self) -> int:
        return int(self.rng.choice([0, 0, 1, 2, 5, 9]))

    def grid(self) -> Codes:
        return GRIDS[self.integer(0, len(GRIDS) - 1)]

    def plan(self, step: Step, weight: np.ndarray | None, x: tuple, y: tuple) -> Plan:
        tensors = {"x": Tensor("x", "codes", x, self.grid())}
        constants: dict[str, Any] = {}
        if weight is not None:
            constants = {"w": weight, "m": np.full(weight.shape[0], 3e-4, np.float32)}
        real = weight is not None and self.integer(0, 2) == 0
        maximum = getattr(step, "mode", "") == "max"
        grid = tensors["x"].codes if maximum else GRIDS[0]
        tensors["y"] = Tensor("y", "float32", y) if real else Tensor("y", "codes", y, grid)
        return Plan((step,), tensors, constants, ("x",), ("y",))

    def weight(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-127, 128, shape).astype(np.int8)

    def window(self) -> dict[str, Any]:
        pads = (*self.pair(0, 4), *self.pair(0, 4))
        return {"strides": self.pair(1, 4), "dilations": self.pair(1, 3), "pads": pads}

    def conv(self, depthwise: bool) -> Plan | None:
        kernel, groups, w = self.pair(1, 4), self.integer(1, 2), self.window()
        n, c, size = self.integer(0, 2), self.integer(1, 20), (self.size(), self.size())
        if depthwise:
            groups, c = self.integer(2, 40), 1
        out = groups if depthwise else groups * self.integer(1, 20)
        y = [
            (size[i] + w["pads"][i] + w["pads"][i + 2] - (kernel[i] - 1) * w["dilations"][i] - 1)
            // w["strides"][i] + 1
            for i in range(2)
        ]  # fmt: skip
        step = Conv("l", ("l",), "x", "y", "w", Epilogue("m"), groups=groups, **w)
        shapes = (n, c * groups, *size), (n, out, *y)
        return None if min(y) < 0 else self.plan(step, self.weight(out, *kernel, c), *shapes)

    def conv_transpose(self) -> Plan | None:
        kernel, groups, w = self.pair(1, 4), self.integer(1, 2), self.window()
        n, c, size = self.integer(0, 2), self.integer(1, 20), (self.size(), self.size())
        hops = zip(w["strides"], w["dilations"], strict=True)
        extra = tuple(self.integer(0, max(s, d) - 1) for s, d in hops)
        y = [
            (size[i] - 1) * w["strides"][i] + (kernel[i] - 1) * w["dilations"][i] + 1 + extra[i]
            - w["pads"][i] - w["pads"][i + 2]
            for i in range(2)
        ]  # fmt: skip
        out = 5 * groups
        more = {"groups": groups, "output_padding": (extra[0], extra[1]), **w}
        step = ConvTranspose("l", ("l",), "x", "y", "w", Epilogue("m"), **more)
        shapes = (n, c * groups, *size), (n, out, *y)
        return None if min(y) < 0 else self.plan(step, self.weight(out, *kernel, c), *shapes)

    def pool(self) -> Plan | None:
        w, kernel = self.window(), None if self.integer(0, 3) == 0 else self.pair(1, 4)
        most = [(k - 1) * d for k, d in zip(kernel or (1, 1), w["dilations"], strict=True)] * 2
        w["pads"] = tuple(map(min, w["pads"], most))  # as a step's check wants it
        n, c, size = self.integer(0, 2), self.integer(1, 40), (self.size(), self.size())
        mode = "average" if self.integer(0, 1) else "max"
        step = Pool("l", ("l",), "x", "y", mode, kernel, count_include_pad=bool(self.integer(0, 1)), **w)
        y = [1, 1]
        if kernel is not None:
            y = [
                (size[i] + w["pads"][i] + w["pads"][i + 2] - (kernel[i] - 1) * w["dilations"][i] - 1)
                // w["strides"][i] + 1
                for i in range(2)
            ]  # fmt: skip
        return None if min(y) < 0 else self.plan(step, None, (n, c, *size), (n, c, *y))

    def linear(self) -> Plan:
        rows = tuple(self.integer(0, 3) for _ in range(self.integer(1, 5)))
        step = Linear("l", ("l",), "x", "y", "w", Epilogue("m"))
        return self.plan(step, self.weight(7, 19), (*rows, 19), (*rows, 7))


KINDS = {
    "conv": lambda draw: draw.conv(False), "depthwise": lambda draw: draw.conv(True),
    "transposed": Draw.conv_transpose, "pool": Draw.pool, "linear": Draw.linear,
}  # fmt: skip


def outcome(run: Any) -> np.ndarray | None:
    """Return the outputs; None where it refuses."""
    try:
        return run()["y"]
    except IntactError as error:
        assert "report this model" not in str(error), error
        return None


@pytest.mark.parametrize("isa", ["", "none"], ids=["best", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_nothing(kind, isa, monkeypatch):
    monkeypatch.setenv("INTACT_MAX_ISA", isa)
    plans = [plan for seed in range(120) if (plan := KINDS[kind](Draw(seed))) is not None]
    empty_inputs = 0
    for plan in plans:
        x = plan.tensors["x"]
        assert x.codes is not None
        dtype = np.int8 if x.codes.signed else np.uint8
        values = np.random.default_rng(0).integers(x.codes.low, x.codes.high + 1, x.shape).astype(dtype)
        want = outcome(lambda plan=plan, values=values: evaluate(plan, {"x": values}))
        got = outcome(lambda plan=plan, values=values: Engine(plan, threads=1).run({"x": values}))
        assert (want is None) == (got is None), plan
        if want is not None:
            np.testing.assert_array_equal(got, want, err_msg=str(plan.steps))
            empty_inputs += 0 in x.shape
    assert empty_inputs > 10


@pytest.mark.parametrize("sizes", [(0, 0), (0, 4), (4, 0)], ids=str)
def test_padding_alone_may_be_much_more_than_the_arena_holds_otherwise(sizes):
    """6400 pixels of halo around no pixel: they have memory of their own, and hold the zero point."""
    step = Conv("l", ("l",), "x", "y", "w", Epilogue("m"), pads=(40,) * 4)
    tensors = {
        "x": Tensor("x", "codes", (1, 3, *sizes), Codes(0.1, 11, False, 0, 255)),
        "y": Tensor("y", "float32", (1, 2, sizes[0] + 80, sizes[1] + 80)),
    }
    constants = {"w": np.ones((2, 1, 1, 3), np.int8), "m": np.ones(2, np.float32)}
    engine = Engine(Plan((step,), tensors, constants, ("x",), ("y",)), threads=1)
    assert not engine.run({"x": np.zeros((1, 3, *sizes), np.uint8)})["y"].any()
    tapped = engine.tap({"x": np.zeros((1, 3, *sizes), np.uint8)})
    assert {name: array.shape for name, array in tapped.items()} == {n: t.shape for n, t in tensors.items()}


def test_a_transposed_frame_that_cuts():
    """Pads beyond the kernel's reach take outputs away behind too: the reference kept the wrong ones."""
    step = ConvTranspose("l", ("l",), "x", "y", "w", Epilogue("m"), pads=(1, 2, 3, 1))
    tensors = {
        "x": Tensor("x", "codes", (1, 1, 9, 8), Codes(1.0, 0, False, 0, 255)),
        "y": Tensor("y", "float32", (1, 1, 5, 5)),
    }
    constants = {"w": np.ones((1, 1, 1, 1), np.int8), "m": np.ones(1, np.float32)}
    plan = Plan((step,), tensors, constants, ("x",), ("y",))
    x = np.arange(72, dtype=np.uint8).reshape(1, 1, 9, 8)
    for run in (Engine(plan, threads=1).run, lambda feeds: evaluate(plan, feeds)):
        np.testing.assert_array_equal(run({"x": x})["y"], x[:, :, 1:6, 2:7].astype(np.float32))


@pytest.mark.parametrize(
    ("x", "shape"),
    [((0, 4, 2), (0, 8)), ((0, 4, 0), (0, 0)), ((0, 1, 1), (0, 1)), ((3, 2, 2), (3, 4))],
    ids=str,
)
def test_a_batch_of_nothing_is_flat_as_others_are(x, shape):
    tensors = {"x": Tensor("x", "float32", ("n", "c", "l")), "y": Tensor("y", "float32", ("n", "flat"))}
    plan = Plan((Reshape("r", (), "x", "y"),), tensors, {}, ("x",), ("y",))
    feeds = {"x": np.zeros(x, np.float32)}
    assert Engine(plan).run(feeds)["y"].shape == evaluate(plan, feeds)["y"].shape == shape

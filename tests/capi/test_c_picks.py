"""Kinds of steps that random graphs seldom have, through the C library: the engine's bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.capi.library import CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact.engine.lower import lower
from intact.formats import BLOCK_INPUTS, block_inputs
from intact.numerics import BlockWeights


def top_k(net):
    return net.node("TopK", net.input("x", ("n", 7)), net.ints(3), outputs=2, axis=1)


def scatter_elements(net):
    x, updates = net.input("x", (4, 5)), net.input("updates", (2, 5))
    index = net.constant(np.array([[0, 1, 2, 3, -1], [3, 2, 1, 0, 0]]))
    return [net.node("ScatterElements", x, index, updates, axis=0)]


def scatter_rows(net):
    x, updates = net.input("x", (4, 3, 5)), net.input("updates", (3, 5))
    index = net.constant(np.array([[0, 1], [3, 2], [-1, 0]]))
    return [net.node("ScatterND", x, index, updates)]


def gather_rows(net):
    x = net.input("x", (4, 3, 5))
    return [net.node("GatherND", x, net.input("index", ("n", 2), onnx.TensorProto.INT64))]


def grid_sample(net):
    x, grid = net.input("x", ("n", 2, 5, 4)), net.input("grid", ("n", 3, 6, 2))
    return [net.node("GridSample", x, grid, mode="linear", padding_mode="border")]


def expand(net):
    return [net.node("Expand", net.input("x", ("n", 1, 3)), net.ints(2, 1, 5, 3))]


def interpolate(net):
    x = net.input("x", ("n", 2, 4, 6))
    scales = net.constant(np.array([1, 1, 2, 1.5], np.float32))
    return [net.node("Resize", x, "", scales, mode="linear")]


def codes_in_and_out(net):
    x = net.dequantize(net.input("x", ("n", 3, 8, 8), onnx.TensorProto.INT8))
    return [net.quantize(net.node("Relu", net.conv(x, 3, 4)))]


def block_product(net, name, x_block):
    """A product with codes that are indices of 16 values."""
    codes = net.rng.integers(0, 16, (20, 64), np.uint8)
    scales = net.rng.uniform(-1, 1, (20, 2)).astype(np.float32)
    arrays, attributes = block_inputs(BlockWeights(codes, name, scales, 32))
    operands = [net.constant(arrays[part]) if part in arrays else "" for part in BLOCK_INPUTS]
    net.domains["intact"] = 1
    x = net.input("x", ("n", 64))
    y = net.node("BlockLinear", x, *operands, domain="intact", x_block=x_block, **attributes)
    return [net.node("Cast", y, to=onnx.TensorProto.FLOAT)]  # ONNX does not know what ours makes


def block_float_linear(net):
    return block_product(net, "nf4", 0)


def block_linear(net):
    return block_product(net, "iq4", 32)


GRAPHS = {
    "top_k": top_k, "scatter_elements": scatter_elements, "scatter_rows": scatter_rows,
    "gather_rows": gather_rows, "grid_sample": grid_sample, "expand": expand, "interpolate": interpolate,
    "conv": codes_in_and_out, "block_float_linear": block_float_linear, "block_linear": block_linear,
}  # fmt: skip


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_kind_has_the_engines_bits(kind, c_library, tmp_path):
    net = Qdq()
    plan = lower(net.proto(*GRAPHS[kind](net)))
    assert kind in {step.kind for step in plan.steps}
    engine, opened = save_plan(plan, tmp_path / "plan"), CPlan(c_library, tmp_path / "plan")
    for n in (3, 1):
        feeds = net.feeds({"n": n})
        if "index" in feeds:
            feeds["index"] = feeds["index"] % 3
        want, got = engine.run(feeds), opened.run(feeds)
        assert {k: (v.dtype, v.shape, v.tobytes()) for k, v in got.items()} == {
            k: (v.dtype, v.shape, v.tobytes()) for k, v in want.items()
        }

"""Floats in and out where the plan has codes: the numbers of QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.capi.library import CError, CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact import numerics
from intact.engine.compare.c_interface import BAD_ARGUMENT, NOT_PREPARED
from intact.engine.lower import lower

INT8, UINT8 = onnx.TensorProto.INT8, onnx.TensorProto.UINT8
SHAPES = {"image": ("n", 3, 8, 8), "rows": ("n", 12), "volume": ("n", 2, 3, 2, 2)}


def codes_of(floats, grid):
    """Codes of floats (N11; N16 of a NaN)."""
    numbers = np.where(np.isnan(floats), np.float32(0), floats)
    codes = numerics.quantize(numbers, *grid.affine, grid.spec)
    return np.where(np.isnan(floats), grid.low, codes).astype(np.int8 if grid.signed else np.uint8)


def codes_plan(path, shape, kind):
    """A plan with codes in and out, and its engine."""
    net = Qdq()
    dtype, zero = ("int8", -3) if kind == INT8 else ("uint8", 117)
    x = net.dequantize(net.input("x", SHAPES[shape], kind), 0.05, zero, dtype)
    if shape == "image":
        y = net.node("Relu", net.conv(x, 3, 4))
    elif shape == "rows":
        y = net.node("MatMul", x, net.weight(12, 5, axis=None))
    else:
        y = net.node("Relu", x)
    plan = lower(net.proto(net.quantize(y, 0.0625, zero, dtype)))
    return plan, save_plan(plan, path)


@pytest.mark.parametrize("kind", [INT8, UINT8], ids=["int8", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 3, 0])
def test_floats_become_codes_and_codes_floats_as_the_grid_says(c_library, tmp_path, shape, kind, n):
    plan, engine = codes_plan(tmp_path / "plan", shape, kind)
    grids = [plan.tensors[name].codes for name in (*plan.inputs, *plan.outputs)]
    assert all(grid is not None for grid in grids)
    rng, sizes = np.random.default_rng(n), (n, *SHAPES[shape][1:])
    floats = (rng.standard_normal(sizes) * 300 * grids[0].scale).astype(np.float32)
    if floats.size:
        halves = np.arange(-8, 8, dtype=np.float32) * np.float32(0.5 * grids[0].scale)
        floats.reshape(-1)[: min(16, floats.size)] = halves[: floats.size]
        floats.reshape(-1)[-3:] = [np.inf, -np.inf, np.nan]
    codes = codes_of(floats, grids[0])
    want = engine.run({"x": codes})[plan.outputs[0]]

    opened = CPlan(c_library, tmp_path / "plan")
    opened.set_type("input", 0, "float32")
    np.testing.assert_array_equal(opened.run({"x": floats})[plan.outputs[0]], want)
    opened.set_type("output", 0, "float32")
    got = opened.run({"x": floats})[plan.outputs[0]]
    assert got.dtype == np.float32
    assert got.tobytes() == numerics.dequantize(want, *grids[1].affine, grids[1].spec).tobytes()
    opened.set_type("input", 0, "int8" if kind == INT8 else "uint8")
    assert opened.run({"x": codes})[plan.outputs[0]].tobytes() == got.tobytes()


def test_a_type_is_set_before_the_sizes(c_library, tmp_path):
    plan, _ = codes_plan(tmp_path / "plan", "rows", INT8)
    opened = CPlan(c_library, tmp_path / "plan")
    opened.prepare([(1, 12)])
    opened.set_type("input", 0, "int8")  # as it was: the session stays prepared
    x = np.zeros((1, 12), np.int8)
    assert opened.prepare([(1, 12)]) == [(1, 5)]
    opened.set_type("input", 0, "float32")
    with pytest.raises(CError) as caught:
        opened.call("output_shape", opened._session, 0, None)
    assert caught.value.status == BAD_ARGUMENT
    with pytest.raises(CError, match="not prepared") as caught:
        opened.call("run", opened._session, None, None)
    assert caught.value.status == NOT_PREPARED
    assert opened.run({"x": x.astype(np.float32)})[plan.outputs[0]].shape == (1, 5)


def test_other_types_are_refused(c_library, tmp_path):
    codes_plan(tmp_path / "codes", "rows", INT8)
    net = Qdq()
    save_plan(lower(net.proto(net.node("Relu", net.input("x", (2, 3))))), tmp_path / "floats")
    codes, floats = CPlan(c_library, tmp_path / "codes"), CPlan(c_library, tmp_path / "floats")
    floats.set_type("input", 0, "float32")
    for opened, kind, index, dtype in (
        (codes, "input", 0, "uint8"), (codes, "output", 0, "float64"), (codes, "output", 1, "int8"),
        (codes, "input", 7, "float32"), (floats, "input", 0, "int8"),
    ):  # fmt: skip
        with pytest.raises(CError) as caught:
            opened.set_type(kind, index, dtype)
        assert caught.value.status == BAD_ARGUMENT
    for kind in ("input", "output"):
        with pytest.raises(CError) as caught:
            codes.call(f"set_{kind}_type", None, 0, 8)
        assert caught.value.status == BAD_ARGUMENT
        with pytest.raises(CError) as caught:
            codes.call(f"set_{kind}_type", codes._session, 0, -1)
        assert caught.value.status == BAD_ARGUMENT

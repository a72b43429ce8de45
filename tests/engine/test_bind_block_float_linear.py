"""Products of floats with block weights equal the integer reference in every bit, by every kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact import numerics
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import BlockFloatLinear, Tensor
from intact.graph import Session
from intact.kernels import kernel_list

KERNELS = [k.name for k in kernel_list() if k.family in ("block_gemm", "float_gemm") and k.available]


def plan_of(
    rng: np.random.Generator, rows: int, k: int, n: int, bits: int, block: int, offsets: str, bias: bool,
    table: NDArray[np.float32] | None = None,
) -> Plan:  # fmt: skip
    blocks = -(-k // block)
    constants: dict[str, Any] = {
        "w": numerics.join_stream(rng.integers(0, 2**bits, (n, k), np.uint8), bits, 1),
        "s": rng.normal(0, 0.02, (n, blocks)).astype(np.float32),
    }
    optional = {}
    if table is not None:
        constants["t"] = table
        optional["table"] = "t"
    if "z" in offsets:
        constants["z"] = rng.integers(0, 2**bits, (n, blocks), np.uint8)
        optional["zero_points"] = "z"
    if "m" in offsets:
        constants["m"] = rng.normal(0, 0.1, (n, blocks)).astype(np.float32)
        optional["minima"] = "m"
    if "l" in offsets:
        supers = 1 if blocks % 2 else blocks // 2
        constants["s"] = constants["s"][:, :supers].astype(np.float16).astype(np.float32)
        constants["m"] = rng.normal(0, 1e-3, (n, supers)).astype(np.float32)
        constants |= {name: rng.integers(-128, 128, (n, blocks)).astype(np.int8) for name in ("ss", "sm")}
        optional |= {"minima": "m", "sub_scales": "ss", "sub_minima": "sm"}
    if bias:
        constants["b"] = rng.normal(0, 1, n).astype(np.float32)
        optional["bias"] = "b"
    step = BlockFloatLinear(
        "product", ("product",), "x", "y", weight="w", scales="s", inputs=k, bits=bits, block=block,
        **optional,
    )  # fmt: skip
    tensors = [Tensor("x", "float32", (rows, k)), Tensor("y", "float32", (rows, n))]
    return Plan((step,), {t.name: t for t in tensors}, constants, ("x",), ("y",))


def check(plan: Plan, rng: np.random.Generator, threads: int = 2) -> None:
    x = rng.normal(0, 1, plan.tensors["x"].shape).astype(np.float32)
    got, want = Engine(plan, threads=threads).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
    np.testing.assert_array_equal(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bits", [2, 4, 5, 6, 8])
@pytest.mark.parametrize("offsets", ["", "z", "m", "zm", "l"])
def test_every_kernel(kernel: str, bits: int, offsets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    rng = np.random.default_rng(bits)
    for rows, k, n, block in [
        (1, 64, 33, 32),
        (3, 300, 130, 24),
        (14, 9, 3, 16),
        (100, 136, 65, 136),
        (2, 1056, 40, 32),
        (4, 128, 40, 8),
        (9, 1056, 40, 32),
        (6, 1088, 20, 16),
        (0, 8, 8, 8),
    ]:
        check(plan_of(rng, rows, k, n, bits, block, offsets, bias=rows % 2 == 1), rng)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["nf4", "fp4e2m1", "reals"])
@pytest.mark.parametrize("offsets", ["", "m", "l"])
def test_tables_by_every_kernel(
    kernel: str, name: str, offsets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    rng = np.random.default_rng(len(name))
    table = numerics.code_values(name) if name != "reals" else rng.normal(0, 1, 16).astype(np.float32)
    for rows, k, n, block in [
        (1, 64, 33, 32),
        (3, 300, 130, 24),
        (4, 9, 3, 16),
        (100, 136, 65, 136),
        (2, 1056, 40, 32),
        (14, 1056, 40, 8),
    ]:
        check(plan_of(rng, rows, k, n, 4, block, offsets, rows % 2 == 1, table), rng)


@pytest.mark.parametrize("threads", [1, 8])
def test_threads_change_no_bit(threads: int) -> None:
    rng = np.random.default_rng(0)
    check(plan_of(rng, 200, 520, 200, 4, 40, "z", bias=True), rng, threads)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("form", ["MatMul", "Gemm"])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
def test_blocked_dequantize_linear_stays_in_its_bits(transposed: bool, form: str, dtype: int) -> None:
    rng = np.random.default_rng(1)
    k, n, block = 96, 40, 32
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[dtype]
    shape, axis = ((n, k), 1) if transposed else ((k, n), 0)
    codes = rng.integers(low, high, shape)
    scales = rng.normal(0, 0.05, tuple(m // block if at == axis else m for at, m in enumerate(shape)))
    constants = [
        helper.make_tensor("w", dtype, shape, codes.reshape(-1)),
        numpy_helper.from_array(scales.astype(np.float32), "s"),
    ]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"], name="dq", axis=axis, block_size=block)]
    if form == "Gemm":
        nodes.append(helper.make_node("Gemm", ["x", "f"], ["y"], name="product", transB=int(transposed)))
    else:
        if transposed:
            nodes.append(helper.make_node("Transpose", ["f"], ["t"], name="turn", perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["x", "t" if transposed else "f"], ["y"], name="product"))
    model = onnx_model(nodes, {"x": ["rows", k]}, {"y": ["rows", n]}, constants, opset=21)
    plan = lower(model)
    assert [step.kind for step in plan.steps] == ["block_float_linear"]
    for rows in (1, 7):
        x = rng.normal(0, 1, (rows, k)).astype(np.float32)
        got, want = Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
        np.testing.assert_array_equal(got, want)
        expected = Session(model.SerializeToString()).run({"x": x})["y"]
        # ONNX Runtime multiplies such files by accuracy level 4, with activations of 8 bits.
        np.testing.assert_allclose(want, expected, rtol=0, atol=0.02 * np.abs(expected).max())

"""Codes that are indices of 16 values stay 4 bits in plans, with the numbers of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact import load
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.errors import IntactError
from intact.formats import BLOCK_INPUTS, block_inputs
from intact.graph import Constants, Session, read_block_weight, strip_dynamic
from intact.graph import load as load_model
from intact.numerics import BlockWeights, code_values, dequantize_blocks, join_stream

K, N, BLOCK = 96, 20, 32


def runtime_model(op_type: str, constants: dict[str, Any], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(
        op_type, ["x", *constants], ["y"], name="product", domain="com.microsoft", K=K, N=N, **attributes
    )
    return onnx_model(
        [node], {"x": ["rows", K]}, {"y": ["rows", N]}, constants, opset=21, domains={"com.microsoft": 1}
    )


def bnb4_model(block: int, quant_type: int, scale: str = "float32") -> onnx.ModelProto:
    rng = np.random.default_rng(block)
    constants = {
        "w": rng.integers(0, 256, N * K // 2, np.uint8),
        "s": rng.uniform(-1, 1, -(-N * K // block)).astype(scale),
    }
    return runtime_model("MatMulBnb4", constants, block_size=block, quant_type=quant_type)


def table_weights(name: str) -> BlockWeights:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (N, K), np.uint8)
    return BlockWeights(codes, name, rng.uniform(-1, 1, (N, K // BLOCK)).astype(np.float32), BLOCK)


def own_model(op_type: str, weights: BlockWeights, **changes: Any) -> onnx.ModelProto:
    """A BlockLinear or BlockGather; `changes` are arrays or attributes."""
    arrays, attributes = block_inputs(weights)
    numbers = {key: changes.pop(key) for key in list(changes) if isinstance(changes[key], int)}
    arrays |= changes
    last = max(map(BLOCK_INPUTS.index, arrays))
    names = [name if name in arrays else "" for name in BLOCK_INPUTS[: last + 1]]
    node = helper.make_node(
        op_type, ["x", *names], ["y"], name="product", domain="intact", **(attributes | numbers)
    )
    is_gather = op_type == "BlockGather"
    x = (TensorProto.INT64, ["rows"]) if is_gather else (TensorProto.FLOAT, ["rows", K])
    columns = K if is_gather else N
    return onnx_model([node], {"x": x}, {"y": ["rows", columns]}, arrays, opset=21, domains={"intact": 1})


def run(plan: Plan, x: NDArray[Any]) -> NDArray[np.float32]:
    """Return what the engine and the reference both make."""
    got, want = Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
    assert got.tobytes() == want.tobytes()
    return np.asarray(got)


def codes_of(plan: Plan) -> tuple[int, NDArray[np.uint8]]:
    step: Any = next(step for step in plan.steps if hasattr(step, "bits"))
    return step.bits, plan.constants[step.weight]


@pytest.mark.rule("N70")
@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize("block", [16, 32])
def test_matmul_bnb4_has_the_floats_of_onnx_runtime(block: int, quant_type: int) -> None:
    model = bnb4_model(block, quant_type)
    plan = lower(model)
    assert [step.kind for step in plan.steps] == ["block_float_linear"]
    assert "floats of weights of 4 bits (indices of 16 values) with a scale per" in plan.layers[0].reason
    assert codes_of(plan)[1].nbytes == N * K // 2
    session = Session(model.SerializeToString())
    unit = np.eye(K, dtype=np.float32)  # each sum has one term
    np.testing.assert_array_equal(run(plan, unit), session.run({"x": unit})["y"])
    x = np.random.default_rng(0).normal(0, 2, (3, K)).astype(np.float32)
    np.testing.assert_allclose(run(plan, x), session.run({"x": x})["y"], rtol=0, atol=1e-5 * K)
    floats = load_model(model)
    strip_dynamic(floats)
    assert [node.op_type for node in floats.graph] == ["MatMul"]


def test_blocks_over_the_ends_of_rows_run_elsewhere() -> None:
    plan = lower(bnb4_model(64, 1))
    assert [step.kind for step in plan.steps] == ["onnx"]


@pytest.mark.parametrize("name", ["nf4", "iq4", "fp4e2m1"])
@pytest.mark.parametrize("x_block", [0, BLOCK])
def test_block_linear_with_a_table(name: str, x_block: int) -> None:
    weights = table_weights(name)
    model = own_model("BlockLinear", weights, x_block=x_block)
    if name == "nf4" and x_block:
        with pytest.raises(IntactError, match="product"):
            lower(model)
        return
    plan = lower(model)
    assert codes_of(plan)[0] == 4
    x = np.random.default_rng(1).normal(0, 2, (5, K)).astype(np.float32)
    expected = x.astype(np.float64) @ dequantize_blocks(weights).T.astype(np.float64)
    tolerance = 2e-2 if x_block else 1e-6
    np.testing.assert_allclose(run(plan, x), expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", ["nf4", "iq4", "fp4e2m1"])
def test_rows_of_a_table_of_indices(name: str) -> None:
    weights = table_weights(name)
    plan = lower(own_model("BlockGather", weights))
    x = np.array([3, -1, 0, N - 1])
    assert run(plan, x).tobytes() == dequantize_blocks(weights)[x].tobytes()


def test_known_tables_are_read_as_their_format() -> None:
    for name in ("nf4", "iq4", "fp4e2m1"):
        model = load_model(own_model("BlockLinear", table_weights(name)))
        (node,) = model.graph
        assert read_block_weight(node, Constants(model.graph)).format == name


@pytest.mark.parametrize(
    "change",
    [
        {"table": np.zeros(15, np.float32)},
        {"table": np.zeros(16)},
        {"table": np.zeros((4, 4), np.float32)},
        {"bits": 3, "codes": np.zeros((N, K * 3 // 8), np.uint8)},
        {"zero_points": np.zeros((N, K // BLOCK), np.uint8)},
    ],
)
def test_a_table_that_does_not_fit_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(IntactError, match="product"):
        lower(own_model("BlockLinear", table_weights("iq4"), **change))


@pytest.mark.parametrize("count", [16, 17])
@pytest.mark.parametrize("level", [0, 4])
def test_bytes_of_few_values_take_four_bits(count: int, level: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.permutation(256)[:count].astype(np.uint8)
    codes = values[np.resize(rng.permutation(np.arange(N * K) % count), (N, K))]
    constants = {
        "w": codes.reshape(N, K // BLOCK, BLOCK),
        "s": rng.uniform(-0.1, 0.1, (N, K // BLOCK)).astype(np.float32),
    }
    model = runtime_model("MatMulNBits", constants, bits=8, block_size=BLOCK, accuracy_level=level)
    plan = lower(model)
    bits, stored = codes_of(plan)
    assert (bits, stored.nbytes) == ((4, N * K // 2) if count == 16 else (8, N * K))
    x = rng.normal(0, 2, (5, K)).astype(np.float32)
    expected = Session(model.SerializeToString()).run({"x": x})["y"]
    np.testing.assert_allclose(run(plan, x), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_dequantized_bytes_of_few_values_take_four_bits() -> None:
    rng = np.random.default_rng(0)
    codes = rng.choice(np.array([-128, -3, 0, 5, 127], np.int8), (N, K))
    constants = [
        numpy_helper.from_array(codes, "w"),
        numpy_helper.from_array(rng.uniform(0.01, 0.1, (N, K // BLOCK)).astype(np.float32), "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], name="dq", axis=1, block_size=BLOCK),
        helper.make_node("Gemm", ["x", "f"], ["y"], name="product", transB=1),
    ]
    plan = lower(onnx_model(nodes, {"x": ["rows", K]}, {"y": ["rows", N]}, constants, opset=21))
    assert (codes_of(plan)[0], [step.kind for step in plan.steps]) == (4, ["block_float_linear"])
    run(plan, rng.normal(0, 2, (5, K)).astype(np.float32))


def test_a_plan_file_has_the_table_once(tmp_path: Path) -> None:
    """Codes and values are in the file; another table is other weights, and no value of it can do harm."""
    weights = table_weights("nf4")
    plan, x = lower(own_model("BlockLinear", weights)), np.ones((2, K), np.float32)
    engine, path = Engine(plan), tmp_path / "model.plan"
    want = engine.run({"x": x})["y"]
    engine.save(path)
    content, table = path.read_bytes(), code_values("nf4")
    assert table is not None
    assert content.count(table.tobytes()) == 1
    assert content.count(join_stream(weights.codes, 4, 1).tobytes()) == 1
    assert load(path).run({"x": x})["y"].tobytes() == want.tobytes()
    path.write_bytes(content.replace(table.tobytes(), np.full(16, np.nan, np.float32).tobytes()))
    with pytest.raises(IntactError, match=r"codes\.table"):
        load(path).run({"x": x})

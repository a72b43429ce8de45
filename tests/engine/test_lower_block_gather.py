"""Gathers of tables in blocks become native steps that read low bits, with the numbers of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.engine import load
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import BlockGather, FallbackSubgraph, Tensor
from intact.errors import QuantValueError
from intact.graph import Session
from intact.numerics import code_values, join_stream

ROWS, K = 21, 80


def four_bits(name: str, values: NDArray[Any], dtype: str) -> onnx.TensorProto:
    return helper.make_tensor(
        name, TensorProto.INT4 if dtype == "int4" else TensorProto.UINT4, values.shape, values.reshape(-1)
    )


def draw_codes(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    low = -8 if dtype == "int4" else -128 if dtype == "int8" else 0
    count = 16 if dtype.endswith("4") else 256
    return rng.integers(low, low + count, shape).astype(np.int8 if dtype.startswith("i") else np.uint8)


def tensor_of(name: str, values: NDArray[Any], dtype: str) -> onnx.TensorProto:
    return four_bits(name, values, dtype) if dtype.endswith("4") else numpy_helper.from_array(values, name)


def gather_model(
    rng: np.random.Generator, dtype: str, shape: tuple[int, ...], axes: tuple[int, int], block: int,
    zero: bool, index: tuple[Any, ...], bits: int = 4,
) -> onnx.ModelProto:  # fmt: skip
    """Return a GatherBlockQuantized; of uint8 the codes have `bits` bits and are packed."""
    rank = len(shape)
    blocks = tuple(-(-n // block) if at == axes[1] % rank else n for at, n in enumerate(shape))
    scales = rng.normal(0, 0.05, blocks).astype(np.float32)
    if dtype == "uint8":
        fields = rng.integers(0, 2**bits, shape, np.uint8)
        constants = [numpy_helper.from_array(join_stream(fields, bits, 1), "w")]
        zeros = rng.integers(0, 2**bits, blocks, np.uint8)
        points = numpy_helper.from_array(join_stream(zeros, bits, 1), "z")
    else:
        constants = [four_bits("w", draw_codes(rng, shape, dtype), dtype)]
        points = four_bits("z", draw_codes(rng, blocks, dtype), dtype)
    constants += [numpy_helper.from_array(scales, "s"), *([points] if zero else [])]
    inputs = ["w", "i", "s", *(["z"] if zero else [])]
    node = helper.make_node(
        "GatherBlockQuantized", inputs, ["y"], name="gather", domain="com.microsoft", gather_axis=axes[0],
        quantize_axis=axes[1], block_size=block, **({"bits": bits} if dtype == "uint8" else {}),
    )  # fmt: skip
    gathered = axes[0] % rank
    sizes = [*shape[:gathered], *index, *shape[gathered + 1 :]]
    return onnx_model(
        [node],
        {"i": (TensorProto.INT64, list(index))},
        {"y": sizes},
        constants,
        opset=21,
        domains={"com.microsoft": 1},
    )


RUNTIME = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
"""Version of ONNX Runtime: 1.24 reads packed codes of 2 bits, and zero points of 4, otherwise."""


def check(model: onnx.ModelProto, kinds: list[str], index: NDArray[Any], in_runtime: bool = True) -> Plan:
    """The plan has these steps, and engine, reference and file agree in every bit."""
    plan = lower(model)
    assert [step.kind for step in plan.steps] == kinds
    feeds = {"i": index}
    got, want = Engine(plan).run(feeds)["y"], evaluate(plan, feeds)["y"]
    np.testing.assert_array_equal(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))
    if in_runtime:
        np.testing.assert_array_equal(want, Session(model.SerializeToString()).run(feeds)["y"])
    return plan


@pytest.mark.parametrize(
    ("dtype", "bits"), [("int4", 4), ("uint4", 4), ("uint8", 2), ("uint8", 4), ("uint8", 8)]
)
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("block", [16, 32, 128])
def test_rows_of_a_table(dtype: str, bits: int, zero: bool, block: int) -> None:
    rng = np.random.default_rng(block)
    model = gather_model(rng, dtype, (ROWS, K), (0, 1), block, zero, ("batch", 3), bits)
    in_runtime = dtype != "uint8" or bits == 8 or RUNTIME >= (1, 32)
    plan = check(model, ["block_gather"], rng.integers(-ROWS, ROWS, (2, 3)), in_runtime)
    assert all(array.dtype != np.float32 or array.size < ROWS * K for array in plan.constants.values())


@pytest.mark.parametrize("index", [(), (4,), (2, 3)])
@pytest.mark.parametrize(
    ("shape", "axes", "steps"),
    [
        ((ROWS, 4, 32), (0, 2), ["block_gather", "reshape"]),
        ((32, ROWS), (1, 0), ["block_gather", "transpose"]),
        ((ROWS, 64, 3), (-3, -2), ["block_gather", "reshape", "transpose"]),
        ((3, ROWS, 64), (1, 2), ["block_gather", "reshape", "transpose"]),
        ((2, ROWS, 1, 48), (1, 3), ["onnx"]),  # rows that end within a block
        ((32, ROWS), (0, 0), ["onnx"]),
    ],
)
def test_any_axes(
    shape: tuple[int, ...], axes: tuple[int, int], steps: list[str], index: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    model = gather_model(rng, "int4", shape, axes, 32, True, index)
    plan = lower(model)
    kinds = [step.kind for step in plan.steps]
    if not index and axes[1] != -2:  # a row alone is in order
        steps = [kind for kind in steps if kind != "transpose"]
    assert kinds == steps
    check(model, kinds, rng.integers(-shape[axes[0]], shape[axes[0]], index))


def dequantize_nodes(
    rng: np.random.Generator, dtype: str, block: int, per: str, zero: bool, axis: int = 0
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return a DequantizeLinear of a table, "floats", and its constants."""
    shape = {"block": (ROWS, -(-K // block)), "row": (ROWS,), "tensor": ()}[per]
    constants = [
        tensor_of("w", draw_codes(rng, (ROWS, K), dtype), dtype),
        numpy_helper.from_array(rng.normal(0, 0.05, shape).astype(np.float32), "s"),
    ]
    if zero:
        constants.append(tensor_of("z", draw_codes(rng, shape, dtype), dtype))
    attributes = {"block": {"axis": 1, "block_size": block}, "row": {"axis": axis}, "tensor": {}}[per]
    inputs = ["w", "s", *(["z"] if zero else [])]
    return [helper.make_node("DequantizeLinear", inputs, ["floats"], name="dq", **attributes)], constants


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("per", ["block", "row", "tensor"])
@pytest.mark.parametrize("zero", [False, True])
def test_tables_behind_dequantize_linear(dtype: str, per: str, zero: bool) -> None:
    rng = np.random.default_rng(3)
    nodes, constants = dequantize_nodes(rng, dtype, 16, per, zero)
    nodes.append(helper.make_node("Gather", ["floats", "i"], ["y"], name="gather"))
    model = onnx_model(nodes, {"i": (TensorProto.INT64, ["n"])}, {"y": ["n", K]}, constants, opset=21)
    check(model, ["block_gather"], rng.integers(-ROWS, ROWS, 9))


def test_scales_of_columns_stay_floats() -> None:
    rng = np.random.default_rng(3)
    codes = draw_codes(rng, (ROWS, K), "int8")
    constants = {"w": codes, "s": rng.normal(0, 0.05, K).astype(np.float32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["floats"], name="dq", axis=1),
        helper.make_node("Gather", ["floats", "i"], ["y"], name="gather"),
    ]
    model = onnx_model(nodes, {"i": (TensorProto.INT64, ["n"])}, {"y": ["n", K]}, constants, opset=21)
    check(model, ["gather"], rng.integers(-ROWS, ROWS, 9))


@pytest.mark.parametrize("bits", [4, 8])
def test_a_tied_head_shares_the_table(bits: int, tmp_path: Path) -> None:
    """A table that is gathered from and multiplied by is once in the plan, and once in memory."""
    rng = np.random.default_rng(5)
    model = gather_model(rng, "uint8", (ROWS, K), (0, 1), 16, False, ("n",), bits)
    table = numpy_helper.to_array(model.graph.initializer[0])
    constants = [
        *model.graph.initializer,
        numpy_helper.from_array(table.reshape(ROWS, K // 16, 2 * bits), "head"),
        numpy_helper.from_array(numpy_helper.to_array(model.graph.initializer[1]), "head_scales"),
    ]
    (gather,) = model.graph.node
    gather.output[:] = ["rows"]
    head = helper.make_node(
        "MatMulNBits", ["rows", "head", "head_scales"], ["y"], name="head", domain="com.microsoft", K=K,
        N=ROWS, bits=bits, block_size=16, accuracy_level=4,
    )  # fmt: skip
    whole = onnx_model(
        [gather, head], {"i": (TensorProto.INT64, ["n"])}, {"y": ["n", ROWS]}, constants, opset=21,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    plan = lower(whole)
    assert [step.kind for step in plan.steps] == ["block_gather", "dynamic_quantize", "block_linear"]
    assert len(plan.constants) == 2
    feeds, few = {"i": np.arange(ROWS)}, {"i": np.array([3, -1])}
    engine = Engine(plan)
    for each in (feeds, few):  # the second sizes find panels
        np.testing.assert_array_equal(engine.run(each)["y"], evaluate(plan, each)["y"])
    engine.save(tmp_path / "tied.plan")
    saved = (tmp_path / "tied.plan").read_bytes()
    (panels,) = (
        array for (_, form), array in engine.packed_weights.items() if form == f"block_codes_{K}x{bits}"
    )
    assert (saved.count(table.tobytes()), saved.count(panels.tobytes())) == (0, 1)
    np.testing.assert_array_equal(load(tmp_path / "tied.plan").run(feeds)["y"], evaluate(plan, feeds)["y"])


def test_explain_says_what_keeps_a_table_elsewhere() -> None:
    plan = lower(gather_model(np.random.default_rng(0), "int4", (32, ROWS), (0, 0), 16, False, (2,)))
    (step,) = plan.steps
    assert isinstance(step, FallbackSubgraph)
    assert "its blocks go along the axis that it gathers along" in step.reason


@pytest.mark.parametrize(("bits", "has_table"), [*((bits, False) for bits in range(2, 9)), (4, True)])
@pytest.mark.parametrize("k", [1, 7, 33, 64])
@pytest.mark.parametrize("has_levels", [False, True])
def test_any_bits_with_minima(bits: int, has_table: bool, k: int, has_levels: bool) -> None:
    rng = np.random.default_rng(bits)
    blocks = -(-k // 16)
    constants = {
        "w": join_stream(rng.integers(0, 2**bits, (ROWS, k), np.uint8), bits, 1),
        "s": rng.normal(0, 0.05, (ROWS, blocks)).astype(np.float32),
        "z": rng.integers(0, 2**bits, (ROWS, blocks), np.uint8),
        "m": rng.normal(0, 1, (ROWS, blocks)).astype(np.float32),
    }
    names = {}
    if has_levels:
        names = {"sub_scales": "ss", "sub_minima": "sm"}
        constants |= {name: rng.integers(-128, 128, (ROWS, blocks)).astype(np.int8) for name in ("ss", "sm")}
        supers = 2 if blocks % 2 == 0 else 1
        constants |= {name: constants[name][:, :supers].copy() for name in ("s", "m")}
    if has_table:
        constants["t"] = code_values("nf4")
        names |= {"table": "t"}
    else:
        names |= {"zero_points": "z"}
    step = BlockGather(
        "rows", ("rows",), "i", "y", weight="w", scales="s", inputs=k, bits=bits, block=16,
        minima="m", **names,
    )  # fmt: skip
    tensors = {"i": Tensor("i", "int32", (3, 5)), "y": Tensor("y", "float32", (3, 5, k))}
    plan = Plan((step,), tensors, constants, ("i",), ("y",))
    feeds = {"i": rng.integers(-ROWS, ROWS, (3, 5)).astype(np.int32)}
    np.testing.assert_array_equal(Engine(plan).run(feeds)["y"], evaluate(plan, feeds)["y"])


@pytest.mark.parametrize("index", [[0, ROWS], [-ROWS - 1, 2]])
def test_an_index_out_of_range_is_named(index: list[int]) -> None:
    plan = lower(gather_model(np.random.default_rng(0), "int4", (ROWS, K), (0, 1), 16, False, ("n",)))
    for run in (Engine(plan).run, lambda feeds: evaluate(plan, feeds)):
        with pytest.raises(QuantValueError, match="'i'"):
            run({"i": np.array(index)})


def test_no_index_gathers_nothing() -> None:
    plan = lower(gather_model(np.random.default_rng(0), "int4", (ROWS, K), (0, 1), 16, False, ("n", 2)))
    assert Engine(plan).run({"i": np.zeros((0, 2), np.int64)})["y"].shape == (0, 2, K)

"""Products with dynamic ranges and with block weights become native steps, with the numbers of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import BlockLinear
from intact.errors import IntactError
from intact.graph import Session
from intact.numerics import BlockWeights, dequantize_blocks, join_stream, split_stream

K, N = 72, 24


def runtime_node(op_type: str, inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, ["y"], name="product", domain="com.microsoft", **attributes)


def model_of(nodes: list[onnx.NodeProto], constants: dict[str, Any]) -> onnx.ModelProto:
    return onnx_model(
        nodes, {"x": ["rows", K]}, {"y": ["rows", N]}, constants, opset=21, domains={"com.microsoft": 1}
    )


def nbits_model(
    rng: np.random.Generator,
    bits: int,
    block: int,
    level: int,
    zeros: str,
    bias: bool,
    scale: str = "float32",
) -> onnx.ModelProto:
    blocks = -(-K // block)
    codes = rng.integers(0, 2**bits, (N, blocks * block), np.uint8)
    constants: dict[str, Any] = {
        "w": join_stream(codes, bits, 1).reshape(N, blocks, block * bits // 8),
        "s": rng.uniform(-0.05, 0.05, (N, blocks)).astype(scale),
    }
    inputs = ["x", "w", "s"]
    if zeros == "codes":
        constants["z"] = join_stream(rng.integers(0, 2**bits, (N, blocks), np.uint8), bits, 1)
    elif zeros == "floats":
        constants["z"] = rng.uniform(0, 2**bits - 1, (N, blocks)).astype(scale)
    if bias:
        constants["b"] = rng.normal(0, 1, N).astype(np.float32)
    inputs += ["z" if zeros else "", "", "b"] if bias else ["z"] if zeros else []
    attributes = {"K": K, "N": N, "bits": bits, "block_size": block, "accuracy_level": level}
    return model_of([runtime_node("MatMulNBits", inputs, **attributes)], constants)


def check(model: onnx.ModelProto, kinds: list[str], tolerance: float) -> Plan:
    """The plan has these steps, the engine the reference's bits, and both the file's numbers."""
    plan = lower(model)
    assert [step.kind for step in plan.steps] == kinds
    rng = np.random.default_rng(7)
    for rows in (1, 5):
        x = rng.normal(0, 2, (rows, K)).astype(np.float32)
        got, want = Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
        np.testing.assert_array_equal(got, want)
        expected = Session(model.SerializeToString()).run({"x": x})["y"]
        np.testing.assert_allclose(want, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    return plan


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("zeros", ["", "codes"])
def test_matmul_nbits_of_codes(bits: int, block: int, zeros: str) -> None:
    model = nbits_model(np.random.default_rng(block), bits, block, 4, zeros, bias=bits == 4)
    in_codes = (bits, block) != (2, 16)
    # ONNX Runtime 1.24 multiplies 2 bits in floats unless K is a multiple of larger blocks.
    tolerance = 2e-2 if bits == 2 else 3e-6
    plan = check(
        model, ["dynamic_quantize", "block_linear"] if in_codes else ["block_float_linear"], tolerance
    )
    weight = plan.constants[plan.steps[-1].weight]  # type: ignore[attr-defined]
    assert weight.nbytes == N * K * bits // 8


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("zeros", ["", "codes", "floats"])
def test_matmul_nbits_of_floats(level: int, zeros: str) -> None:
    kind = "float_linear" if zeros == "floats" else "block_float_linear"
    plan = check(nbits_model(np.random.default_rng(1), 4, 32, level, zeros, bias=True), [kind], 3e-6)
    assert (max(array.nbytes for array in plan.constants.values()) < N * K) == (zeros != "floats")


@pytest.mark.parametrize("zeros", ["", "codes", "floats"])
@pytest.mark.parametrize("level", [0, 4])
def test_blocks_in_an_order_of_their_own(zeros: str, level: int) -> None:
    """With codes for zero points ONNX Runtime ignores these, and computes the layer itself."""
    model = nbits_model(np.random.default_rng(0), 4, 32, level, zeros, bias=False)
    order = np.random.default_rng(1).permutation(np.arange(K) // 32).astype(np.int32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(order, "order"))
    product = model.graph.node[0]
    product.input[:] = [*product.input[:3], "z" if zeros else "", "order"]
    check(model, ["onnx" if zeros == "codes" else "float_linear"], 3e-6)


def test_neighbours_that_an_order_names_are_plain_blocks() -> None:
    model = nbits_model(np.random.default_rng(0), 4, 32, 4, "", bias=False)
    order = (np.arange(K) // 32).astype(np.int32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(order, "order"))
    product = model.graph.node[0]
    product.input[:] = [*product.input[:3], "", "order"]
    assert [step.kind for step in lower(model).steps] == ["dynamic_quantize", "block_linear"]


@pytest.mark.parametrize("level", [0, 4])
def test_a_bias_behind_is_added_last(level: int) -> None:
    rng = np.random.default_rng(0)
    model = nbits_model(rng, 4, 32, level, "", bias=False)
    product = model.graph.node[0]
    product.output[:] = ["product"]
    nodes = [product, helper.make_node("Add", ["product", "bias"], ["y"], name="biased")]
    constants = [*model.graph.initializer]
    bias = onnx.numpy_helper.from_array(rng.normal(0, 1, N).astype(np.float32), "bias")
    whole = onnx_model(
        nodes, {"x": ["rows", K]}, {"y": ["rows", N]}, [*constants, bias], opset=21,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    kinds = ["dynamic_quantize", "block_linear"] if level else ["block_float_linear", "binary"]
    check(whole, kinds, 3e-6)


def test_layers_that_read_the_same_share_its_codes() -> None:
    rng = np.random.default_rng(0)
    model, other = (nbits_model(rng, 4, 32, 4, "", bias=False) for _ in range(2))
    nodes = [*model.graph.node, *other.graph.node]
    renamed = {"w": "w2", "s": "s2"}
    nodes[1].input[:] = [renamed.get(name, name) for name in nodes[1].input]
    for node, output in zip(nodes, ("first", "second"), strict=True):
        node.output[:] = [output]
        node.name = output
    constants = [*model.graph.initializer, *other.graph.initializer]
    for tensor in other.graph.initializer:
        tensor.name = renamed[tensor.name]
    joined = onnx_model(
        [*nodes, helper.make_node("Add", ["first", "second"], ["y"], name="sum")],
        {"x": ["rows", K]}, {"y": ["rows", N]}, constants, opset=21, domains={"com.microsoft": 1},
    )  # fmt: skip
    check(joined, ["dynamic_quantize", "block_linear", "block_linear", "binary"], 3e-6)


def test_equal_bytes_of_other_bits_are_packed_apart() -> None:
    """Codes of 4 and of 8 bits are the same constant, and no more than that."""
    rng = np.random.default_rng(0)
    first, second = (nbits_model(rng, bits, 16, 4, "", bias=False) for bits in (4, 8))
    codes = rng.integers(0, 256, (N, -(-K // 16), 16), np.uint8)
    first.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(codes.reshape(N, -1, 8), "w"))
    second.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(codes, "w2"))
    second.graph.initializer[1].name = "s2"
    wide, narrow = first.graph.node[0], second.graph.node[0]
    first.graph.initializer[1].CopyFrom(
        onnx.numpy_helper.from_array(np.full((N, 2 * -(-K // 16)), 0.5, np.float32), "s")
    )
    wide.attribute[[a.name for a in wide.attribute].index("K")].i = 2 * -(-K // 16) * 16
    narrow.input[:] = ["x", "w2", "s2"]
    narrow.attribute[[a.name for a in narrow.attribute].index("K")].i = -(-K // 16) * 16
    wide.input[0], wide.output[:], wide.name = "both", ["first"], "wide"
    narrow.output[:] = ["second"]
    size = -(-K // 16) * 16
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["both"], axis=1, name="both"), wide, narrow,
        helper.make_node("Add", ["first", "second"], ["y"], name="sum"),
    ]  # fmt: skip
    model = onnx_model(
        nodes, {"x": ["rows", size]}, {"y": ["rows", N]},
        [*first.graph.initializer, *second.graph.initializer], opset=21, domains={"com.microsoft": 1},
    )  # fmt: skip
    plan = lower(model)
    assert len({step.weight for step in plan.steps if isinstance(step, BlockLinear)}) == 1
    x = rng.normal(0, 1, (3, size)).astype(np.float32)
    np.testing.assert_array_equal(Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"])


def integer_constants(rng: np.random.Generator, dtype: str, per_column: bool, zero: bool) -> dict[str, Any]:
    limits = np.iinfo(dtype)
    count = (N,) if per_column else ()
    constants: dict[str, NDArray[Any]] = {
        "w": rng.integers(limits.min, limits.max + 1, (K, N)).astype(dtype),
        "s": rng.uniform(0.001, 0.02, count).astype(np.float32),
        "b": rng.normal(0, 1, N).astype(np.float32),
    }
    if zero:
        constants["z"] = rng.integers(limits.min, limits.max + 1, count).astype(dtype)
    return constants


def quantize_node() -> onnx.NodeProto:
    return helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"], name="quantize")


def product_nodes(zero: Sequence[str] = ()) -> list[onnx.NodeProto]:
    """Write a product as ONNX Runtime's quantize_dynamic does: "scaled", and "f" before its scale."""
    return [
        quantize_node(),
        helper.make_node("MatMulInteger", ["q", "w", "xz", *zero], ["i"], name="sums"),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Mul", ["xs", "s"], ["both"], name="scales"),
        helper.make_node("Mul", ["f", "both"], ["scaled"], name="scaled"),
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("per_column", [True, False])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("form", ["nodes", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_products_with_one_dynamic_range(dtype: str, per_column: bool, zero: bool, form: str) -> None:
    constants = integer_constants(np.random.default_rng(3), dtype, per_column, zero)
    z = ["z"] if zero else [""]
    if form == "nodes":
        nodes = [
            *product_nodes(z if zero else []),
            helper.make_node("Add", ["scaled", "b"], ["y"], name="biased"),
        ]
    elif form == "MatMulIntegerToFloat":
        nodes = [quantize_node(), runtime_node(form, ["q", "w", "xs", "s", "xz", *z, "b"])]
    else:
        nodes = [runtime_node(form, ["x", "w", "s", *z, "b"])]
    check(model_of(nodes, constants), ["dynamic_quantize", "block_linear"], 1e-6)


def test_a_file_without_the_runtimes_operators_gets_them() -> None:
    """The domain is imported where a rewrite brings its first operator."""
    constants = integer_constants(np.random.default_rng(3), "int8", True, False)
    nodes = [*product_nodes(), helper.make_node("Det", ["scaled"], ["y"], name="outside")]
    model = onnx_model(nodes, {"x": ["rows", K]}, {"y": []}, constants, opset=21)
    kinds = [step.kind for step in lower(model).steps]
    assert kinds == ["dynamic_quantize", "block_linear", "onnx"]


def test_half_precision_has_its_shapes() -> None:
    """No kernel multiplies float16, but what stands behind it knows its sizes."""
    rng = np.random.default_rng(0)
    model = nbits_model(rng, 4, 32, 4, "", bias=False, scale="float16")
    product = model.graph.node[0]
    product.input[0], product.output[:] = "h", ["p"]
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16, name="narrow"), product,
        helper.make_node("Cast", ["p"], ["f"], to=TensorProto.FLOAT, name="wide"),
        helper.make_node("Relu", ["f"], ["y"], name="relu"),
    ]  # fmt: skip
    whole = onnx_model(
        nodes, {"x": ["rows", K]}, {"y": ["rows", N]}, [*model.graph.initializer], opset=21,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    assert "function" in [step.kind for step in lower(whole).steps]


def test_constant_codes_run_elsewhere() -> None:
    constants = integer_constants(np.random.default_rng(3), "int8", True, False)
    constants |= {"q": np.ones((4, K), np.uint8), "xs": np.float32(0.1), "xz": np.uint8(3)}
    nodes = [runtime_node("MatMulIntegerToFloat", ["q", "w", "xs", "s", "xz"])]
    nodes[0].output[:] = ["p"]
    nodes.append(helper.make_node("Add", ["p", "p2"], ["y"], name="sum"))
    nodes.insert(0, helper.make_node("ReduceSum", ["x"], ["p2"], keepdims=1, name="total"))
    model = onnx_model(nodes, {"x": [4, K]}, {"y": [4, N]}, constants, opset=21, domains={"com.microsoft": 1})
    assert "block_linear" not in [step.kind for step in lower(model).steps]


def test_a_constant_scale_of_codes_that_are_none() -> None:
    """A range that is constant is an operand as any other."""
    constants = integer_constants(np.random.default_rng(3), "uint8", True, True)
    constants |= {"xs": np.float32(0.1), "xz": np.uint8(3)}
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=TensorProto.UINT8, name="cast"),
        runtime_node("MatMulIntegerToFloat", ["q", "w", "xs", "s", "xz", "z", "b"]),
    ]
    model = model_of(nodes, constants)
    plan = lower(model)
    assert "block_linear" in [step.kind for step in plan.steps]
    x = np.random.default_rng(0).integers(0, 255, (3, K)).astype(np.float32)
    got, want = Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
    np.testing.assert_array_equal(got, want)
    expected = Session(model.SerializeToString()).run({"x": x})["y"]
    np.testing.assert_allclose(want, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_a_sum_with_other_readers_stays() -> None:
    """An integer sum that somebody else reads is no layer's own."""
    constants = integer_constants(np.random.default_rng(3), "int8", True, False)
    nodes = [*product_nodes(), helper.make_node("Add", ["scaled", "f"], ["y"], name="sum")]
    plan = lower(model_of(nodes, constants))
    assert "block_linear" not in [step.kind for step in plan.steps]


def own_model(x_block: int, bias: bool = False, **changes: Any) -> onnx.ModelProto:
    """A BlockLinear with codes of 5 bits, zero points and minima, in blocks of 24; `changes` adds levels."""
    rng, form = np.random.default_rng(5), {"K": K, "bits": 5, "block": 24, "x_block": x_block}
    form |= {key: changes.pop(key) for key in list(changes) if key in form}
    constants = {
        "w": join_stream(rng.integers(0, 32, (N, K), np.uint8), 5, 1),
        "s": rng.normal(0, 0.05, (N, 3)).astype(np.float16), "z": rng.integers(0, 32, (N, 3), np.uint8),
        "m": rng.normal(0, 1, (N, 3)).astype(np.float32), "b": rng.normal(0, 1, N).astype(np.float32),
        **changes,
    }  # fmt: skip
    y, inputs = "p" if bias else "y", ["x", "w", "s", "z", "m"]
    inputs += ["", *(name if name in constants else "" for name in ("ss", "sm"))] if "ss" in constants else []
    nodes = [helper.make_node("BlockLinear", inputs, [y], name="product", domain="intact", **form)]
    if bias:
        nodes.append(helper.make_node("Add", ["p", "b"], ["y"], name="bias"))
    return onnx_model(
        nodes, {"x": ["rows", K]}, {"y": ["rows", N]}, constants, opset=21, domains={"intact": 1}
    )


@pytest.mark.rule("N69")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("x_block", [0, 8, 24, 72])
@pytest.mark.parametrize("levels", [(), ("ss",), ("ss", "sm")], ids=str)
def test_block_linear_with_minima(x_block: int, bias: bool, levels: tuple[str, ...]) -> None:
    rng = np.random.default_rng(8)
    integers: dict[str, Any] = {name: rng.integers(-128, 128, (N, 3)).astype(np.int8) for name in levels}
    if levels:
        integers["s"] = rng.normal(0, 1e-3, (N, 1)).astype(np.float32)
    if "sm" in levels:
        integers["m"] = rng.normal(0, 0.02, (N, 1)).astype(np.float32)
    model = own_model(x_block, bias, **integers)
    plan = lower(model)
    in_codes, in_floats = ["dynamic_quantize", "block_linear"], ["block_float_linear", *["binary"] * bias]
    assert [step.kind for step in plan.steps] == (in_codes if x_block else in_floats)
    x = np.random.default_rng(7).normal(0, 2, (5, K)).astype(np.float32)
    got, want = Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"]
    np.testing.assert_array_equal(got, want)
    constants = {value.name: onnx.numpy_helper.to_array(value) for value in model.graph.initializer}
    codes = split_stream(constants["w"], 5, K)
    floats, minima = (
        constants[name] * constants.get(f"s{name}", np.int8(1)).astype(np.float32) for name in "sm"
    )
    weights = BlockWeights(codes, "uint5", floats, 24, constants["z"], minima)
    expected = x.astype(np.float64) @ dequantize_blocks(weights).T.astype(np.float64)
    expected += constants["b"] if bias else 0
    tolerance = 2e-2 if x_block else 1e-6
    np.testing.assert_allclose(want, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    "change",
    [
        {"bits": 9}, {"bits": 0}, {"K": 80}, {"K": -1}, {"block": 0}, {"block": 12},
        {"block": 36, "x_block": 24},
        {"s": np.ones((N, 2), np.float32)}, {"z": np.ones(N, np.uint8)}, {"m": np.ones((N, 3), np.int32)},
        {"w": np.ones((N, 45), np.int8)}, {"s": np.ones((N, 3), np.int8)}, {"x_block": -1},
        {"ss": np.ones((N, 3), np.int8), "s": np.ones((N, 2), np.float32)}, {"ss": np.ones((N, 3), np.int32)},
        {"ss": np.ones((N, 2), np.int8)}, {"ss": np.ones((N, 3), np.int8), "s": np.ones((N, 3), np.int8)},
    ],
    ids=str,
)  # fmt: skip
def test_a_block_linear_that_does_not_fit_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(IntactError, match="product"):
        lower(own_model(change.pop("x_block", 8), **change))


def test_the_error_says_why_no_step_fits() -> None:
    halves: dict[str, Any] = {"s": np.ones((N, 2), np.float16), "z": np.ones((N, 2), np.uint8)}
    model = own_model(24, block=36, **halves, m=np.ones((N, 2), np.float32))
    with pytest.raises(IntactError, match="blocks of 36 and 24"):
        lower(model)

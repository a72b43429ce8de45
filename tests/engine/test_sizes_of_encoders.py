"""Sizes reach the last layer of a deep network whose products have codes, by whatever names a file has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from tests.onnx_models import onnx_model

from intact import graph, numerics
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph.ops import MICROSOFT

WIDTH, HEADS, LAYERS = 32, 4, 7


def encoder(product: str, *, names: str = "") -> ModelProto:
    """Layers that split heads by their input's shape; `names` begins the names of inner sizes in the file."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    constants: dict[str, Any] = {
        "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "free": np.int64([-1]),
        "heads": np.int64([HEADS]), "width": np.int64([WIDTH]), "s": np.float32(0.02), "z": np.uint8(100),
    }  # fmt: skip
    values = []
    x = "x"
    for at in range(LAYERS):

        def name(what: str, at: int = at) -> str:
            return f"{what}{at}"

        nodes += _product(product, rng, x, name("p"), constants)
        nodes += [
            helper.make_node("Shape", [x], [name("shape")]),
            helper.make_node("Slice", [name("shape"), "zero", "one"], [name("b")]),
            helper.make_node("Slice", [name("shape"), "one", "two"], [name("n")]),
            helper.make_node("Concat", [name("b"), name("n"), "heads", "free"], [name("apart")], axis=0),
            helper.make_node("Reshape", [name("p"), name("apart")], [name("h")]),
            helper.make_node("Transpose", [name("h")], [name("t")], perm=[0, 2, 1, 3]),
            helper.make_node("Softmax", [name("t")], [name("w")]),
            helper.make_node("Transpose", [name("w")], [name("u")], perm=[0, 2, 1, 3]),
            helper.make_node("Concat", [name("b"), name("n"), "width"], [name("whole")], axis=0),
            helper.make_node("Reshape", [name("u"), name("whole")], [name("r")]),
            helper.make_node("Add", [name("r"), x], [name("x")]),
        ]
        if names:
            sizes = [f"{names}{2 * at}", f"{names}{2 * at + 1}", WIDTH]
            values += [helper.make_tensor_value_info(name(v), 1, sizes) for v in ("p", "r", "x")]
        x = name("x")
    nodes[-1].output[0] = "y"
    ports = {"x": ["batch", "tokens", WIDTH]}, {"y": [None, None, WIDTH]}
    return onnx_model(
        nodes, *ports, constants, opset=17, domains={MICROSOFT: 1},
        values=[value for value in values if value.name != x],
    )  # fmt: skip


def _product(kind: str, rng: np.random.Generator, x: str, y: str, constants: dict[str, Any]) -> list[Any]:
    if kind == "MatMulNBits":
        constants[f"{y}.w"] = numerics.join_stream(
            rng.integers(0, 16, (WIDTH, WIDTH), np.uint8), 4, 1
        ).reshape(WIDTH, 1, WIDTH // 2)
        constants[f"{y}.s"] = rng.uniform(0.01, 0.02, WIDTH).astype(np.float32)
        sizes = {"K": WIDTH, "N": WIDTH, "bits": 4, "block_size": 32, "accuracy_level": 4}
        return [helper.make_node(kind, [x, f"{y}.w", f"{y}.s"], [y], name=y, domain=MICROSOFT, **sizes)]
    constants[f"{y}.w"] = rng.integers(0, 256, (WIDTH, WIDTH)).astype(np.uint8)
    if kind == "DynamicQuantizeMatMul":
        return [helper.make_node(kind, [x, f"{y}.w", "s", "z"], [y], name=y, domain=MICROSOFT)]
    return [
        helper.make_node("DynamicQuantizeLinear", [x], [f"{y}.q", f"{y}.qs", f"{y}.qz"]),
        helper.make_node("MatMulInteger", [f"{y}.q", f"{y}.w", f"{y}.qz", "z"], [f"{y}.acc"], name=y),
        helper.make_node("Cast", [f"{y}.acc"], [f"{y}.f"], to=1),
        helper.make_node("Mul", [f"{y}.qs", "s"], [f"{y}.m"]),
        helper.make_node("Mul", [f"{y}.f", f"{y}.m"], [y]),
    ]


@pytest.mark.parametrize("names", ["", "unk__"])
@pytest.mark.parametrize("product", ["MatMulInteger", "DynamicQuantizeMatMul", "MatMulNBits"])
def test_no_layer_runs_in_onnx_runtime(product: str, names: str) -> None:
    plan = lower(encoder(product, names=names))
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("block_linear") == LAYERS and "onnx" not in kinds
    rng = np.random.default_rng(1)
    for shape in [(1, 9, WIDTH), (3, 4, WIDTH)]:
        x = rng.normal(0, 1, shape).astype(np.float32)
        np.testing.assert_array_equal(Engine(plan).run({"x": x})["y"], evaluate(plan, {"x": x})["y"])


def test_sizes_of_a_run_reach_products_of_codes() -> None:
    plan = lower(encoder("MatMulNBits"), {"x": (2, 5, WIDTH)})
    assert "onnx" not in {step.kind for step in plan.steps}
    assert plan.tensors["y"].shape == (2, 5, WIDTH)


def test_names_of_another_inference_are_dropped() -> None:
    model = graph.load(encoder("MatMulNBits", names="unk__9"))
    sizes = [str(size) for node in model.graph for v in node.outputs for size in v.shape or ()]
    assert sizes and not any(size.startswith("unk__9") for size in sizes)


def test_tile_and_gather_nd_tell_their_sizes() -> None:
    """Whisper's decoder looks its positions up so."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["b"]),
        helper.make_node("Slice", ["shape", "one", "two"], ["n"]),
        helper.make_node("Squeeze", ["n"], ["end"]),
        helper.make_node("Range", ["start", "end", "step"], ["places"]),
        helper.make_node("Unsqueeze", ["places", "zero"], ["row"]),
        helper.make_node("Concat", ["b", "one"], ["times"], axis=0),
        helper.make_node("Tile", ["row", "times"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "last"], ["tuples"]),
        helper.make_node("GatherND", ["table", "tuples"], ["found"]),
        helper.make_node("Add", ["x", "found"], ["sum"]),
        helper.make_node("Shape", ["sum"], ["whole"]),
        helper.make_node("Slice", ["whole", "zero", "two"], ["front"]),
        helper.make_node("Concat", ["front", "heads", "free"], ["apart"], axis=0),
        helper.make_node("Reshape", ["sum", "apart"], ["y"]),
    ]
    constants = {
        "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "last": np.int64([-1]),
        "start": np.int64(0), "step": np.int64(1), "heads": np.int64([HEADS]), "free": np.int64([-1]),
        "table": np.random.default_rng(2).normal(0, 1, (16, WIDTH)).astype(np.float32),
    }  # fmt: skip
    model = onnx_model(nodes, {"x": ["b", "n", WIDTH]}, {"y": [None] * 4}, constants, opset=17)
    plan = lower(model)
    assert "onnx" not in {step.kind for step in plan.steps}
    x = np.random.default_rng(3).normal(0, 1, (2, 7, WIDTH)).astype(np.float32)
    want = (x + constants["table"][:7]).reshape(2, 7, HEADS, -1)
    np.testing.assert_array_equal(Engine(plan).run({"x": x})["y"], want)

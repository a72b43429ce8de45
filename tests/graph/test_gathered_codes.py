"""Tables that quantize_dynamic gathers as codes are dequantized in front of the Gather: the same floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from tests.onnx_models import onnx_model

from intact import graph
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph import Session
from intact.graph.rewrites.gathered_codes import GATHERED_CODES

RNG = np.random.default_rng(3)


def gather_model(
    dtype: str, *, axis: int = 0, scales: int = 1, outputs: tuple[str, ...] = ("y",)
) -> ModelProto:
    limits = np.iinfo(dtype)
    constants: dict[str, Any] = {
        "table": RNG.integers(limits.min, limits.max, (20, 12), endpoint=True).astype(dtype),
        "s": np.full(() if scales == 1 else (scales,), 0.02, np.float32),
        "z": np.full(() if scales == 1 else (scales,), 3, dtype),
    }
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["codes"], name="rows", axis=axis),
        helper.make_node("DequantizeLinear", ["codes", "s", "z"], ["y"], name="floats"),
    ]
    infos: list[Any] = [helper.make_tensor_value_info("i", 7, ["n", "m"])]
    types = {"y": 1, "codes": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
    output_infos = [helper.make_tensor_value_info(name, types[name], [None] * 3) for name in outputs]
    return onnx_model(nodes, infos, output_infos, constants, opset=13)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_those_of_onnx_runtime(dtype: str, axis: int) -> None:
    model = gather_model(dtype, axis=axis)
    plan = lower(model)
    assert "onnx" not in {step.kind for step in plan.steps}
    feeds = {"i": RNG.integers(-12, 12, (2, 5))}
    want = Session(model.SerializeToString()).run(feeds)["y"]
    np.testing.assert_array_equal(evaluate(plan, feeds)["y"], want)
    np.testing.assert_array_equal(Engine(plan).run(feeds)["y"], want)


def test_nodes_change_places_and_keep_the_name_of_the_gather() -> None:
    model = graph.load(gather_model("uint8"))
    assert len(GATHERED_CODES(model)) == 1
    assert [(node.op_type, node.name) for node in model.graph][-1] == ("Gather", "rows")
    assert [node.op_type for node in model.graph] == ["DequantizeLinear", "Gather"]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_codes_that_others_read_stay() -> None:
    proto = gather_model("uint8", outputs=("y", "codes"))
    feeds = {"i": RNG.integers(0, 20, (2, 5))}
    want = Session(proto.SerializeToString()).run(feeds)
    got = Engine(lower(proto)).run(feeds)
    assert set(got) == {"y", "codes"} and all(np.array_equal(got[name], want[name]) for name in want)


def test_scales_of_an_axis_stay_behind() -> None:
    model = graph.load(gather_model("uint8", scales=5))
    assert not GATHERED_CODES(model)

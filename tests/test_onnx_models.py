"""Tests build ONNX models with `tests.onnx_models` alone, which says opsets, IR versions and types once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph, onnx_model

BY_HAND = re.compile(r"\bmake_(model|graph)\(")


def test_nobody_else_builds_models_by_hand() -> None:
    tests = Path(__file__).parent
    allowed = {tests / "onnx_models.py"}
    files = [path for path in sorted(tests.rglob("*.py")) if path not in allowed]
    assert [path.name for path in files if BY_HAND.search(path.read_text(encoding="utf-8"))] == []
    assert BY_HAND.search("helper.make_" + "model(graph)")


def test_ports_and_arrays_are_given_by_name() -> None:
    node = helper.make_node("Gather", ["w", "i"], ["y"])
    proto = onnx_model([node], {"i": (TensorProto.INT64, ["n"])}, {"y": ["n"]}, {"w": np.ones(3, np.float32)})
    onnx.checker.check_model(proto, full_check=True)
    assert [value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)] == [7, 1]
    assert (proto.opset_import[0].version, proto.ir_version) == (17, 8)


def test_the_ir_version_is_that_of_the_opset_and_domains_are_added() -> None:
    proto = onnx_model([], opset=21, domains={"acme": 3})
    assert proto.ir_version == 10
    assert {entry.domain: entry.version for entry in proto.opset_import} == {"": 21, "acme": 3}
    assert onnx_model([], ir_version=4).ir_version == 4


def test_a_branch_is_a_graph_of_its_own() -> None:
    assert onnx_graph([], (), {"y": None}, name="then").name == "then"

"""The work of compiling grows with the number of nodes, not with its square, as calls are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

from intact.engine.lower import lower


def relus(count: int) -> bytes:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)]
    return model(nodes, {})


def pairs(count: int) -> bytes:
    nodes = []
    for i in range(0, count, 3):
        nodes += [
            helper.make_node("QuantizeLinear", [f"t{i}", "s", "z"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]),
            helper.make_node("Sigmoid", [f"d{i}"], [f"t{i + 3}"]),
        ]
    return model(nodes, {"s": np.float32(0.05), "z": np.int8(0)})


def sizes(count: int) -> bytes:
    nodes = []
    for i in range(0, count, 3):
        nodes += [
            helper.make_node("Shape", [f"t{i}"], [f"s{i}"]),
            helper.make_node("Mul", [f"s{i}", "one"], [f"m{i}"]),
            helper.make_node("Reshape", [f"t{i}", f"m{i}"], [f"t{i + 3}"]),
        ]
    return model(nodes, {"one": np.array([1, 1])})


def model(nodes: list[Any], constants: dict[str, Any]) -> bytes:
    last = nodes[-1].output[0]
    proto = onnx_model(nodes, {"t0": ["n", 16]}, {last: ["n", 16]}, constants, opset=21)
    return bytes(proto.SerializeToString())


def calls_of(data: bytes) -> int:
    """Count the calls, of Python's and of C's functions, that lowering a model takes."""
    count = 0

    def step(*_: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(step)
    try:
        lower(data)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("build", [relus, pairs, sizes])
def test_four_times_the_nodes_take_four_times_the_calls(build: Callable[[int], bytes]) -> None:
    lower(build(6))
    few, many = (calls_of(build(count)) for count in (150, 600))
    assert many < 4.4 * few


def test_a_node_takes_fewer_calls_than_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,740 events of calls and returns for each Relu; 4,320 when each stage read its record anew."""
    monkeypatch.delenv("INTACT_CHECK_PASSES", raising=False)
    lower(relus(6))
    few, many = (calls_of(relus(count)) for count in (150, 600))
    assert (many - few) / 450 < 4000

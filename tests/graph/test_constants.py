"""Constants of a graph: values that depend on no input, computed when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from tests.onnx_models import onnx_model

from intact.errors import FileFormatError
from intact.graph import Constants, load
from intact.graph.core import constants
from intact.limits import FOLDED

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '


def test_operators_on_constants_are_constant() -> None:
    model = load(onnx.parser.parse_model(HEAD + """(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> {
        d = Add(w, w)
        e = Mul(d, w)
        y = Mul(x, e)
    }"""))  # fmt: skip
    constants, (_, e, y) = Constants(model.graph), (node.outputs[0] for node in model.graph)
    np.testing.assert_array_equal(constants(e), [2, 8])
    assert e in constants and y not in constants
    assert constants(y) is None and constants(None) is None


def test_a_chain_longer_than_the_stack_is_computed() -> None:
    nodes = [onnx.helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(1500)]
    model = load(onnx_model(nodes, (), {"v1500": [1]}, {"v0": np.float32([3])}))
    np.testing.assert_array_equal(Constants(model.graph)(model.graph.outputs[0]), [3])


@pytest.mark.parametrize("size, constant", [(4, True), (2**32, False)], ids=["small", "all-memory"])
def test_a_number_that_asks_for_all_memory_is_not_computed(size: int, constant: bool) -> None:
    model = load(onnx.parser.parse_model(HEAD + f"""(float x) => (float[n] y) <int64[1] s = {{{size}}}> {{
        z = ConstantOfShape(s)
        y = Add(x, z)
    }}"""))  # fmt: skip
    assert (Constants(model.graph)(model.graph[0].outputs[0]) is not None) == constant


@pytest.mark.parametrize(
    "op, operands, attributes",
    [
        ("Slice", [[1], [3]], {}),
        ("Slice", [[0, 5], [9, -99], [1, 0], [2, -2]], {}),
        ("Slice", [[-2**31], [2**31 - 1], [-1]], {}),
        ("Slice", [[2**31 - 1], [-2**31], [0], [-3]], {}),
        ("Slice", [[3], [1], [0]], {}),
        ("Unsqueeze", [[0, 3]], {}),
        ("Unsqueeze", [[-1]], {}),
        ("Reshape", [[2, -1]], {}),
        ("Reshape", [[24]], {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_moved_elements_are_those_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
    op: str,
    operands: list[list[int]],
    attributes: dict[str, Any],
    dtype: Any,
) -> None:
    """They need no import of ONNX's operators."""
    x = np.random.default_rng(0).integers(0, 9, (6, 4)).astype(dtype)
    node = ir.node(op, [ir.Value(name=f"v{i}") for i in range(len(operands) + 1)], attributes)
    inputs = [x, *(np.array(operand, np.int64) for operand in operands)]
    (want,) = constants._by_reference(*constants._alone(node, inputs))
    monkeypatch.setattr(constants, "_by_reference", None)
    (got,) = constants.evaluate_node(node, inputs)
    assert got.dtype == want.dtype and np.array_equal(got, want)


def test_joined_elements_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    node = ir.node("Concat", [ir.Value(name=name) for name in "abc"], {"axis": -1})
    inputs: list[Any] = [np.full((3, n), n, np.float32) for n in (1, 2, 3)]
    (want,) = constants._by_reference(*constants._alone(node, inputs))
    monkeypatch.setattr(constants, "_by_reference", None)
    (got,) = constants.evaluate_node(node, inputs)
    assert np.array_equal(got, want)


@pytest.mark.parametrize(
    "op, operands", [("Reshape", [[7, 7]]), ("Unsqueeze", [[9]]), ("Slice", [[0], [1], [7]])]
)
def test_a_move_that_cannot_be_made_is_refused_by_name(op: str, operands: list[list[int]]) -> None:
    node = ir.node(op, [ir.Value(name=f"v{i}") for i in range(len(operands) + 1)], name="wrong")
    with pytest.raises(FileFormatError, match="wrong"):
        constants.evaluate_node(node, [np.zeros((6, 4)), *(np.array(operand) for operand in operands)])


def test_a_size_of_zero_is_looked_up() -> None:
    node = ir.node("Reshape", [ir.Value(name="x"), ir.Value(name="s")])
    (got,) = constants.evaluate_node(node, [np.zeros((6, 4)), np.array([0, 2, -1])])
    assert got.shape == (6, 2, 2)


def test_what_is_joined_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDED.variable, "100")
    node = ir.node("Concat", [ir.Value(name=name) for name in "ab"], {"axis": 0}, name="long")
    assert constants.evaluate_node(node, [np.zeros(50), np.zeros(50)])[0].size == 100
    with pytest.raises(FileFormatError, match="long"):
        constants.evaluate_node(node, [np.zeros(50), np.zeros(51)])

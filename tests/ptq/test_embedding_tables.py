"""Large embedding tables become int8 rows; engine, reference and ONNX Runtime read the same ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.graph import Session
from intact.ptq import QuantizedModel, quantize

ROWS, WIDTH = 6000, 96


def encoder(
    *, rows: int = ROWS, width: int = WIDTH, tied: bool = False, twice: bool = False
) -> onnx.ModelProto:
    """A table, a norm and a product; with a second Gather, or a product by the table itself."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "table": rng.standard_normal((rows, width)).astype(np.float32)
        * np.exp(rng.standard_normal((rows, 1))),
        "gamma": np.ones(width, np.float32),
        "w": (rng.standard_normal((width, 32)) / 8).astype(np.float32),
    }
    arrays["table"] = arrays["table"].astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="look_up"),
        helper.make_node("LayerNormalization", ["rows", "gamma"], ["norm"], name="norm"),
        helper.make_node("MatMul", ["norm", "w"], ["y"], name="product"),
    ]
    outputs = {"y": ["n", 32]}
    if twice:
        nodes.append(helper.make_node("Gather", ["table", "more"], ["z"], name="again"))
        outputs["z"] = ["n", width]
    if tied:
        nodes.append(helper.make_node("Transpose", ["table"], ["turned"], name="turn", perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["norm", "turned"], ["z"], name="scores"))
        outputs["z"] = ["n", rows]
    inputs = {"ids": (TensorProto.INT64, ["n"])} | ({"more": (TensorProto.INT64, ["n"])} if twice else {})
    return onnx_model(nodes, inputs, outputs, arrays)


def tokens(count: int = 16, *, twice: bool = False, rows: int = ROWS) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    names = ("ids", "more") if twice else ("ids",)
    return [{name: rng.integers(-rows, rows, 12) for name in names} for _ in range(count)]


def operators(result: QuantizedModel) -> Counter[str]:
    return Counter(node.op_type for node in result.proto.graph.node)


def test_a_large_table_becomes_int8_rows_that_all_read_alike() -> None:
    model, data = encoder(), tokens()
    result = quantize(model, data, progress=False)
    assert operators(result)["GatherBlockQuantized"] == 1 and not operators(result)["Gather"]
    assert result.proto.ByteSize() < 0.35 * model.ByteSize()
    assert min(result.sqnr.values()) > 30
    assert any("1 embedding tables became int8" in note for note in result.notes)
    for feeds in tokens(3):
        exact, engine = (
            intact.compile(result.proto, backend=backend).run(feeds)["y"] for backend in ("reference", "cpu")
        )
        np.testing.assert_array_equal(engine, exact)
        np.testing.assert_allclose(engine, Session(result.model).run(feeds)["y"], atol=0.05)


def test_errors_of_outputs_count_the_table() -> None:
    """The only float that is left is what the table lost."""
    model, data = encoder(twice=True), tokens(twice=True)
    result = quantize(model, data, progress=False)
    assert operators(result)["GatherBlockQuantized"] == 2
    names = [node.input[0] for node in result.proto.graph.node if node.op_type == "GatherBlockQuantized"]
    assert len(set(names)) == 1, "both read one table"
    assert 36 < result.sqnr["z"] < 60


@pytest.mark.parametrize(
    "options",
    [
        {"dynamic_ranges": False}, {"exclude": ["look_up"]}, {"exclude": ["Gather"]}, {"weights": "float"},
        {"profile": "onnxruntime"}, {"include": ["product"]}, {"overrides": {"look_up": {"weights": "int8"}}},
    ],
    ids=str,
)  # fmt: skip
def test_tables_stay_where_files_shall_have_pairs_alone_or_they_were_named(options: dict[str, Any]) -> None:
    result = quantize(encoder(), tokens(), progress=False, **options)
    assert not operators(result)["GatherBlockQuantized"] and operators(result)["Gather"] == 1


@pytest.mark.parametrize("changes", [{"rows": 200}, {"width": 90}, {"tied": True}], ids=str)
def test_small_odd_and_shared_tables_stay(changes: dict[str, Any]) -> None:
    result = quantize(encoder(**changes), tokens(rows=changes.get("rows", ROWS)), progress=False)
    assert not operators(result)["GatherBlockQuantized"]


def test_a_table_that_8_bits_spoil_stays() -> None:
    """Beside a loud element in each block all others lie between two codes."""
    model = encoder()
    table = next(i for i in model.graph.initializer if i.name == "table")
    array = np.full((ROWS, WIDTH), 0.49 / 127, np.float32)
    array[:, ::32] = 1
    table.CopyFrom(onnx.numpy_helper.from_array(array, "table"))
    assert not operators(quantize(model, tokens(), progress=False))["GatherBlockQuantized"]

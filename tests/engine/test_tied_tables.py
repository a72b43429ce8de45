"""Codes that an embedding and an int8 head share are stored once, and give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.engine.compare import c_library_of
from intact.graph import Session

ROWS, DEPTH = 2048, 64
IDS = np.array([0, 5, ROWS - 1, -1, 77, 5], np.int64)


def tied(scales: np.ndarray, zero: np.ndarray, *, quantized: bool = True) -> onnx.ModelProto:
    """A table that is gathered from, and multiplied by: by int8 activations, or by floats."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (ROWS, DEPTH)).astype(np.int16) + (128 if zero.dtype == np.uint8 else 0)
    weights = {"codes": codes.astype(zero.dtype), "scales": scales, "zero": zero}
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales", "zero"], ["table"], axis=0),
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["reals" if quantized else "rows", "head"], ["y"]),
    ]
    if quantized:
        weights |= {"step": np.float32(0.02), "mid": np.int8(0)}
        nodes[2:2] = [
            helper.make_node("QuantizeLinear", ["rows", "step", "mid"], ["quantized"]),
            helper.make_node("DequantizeLinear", ["quantized", "step", "mid"], ["reals"]),
        ]
    inputs = {"ids": (TensorProto.INT64, ["n"])}
    outputs = {"y": (TensorProto.FLOAT, None), "rows": (TensorProto.FLOAT, None)}
    return onnx_model(nodes, inputs, outputs, weights, opset=21)


def kinds(engine: Any) -> list[str]:
    return [step.kind for step in engine.plan.steps]


PER_ROW = (np.random.default_rng(1).random(ROWS) * 0.01 + 0.001).astype(np.float32)


@pytest.mark.parametrize(
    ("scales", "zero"),
    [
        (np.float32(0.01), np.int8(0)),
        (PER_ROW, np.zeros(ROWS, np.int8)),
        (PER_ROW, np.full(ROWS, 128, np.uint8)),
    ],
    ids=["per-tensor", "per-row", "uint8"],
)
def test_a_tied_table_is_stored_once(scales: np.ndarray, zero: np.ndarray, tmp_path: Path) -> None:
    model = tied(scales, zero)
    onnx.save(model, tmp_path / "m.onnx")
    engine = intact.compile(tmp_path / "m.onnx", threads=1)
    assert "block_gather" not in kinds(engine) and "linear" in kinds(engine)
    outputs = engine.run({"ids": IDS})  # packs weights, which a file would hold
    engine.save(tmp_path / "m.plan")
    assert (tmp_path / "m.plan").stat().st_size < 1.3 * (tmp_path / "m.onnx").stat().st_size
    reference = intact.compile(model, backend="reference").run({"ids": IDS})
    again = intact.load(tmp_path / "m.plan", threads=1).run({"ids": IDS})
    file = Session(model.SerializeToString()).run({"ids": IDS})
    for name, array in outputs.items():
        assert array.tobytes() == reference[name].tobytes() == again[name].tobytes()
    assert outputs["rows"].tobytes() == file["rows"].tobytes()
    with c_library_of(engine) as library:
        of_c = library.run({"ids": IDS})
    assert all(of_c[name].tobytes() == array.tobytes() for name, array in outputs.items())


def test_a_head_of_floats_shares_the_codes_in_blocks(tmp_path: Path) -> None:
    model = tied(PER_ROW, np.zeros(ROWS, np.int8), quantized=False)
    engine = intact.compile(model, threads=1)
    assert "block_gather" in kinds(engine)
    reference = intact.compile(model, backend="reference").run({"ids": IDS})
    assert all(array.tobytes() == reference[n].tobytes() for n, array in engine.run({"ids": IDS}).items())


def test_an_index_out_of_range_is_refused_as_before() -> None:
    engine = intact.compile(tied(np.float32(0.01), np.int8(0)), threads=1)
    with pytest.raises(intact.IntactError, match="ids"):
        engine.run({"ids": np.array([ROWS], np.int64)})

"""The models that the ONNX package carries: everything answers on every one of them."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from intact.graph import load
from intact.placement import PROFILES, check, explain, place, read_placement
from intact.placement.placement_graph import View

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
# Older packages also store one model for each operator, some of which TensorRT does not import.
MODELS = sorted(path for path in FOLDER.glob("*/*/model.onnx") if path.parts[-3] != "node")


@pytest.mark.parametrize("kind", sorted({path.parts[-3] for path in MODELS}))
def test_every_model_is_placed_read_and_checked(kind: str) -> None:
    for path in MODELS:
        if path.parts[-3] != kind:
            continue
        model = load(path, any_opset=True)
        names = sorted(op.name for op in View(model).ops)
        for profile in PROFILES:
            placed = [name for row in place(model, profile).layers for name in row.nodes]
            assert sorted(placed) == names, path
        assert all(row["reason"] for row in explain(read_placement(model)))
        assert all(finding.rule == "opset" for finding in check(model)), path

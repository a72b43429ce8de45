"""Records of graph mode in a checkpoint are data, and checked: names are paths in a model, and nothing
else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from intact.errors import FileFormatError
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.record import GraphModeRecord, InsertedQuantizer, Spot

SPOT = Spot(ModelCall("layers.0.1", "add", 2), 1, behind=True)
PLACED = Spot(ModelCall("layers.0.1", "mul", 0, "forward:3"), 0)
RECORD = GraphModeRecord(
    (InsertedQuantizer("layers.0.1.add_quantizer", ((SPOT,), (PLACED,)), "layers.0.1.weight", 0),),
    {("layers.0.1", "add", ""): 3, ("layers.0.1", "mul", "forward:3"): 1},
)


def test_a_record_survives_json() -> None:
    assert GraphModeRecord.from_json(RECORD.to_json()) == RECORD


@pytest.mark.parametrize(
    "name",
    [
        'x", __import__("os").getcwd()) or getattr(self, "x',
        "layers.0); import os #",
        "layers..quantizer",
        "class",
        "layers.0",
        "",
        "a b",
    ],
)
def test_a_name_that_is_no_path_is_refused(name: str) -> None:
    data: dict[str, Any] = copy.deepcopy(RECORD.to_json())
    data["inserted"][0]["name"] = name
    with pytest.raises(FileFormatError) as error:
        GraphModeRecord.from_json(data)
    assert str(error.value) == (
        f"graph mode record: got ValueError: {name!r} is no path of a module, want what graph mode recorded."
        " Fix: save the model again"
    )


@pytest.mark.parametrize("damaged", [{"inserted": None}, {"made": [["layers.0.1", "add"]]}, {"made": 3}])
def test_a_damaged_record_is_refused(damaged: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match="want what graph mode recorded"):
        GraphModeRecord.from_json(RECORD.to_json() | damaged)

"""What a checkpoint says of graph mode is data: no name in it can become code."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from intact.errors import FileFormatError
from intact.torch.graph_mode.record import GraphModeRecord, Inserted, QuantizerCall

RECORD = GraphModeRecord(
    {"flag": True},
    {"rnn": "a recurrent module"},
    (Inserted("layers.0.1.add_quantizer", (QuantizerCall("add", (("relu", 0),)),)),),
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


@pytest.mark.parametrize("fixed", [{"flag": [1]}, {"flag": {"a": 1}}, {"a-b": 1}, {"x=1, y": 2}])
def test_a_fixed_argument_that_is_no_plain_value_is_refused(fixed: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError, match="is no argument with a plain value"):
        GraphModeRecord.from_json(RECORD.to_json() | {"fixed": fixed})

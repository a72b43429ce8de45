"""Models that feed each other have to be closer to float than the policy says for one alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.ort.door_models import WIDTH, batches, save_layers
from tests.ort.test_door import session_of

import intact.ort
from intact.ort.records import ModelRecord, describe
from intact.ort.trials import chains
from intact.ort.trials.chains import CHAIN_DB, have_common_rows, rows_of

Array = NDArray[np.float32]


def window(rows: Array) -> Array:
    """Return rows between others, as a program keeps the last ones: [1, rows + 4, 1, 32]."""
    neighbours = np.random.default_rng(5).standard_normal((4, WIDTH)).astype(np.float32)
    return np.concatenate([neighbours[:2], rows, neighbours[2:]]).reshape(1, -1, 1, WIDTH)


@pytest.mark.parametrize(
    ("change", "are_common"),
    [
        (lambda rows: rows, True),
        (lambda rows: rows / np.float32(10) + np.float32(2), True),
        (window, True),
        (lambda rows: rows[:, ::-1].copy(), False),
        (lambda rows: rows + np.float32(0.01) * rows[::-1], False),
        (lambda rows: np.maximum(rows, 0), False),
        (lambda rows: rows[:, :8].copy(), False),
        (lambda rows: np.ones_like(rows), False),
    ],
    ids=["the same", "scaled and shifted", "in a window", "backwards", "mixed", "cut", "short", "constant"],
)
def test_rows_that_were_handed_on_are_found(change: object, are_common: bool) -> None:
    (rows,) = batches(1)
    assert callable(change)
    assert have_common_rows(rows_of([rows]), rows_of([change(rows)])) == are_common


def test_rows_of_many_arrays_are_bounded() -> None:
    rows = rows_of(batches(300))
    assert [values.shape for values in rows.values()] == [(300, WIDTH)]
    assert len(rows_of(batches(3, rows=4000))[WIDTH]) <= 512


def run_chain(first: Path, second: Path, *, is_fed: bool) -> dict[str, ModelRecord]:
    """Run two models until both are quantized or stay in float."""
    sessions = session_of(first), session_of(second)
    for x, other in zip(batches(12), batches(12, seed=2), strict=True):
        (values,) = sessions[0].run(["y"], {"x": x})
        sessions[1].run(None, {"x": values / np.float32(10) + np.float32(2) if is_fed else other})
        assert intact.ort.wait()
    return records_by_name()


def records_by_name() -> dict[str, ModelRecord]:
    """Return the records of this process by the stems of files."""
    return {Path(record.file).stem: record for record in intact.ort.status()}


@pytest.mark.usefixtures("door")
@pytest.mark.parametrize("is_fed", [True, False])
def test_what_another_model_reads_has_to_be_closer(tmp_path: Path, is_fed: bool) -> None:
    first, second = save_layers(tmp_path / "first.onnx"), save_layers(tmp_path / "second.onnx", layers=3)
    records = run_chain(first, second, is_fed=is_fed)
    assert records["first"].readers == (["second.onnx"] if is_fed else [])
    assert records["second"].readers == []
    assert ("read by second.onnx" in describe(records["first"])) == is_fed
    decibels = records["first"].decibels
    if is_fed and records["first"].state == "int8":
        assert decibels is not None and decibels >= 20.0 + CHAIN_DB
    assert records["second"].state == "int8", records["second"].why


@pytest.mark.usefixtures("door")
def test_a_reader_that_comes_late_sends_an_engine_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "CHAIN_DB", 500.0)
    first, second = save_layers(tmp_path / "first.onnx"), save_layers(tmp_path / "second.onnx", layers=3)
    upstream, downstream = session_of(first), session_of(second)
    outputs = [upstream.run(["y"], {"x": x})[0] for x in batches(6)]
    assert intact.ort.wait()
    assert records_by_name()["first"].state == "int8"
    for values in outputs:
        downstream.run(None, {"x": values})
    assert intact.ort.wait()
    records = records_by_name()
    assert records["second"].state == "int8", records["second"].why
    assert (records["first"].state, records["first"].readers) == ("watching", ["second.onnx"])
    for x in batches(6):
        upstream.run(["y"], {"x": x})
    assert intact.ort.wait()
    records = records_by_name()
    assert records["first"].state == "float", "nothing is so close"

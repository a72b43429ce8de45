"""The stages of quantization: in one table, proposals kept only where they help, states never changed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import onnx
import pytest

from intact import graph, progress
from intact.errors import QuantValueError
from intact.placement.float_steps import AGREEMENT_KEY
from intact.ptq import quantize
from intact.ptq.measure.output_errors import relative_error
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.prepare_model import prepare_state
from intact.ptq.stages.stage_list import STAGES, Stage, run


@pytest.fixture
def start(cnn: onnx.ModelProto, images: np.ndarray) -> State:
    return prepare_state(cnn, images, Settings(progress=False))


def note(state: State) -> State:
    """Return the proposal of the examples of a stage."""
    return replace(state, notes=(*state.notes, "proposed"))


def test_a_state_is_not_changed_by_the_stages_behind_it(start: State) -> None:
    states = [start]
    for stage in STAGES:
        bytes_before = [graph.to_bytes(state.model) for state in states]
        states.append(stage.run(states[-1]))
        assert [graph.to_bytes(state.model) for state in states[:-1]] == bytes_before, stage.name
    with pytest.raises(FrozenInstanceError):
        start.chosen = "max"  # type: ignore[misc]


@pytest.mark.parametrize("equalization", [True, "auto", False])
def test_the_stages_are_what_quantize_runs(
    cnn: onnx.ModelProto, images: np.ndarray, equalization: bool | str
) -> None:
    done = run(prepare_state(cnn, images, Settings(progress=False, equalization=equalization)))
    want = quantize(cnn, images, progress=False, equalization=equalization)
    assert want.model.metadata_props.pop(AGREEMENT_KEY)  # quantize adds it at last
    assert graph.to_bytes(done.model) == graph.to_bytes(want.model)
    assert {name: relative_error(errors) for name, errors in done.errors.items()} == want.errors


@pytest.mark.parametrize(
    "switch, error, remaining",
    [
        (True, 2.0, True),
        ("auto", 2.0, False),
        ("auto", 0.96, False),
        ("auto", 0.94, True),
        (False, 0.0, False),
    ],
)
def test_a_proposal_is_kept_where_it_is_wanted_or_helps(
    start: State, switch: bool | str, error: float, remaining: bool
) -> None:
    state = replace(start, settings=replace(start.settings, equalization=switch))
    stage = Stage(
        "example", note, "equalization", lambda item: error if "proposed" in item.notes else 1.0, below=0.95
    )
    assert ("proposed" in stage.run(state).notes) == remaining


def test_a_stage_that_has_nothing_to_do_or_is_barred_leaves_the_state(start: State) -> None:
    assert Stage("nothing", lambda state: None).run(start) is start
    barred = Stage("barred", note, barred=lambda state: "it cannot be taken").run(start)
    assert barred.notes == start.notes
    assert barred.warnings == ("it cannot be taken",)


def test_a_new_stage_is_a_line_of_the_table(start: State) -> None:
    done = run(start, [Stage("example", note), *STAGES])
    assert done.notes[-1] == "proposed"
    assert graph.to_bytes(done.model) == graph.to_bytes(run(start).model)


def test_settings_are_checked_before_anything_is_read() -> None:
    wrong: dict[str, Any] = {"equalization": "perhaps"}
    with pytest.raises(QuantValueError, match="equalization"):
        Settings(**wrong)
    assert {stage.switch for stage in STAGES} - {""} <= set(vars(Settings()))


def test_every_stage_shows_a_bar(
    cnn: onnx.ModelProto, images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    own = progress.Progress.__init__

    def note_bar(self: Any, title: str, total: int | None, shown: bool) -> None:
        titles.append(title)
        own(self, title, total, shown)

    monkeypatch.setattr(progress.Progress, "__init__", note_bar)
    quantize(cnn, images)
    assert titles[0] == "read the model" and titles[-1] == "measure the result"
    assert "calibrating" in titles
    assert set(titles) >= {stage.name for stage in STAGES if not stage.has_bar}

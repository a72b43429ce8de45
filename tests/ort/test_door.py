"""Sessions of onnxruntime are answered in float, then by the engine, and look the same all the time."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tests.ort.door_models import WIDTH, batches, decibels, save_layers

import intact.ort
from intact.ort.records import describe
from intact.ort.session_methods import registry

pytestmark = pytest.mark.usefixtures("door")


def session_of(model: Path | bytes, threads: int = 1) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def swap(session: onnxruntime.InferenceSession) -> None:
    """Run until the engine answers."""
    for x in batches(6):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "int8", record.why


def floats(model: Path, x: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of ONNX Runtime itself."""
    intact.ort.uninstall()
    try:
        return session_of(model).run(None, {"x": x})
    finally:
        intact.ort.install()


def test_runs_move_to_the_engine_and_outputs_stay_alike(model: Path) -> None:
    session = session_of(model)
    (x,) = batches(1, seed=7)
    before = session.run(None, {"x": x})
    swap(session)
    after = session.run(None, {"x": x})
    (record,) = intact.ort.status()
    assert record.engine_runs == 1
    assert record.runs == 8
    for reference, values in zip(before, after, strict=True):
        assert (values.dtype, values.shape) == (reference.dtype, reference.shape)
        assert 20 < decibels(reference, values) < 100, "it is int8, and close"
    early, y = session.run(["early", "y"], {"x": x})
    np.testing.assert_array_equal(y, after[0])
    np.testing.assert_array_equal(early, after[1])


def test_the_first_runs_are_those_of_onnx_runtime(model: Path) -> None:
    session = session_of(model)
    for x in batches(5):
        for left, right in zip(session.run(None, {"x": x}), floats(model, x), strict=True):
            np.testing.assert_array_equal(left, right)


def test_a_model_in_bytes_moves_too(model: Path) -> None:
    swap(session_of(model.read_bytes()))


def test_weights_in_another_file_move_too(tmp_path: Path) -> None:
    swap(session_of(save_layers(tmp_path / "outside.onnx", location="weights.bin")))


def test_the_second_start_is_int8_from_the_first_run(model: Path) -> None:
    swap(session_of(model))
    for served in registry.models():
        served.save_record()
    registry.clear()
    session = session_of(model)
    session.run(None, {"x": batches(1)[0]})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs, record.runs_until_engine) == ("int8", 1, 0)


def test_a_stricter_policy_does_not_take_what_a_looser_one_has_left(model: Path) -> None:
    swap(session_of(model))
    registry.clear()
    intact.ort.policy(accuracy=500.0)
    session = session_of(model)
    session.run(None, {"x": batches(1)[0]})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs) == ("watching", 0)


def test_a_model_that_is_not_close_stays_in_float_and_says_why(model: Path) -> None:
    intact.ort.policy(accuracy=500.0)
    session = session_of(model)
    for x in batches(6):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "float"
    for way in ("int8: ", "16 bits where needed", "worst layers in float", "in blocks"):
        assert way in record.why, "all ways were tried"
    assert "dB" in record.why
    (x,) = batches(1, seed=9)
    np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], floats(model, x)[0])


def test_a_model_that_is_not_faster_stays_in_float_and_says_why(model: Path) -> None:
    intact.ort.policy(speed=1e9)
    session = session_of(model)
    for x in batches(6):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "float"
    assert "times as fast as ONNX Runtime" in record.why


def test_a_metric_of_the_program_decides(model: Path) -> None:
    calls = []

    def closeness(reference: dict[str, np.ndarray], values: dict[str, np.ndarray]) -> float:
        calls.append(sorted(reference))
        return 1.0 if sorted(values) == ["early", "y"] else 0.0

    intact.ort.policy(metric=closeness, accuracy=0.5)
    swap(session_of(model))
    assert calls and all(names == ["early", "y"] for names in calls)


def test_a_metric_that_raises_leaves_the_model_in_float(model: Path) -> None:
    def fail(reference: object, values: object) -> float:
        raise KeyError("no such output")

    intact.ort.policy(metric=fail)
    session = session_of(model)
    for x in batches(8):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "float"
    assert "KeyError" in record.why


def test_exact_mode_leaves_float_models_alone(model: Path) -> None:
    intact.ort.policy(mode="exact")
    session = session_of(model)
    for x in batches(8):
        session.run(None, {"x": x})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs) == ("float", 0)
    assert "exact" in record.why


@pytest.mark.parametrize("mode", ["auto", "exact"])
def test_a_model_with_codes_moves_after_a_few_runs(model: Path, tmp_path: Path, mode: str) -> None:
    from intact.ptq import quantize

    quantize(str(model), [{"x": x} for x in batches(4)], progress=False).save(tmp_path / "codes.onnx")
    intact.ort.policy(mode=mode)
    session = session_of(tmp_path / "codes.onnx")
    for x in batches(4):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert (record.state, record.candidate) == ("int8", "codes of the file")


def test_the_number_of_threads_is_what_the_program_asked_for(model: Path) -> None:
    for threads in (1, 2):
        swap_count = len(registry.models())
        session = session_of(model, threads)
        for x in batches(6):
            session.run(None, {"x": x})
        assert intact.ort.wait()
        served = registry.models()[swap_count]
        assert served._engine is not None
        assert served._engine.threads == threads


def test_sessions_of_one_model_share_what_was_learned(model: Path) -> None:
    sessions = [session_of(model) for _ in range(3)]
    for index, x in enumerate(batches(6)):
        sessions[index % 3].run(None, {"x": x})
    assert intact.ort.wait()
    for session in sessions:
        session.run(None, {"x": batches(1)[0]})
    (record,) = intact.ort.status()
    assert record.engine_runs == 3


def test_the_program_may_overwrite_its_arrays(model: Path) -> None:
    session = session_of(model)
    buffer = np.empty((16, WIDTH), np.float32)
    for x in batches(6):
        buffer[:] = x
        outputs = session.run(None, {"x": buffer})
        for output in outputs:
            output[:] = np.nan
    buffer[:] = np.nan
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "int8", record.why


def test_the_same_input_again_and_again_is_enough_for_itself(model: Path) -> None:
    session = session_of(model)
    (x,) = batches(1)
    for _ in range(24):
        session.run(None, {"x": x})
    (record,) = intact.ort.status()
    assert (record.state, record.why) == ("watching", "1 of 6 different inputs seen")
    session.run(None, {"x": x})
    assert intact.ort.wait()
    session.run(None, {"x": x})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs, record.inputs) == ("int8", 1, 1), record.why
    assert "measured on one input that the program repeats" in describe(record)


@pytest.mark.parametrize("is_next_start", [False, True])
def test_a_new_input_of_a_program_that_repeated_one_is_answered_in_float(
    model: Path, is_next_start: bool
) -> None:
    session = session_of(model)
    first, second, *remaining = batches(6)
    for _ in range(25):
        session.run(None, {"x": first})
    assert intact.ort.wait()
    if is_next_start:
        registry.clear()
        session = session_of(model)
    session.run(None, {"x": first})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs) == ("int8", 1)
    for left, right in zip(session.run(None, {"x": second}), floats(model, second), strict=True):
        np.testing.assert_array_equal(left, right)
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs) == ("watching", 1)
    for x in (first, second, *remaining):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (x,) = batches(1, seed=9)
    session.run(None, {"x": x})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs, record.known_inputs) == ("int8", 2, []), record.why


def test_a_copy_of_a_class_and_a_session_are_those_of_onnx_runtime(model: Path) -> None:
    session = session_of(model)
    assert type(session) is onnxruntime.InferenceSession
    assert isinstance(session, onnxruntime.capi.onnxruntime_inference_collection.Session)
    assert copy.copy(onnxruntime.InferenceSession) is onnxruntime.InferenceSession
    assert session.get_modelmeta().graph_name == "layers"

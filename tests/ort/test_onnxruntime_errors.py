"""ONNX Runtime answers what the engine does not take, with its own errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.ort.door_models import WIDTH, batches
from tests.ort.test_door import session_of, swap

import intact.ort
from intact.ort.session_methods import registry
from intact.ort.session_signature import are_finite

pytestmark = pytest.mark.usefixtures("door")

X = np.ones((4, WIDTH), np.float32)

BAD_RUNS: dict[str, tuple[Any, Any]] = {
    "wrong input name": (None, {"z": X}),
    "no input": (None, {}),
    "another input as well": (None, {"x": X, "z": X}),
    "wrong output name": (["nothing"], {"x": X}),
    "float64": (None, {"x": X.astype(np.float64)}),
    "integers": (None, {"x": X.astype(np.int32)}),
    "three axes": (None, {"x": X[None]}),
    "too many columns": (None, {"x": np.ones((4, WIDTH + 1), np.float32)}),
    "strings": (None, {"x": np.array([["a"]], dtype=object)}),
    "None": (None, {"x": None}),
    "no mapping": (None, [X]),
}


def outcome(session: Any, names: Any, feed: Any) -> tuple[type, str]:
    try:
        session.run(names, feed)
    except Exception as error:
        return type(error), str(error)
    return type(None), ""


@pytest.mark.parametrize("case", BAD_RUNS)
def test_errors_are_those_of_onnx_runtime_before_and_after_the_swap(model: Path, case: str) -> None:
    session = session_of(model)
    before = outcome(session, *BAD_RUNS[case])
    swap(session)
    assert outcome(session, *BAD_RUNS[case]) == before
    assert before[0] is not type(None)
    assert not before[0].__module__.startswith("intact")


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_any_number_of_rows_is_answered(model: Path, rows: int) -> None:
    session = session_of(model)
    swap(session)
    y, early = session.run(None, {"x": np.ones((rows, WIDTH), np.float32)})
    assert y.shape == early.shape == (rows, WIDTH)
    (record,) = intact.ort.status()
    assert record.declined_runs == (rows == 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_are_answered_in_float(model: Path, value: float) -> None:
    session = session_of(model)
    x = X.copy()
    x[1, 2] = value
    before = session.run(None, {"x": x})
    registry.clear()
    session = session_of(model)
    swap(session)
    for left, right in zip(session.run(None, {"x": x}), before, strict=True):
        np.testing.assert_array_equal(left, right)
    (record,) = intact.ort.status()
    assert (record.engine_runs, record.declined_runs) == (0, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("is_contiguous", [True, False])
def test_inputs_are_finite_or_not_without_a_warning(dtype: type, is_contiguous: bool) -> None:
    array = np.full((4, 6), 2.0, dtype)
    view = array if is_contiguous else array[:, ::2]
    assert are_finite({"x": view}, ["x"])
    view[1, 1] = np.finfo(dtype).max / 2  # its square is infinite, and the sum is not
    assert are_finite({"x": view}, ["x"])
    for value in (np.nan, np.inf, -np.inf):
        view[1, 1] = value
        assert not are_finite({"x": view}, ["x"])
        assert are_finite({"x": view}, []), "it was not finite while it was watched either"


def test_lists_and_other_memory_orders_are_answered(model: Path) -> None:
    session = session_of(model)
    (x,) = batches(1, seed=3)
    swap(session)
    y = session.run(["y"], {"x": x})[0]
    np.testing.assert_array_equal(session.run(["y"], {"x": np.asfortranarray(x)})[0], y)
    np.testing.assert_array_equal(session.run(["y"], {"x": x.tolist()})[0], y)
    assert intact.ort.status()[0].engine_runs == 3
    wide = np.zeros((16, 2 * WIDTH), np.float32)
    wide[:, ::2] = x
    np.testing.assert_array_equal(session.run(["y"], {"x": wide[:, ::2]})[0], y)


def test_an_error_of_the_engine_is_never_seen(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(model)
    (x,) = batches(1, seed=3)
    before = session.run(None, {"x": x})
    swap(session)
    (served,) = registry.models()

    def fail(arrays: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(served._engine, "run", fail)
    for _ in range(5):
        for left, right in zip(session.run(None, {"x": x}), before, strict=True):
            np.testing.assert_array_equal(left, right)
    (record,) = intact.ort.status()
    assert (record.errors, record.state) == (3, "float"), "it is not asked for ever"
    assert "no room" in record.last_error


def test_a_run_with_options_is_onnx_runtimes(model: Path) -> None:
    session = session_of(model)
    swap(session)
    session.run(None, {"x": X}, onnxruntime.RunOptions())
    (record,) = intact.ort.status()
    assert (record.engine_runs, record.declined_runs) == (0, 1)


def test_values_of_onnx_runtime_go_in_and_come_out(model: Path) -> None:
    session = session_of(model)
    swap(session)
    expected = session.run(None, {"x": X})
    values = session.run_with_ort_values(None, {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X)})
    for value, array in zip(values, expected, strict=True):
        assert isinstance(value, onnxruntime.OrtValue)
        np.testing.assert_array_equal(value.numpy(), array)
    (record,) = intact.ort.status()
    assert record.engine_runs == 2


def test_bindings_and_asynchronous_runs_stay_in_onnx_runtime(model: Path) -> None:
    session = session_of(model, threads=2)
    expected = session.run(None, {"x": X})
    swap(session)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    for name in ("y", "early"):
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    for left, right in zip(binding.copy_outputs_to_cpu(), expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_options_with_initializers_in_memory_are_left_alone(model: Path) -> None:
    weight = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((WIDTH, WIDTH), np.float32))
    options = onnxruntime.SessionOptions()
    options.add_initializer("w0", weight)
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    assert not session.run(["early"], {"x": X})[0].any()
    (record,) = intact.ort.status()
    assert (record.state, record.why) == ("float", "the program hands initializers over in memory")


def test_a_session_that_is_profiled_is_left_alone(model: Path, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": X})
    assert Path(session.end_profiling()).is_file()
    (record,) = intact.ort.status()
    assert "profiles" in record.why


def test_new_providers_end_the_watch(model: Path) -> None:
    session = session_of(model)
    swap(session)
    session.set_providers(["CPUExecutionProvider"])
    session.run(None, {"x": X})
    (record,) = intact.ort.status()
    assert record.engine_runs == 0


def test_sessions_of_intact_and_of_onnx_runtimes_tools_are_left_alone(model: Path) -> None:
    from intact.graph import Session

    Session(model.read_bytes()).run({"x": X})
    assert intact.ort.status() == []


def test_a_file_that_is_none_raises_what_onnx_runtime_raises(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"\xff" * 64)
    for name in ("broken.onnx", "missing.onnx"):
        with pytest.raises(Exception, match=name) as caught:
            session_of(tmp_path / name)
        assert caught.type.__module__.startswith("onnxruntime")

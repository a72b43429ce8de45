"""Faults of a process, a disk, a model or its inputs give no wrong answer, no error and no hang."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model
from tests.ort.door_models import WIDTH, batches, decibels, save_layers
from tests.ort.test_door import floats, session_of, swap

import intact.ort
from intact.ort.records import ModelRecord, ResultCache
from intact.ort.session_methods import registry

pytestmark = pytest.mark.usefixtures("door")

SECONDS = 600

PROGRAM = """
import os, signal, sys
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
rng = np.random.default_rng(int(os.environ.get("SEED", "1")))

def run(count):
    return [session.run(None, {"x": rng.standard_normal((16, 32)).astype(np.float32)}) for _ in range(count)]
"""


def start(tmp_path: Path, model: Path, code: str, **environment: str) -> subprocess.Popen[str]:
    """Start a program whose sessions are watched; `code` stands behind `PROGRAM`."""
    script = tmp_path / f"program{len(list(tmp_path.glob('program*.py')))}.py"
    script.write_text(PROGRAM + textwrap.dedent(code))
    rules = {
        "INTACT_ORT_CACHE": str(tmp_path / "shared"), "INTACT_ORT_SPEED": "0", "INTACT_ORT_ACCURACY": "20",
        "INTACT_ORT_WATCH": "6", "INTACT_ORT_ISOLATE": "no", "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    source = Path(intact.ort.__file__).parents[2]
    paths = {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(
        [sys.executable, "-m", "intact.ort", str(script), str(model)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, **rules, **paths, **environment},
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """Return what a program prints; it ends well, and says nothing else."""
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (0, "")
    return output.strip()


TO_INT8 = """
import intact.ort
while not any(record.state == "int8" for record in intact.ort.status()):
    run(8)
    intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state in ("watching", "int8"), record.why
"""

TO_TRIAL = """
import intact.ort
while not intact.ort.status() or intact.ort.status()[0].state == "watching":
    run(8)
"""


def test_inputs_that_leave_their_range_bring_float_back(model: Path) -> None:
    session = session_of(model)
    swap(session)
    for x in batches(8, scale=1.0, seed=2):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    for x in batches(200, scale=1000.0, seed=3):
        session.run(None, {"x": x})
        assert intact.ort.wait()
        (record,) = intact.ort.status()
        if record.state == "float":
            break
    assert record.state == "float"
    assert "the guard went back" in record.why
    (x,) = batches(1, scale=1000.0, seed=4)
    for left, right in zip(session.run(None, {"x": x}), floats(model, x), strict=True):
        np.testing.assert_array_equal(left, right)
    registry.clear()
    session_of(model).run(None, {"x": x})
    (record,) = intact.ort.status()
    assert (record.state, record.engine_runs) == ("float", 0), "the next start remembers it"
    assert "the guard went back" in record.why


def save_range_model(path: Path) -> Path:
    """Write (x - min) / (max - min), then a layer: NaN for an input of equal values."""
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMin", ["x"], ["low"], keepdims=1),
        helper.make_node("ReduceMax", ["x"], ["high"], keepdims=1),
        helper.make_node("Sub", ["x", "low"], ["above"]),
        helper.make_node("Sub", ["high", "low"], ["span"]),
        helper.make_node("Div", ["above", "span"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "w"], ["y"], name="layer"),
    ]
    sizes = ["n", WIDTH]
    onnx.save(onnx_model(nodes, {"x": sizes}, {"y": sizes}, {"w": weight}), path)
    return path


def test_inputs_that_float_makes_nan_of_spoil_nothing(tmp_path: Path) -> None:
    model = save_range_model(tmp_path / "range.onnx")
    session = session_of(model)
    silence = np.full((16, WIDTH), 3.0, np.float32)
    assert np.isnan(session.run(None, {"x": silence})[0]).all(), "a program warms up with silence"
    swap(session)
    assert np.isnan(session.run(None, {"x": silence})[0]).all()
    (record,) = intact.ort.status()
    assert (record.state, record.declined_runs, record.has_undefined_runs) == ("int8", 1, True)


def test_the_guard_learns_of_inputs_that_float_makes_nan_of(tmp_path: Path) -> None:
    session = session_of(save_range_model(tmp_path / "range.onnx"))
    swap(session)
    silence = np.full((16, WIDTH), 3.0, np.float32)
    session.run(None, {"x": silence})
    assert intact.ort.wait()
    assert np.isnan(session.run(None, {"x": silence})[0]).all()
    (record,) = intact.ort.status()
    assert (record.state, record.has_undefined_runs) == ("int8", True), record.why


def test_a_guard_looks_at_early_runs_and_then_at_each_two_hundredth(model: Path) -> None:
    intact.ort.policy(guard=16)
    session = session_of(model)
    swap(session)
    (x,) = batches(1)
    for _ in range(64):
        session.run(None, {"x": x})
        assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.guard_runs == 1 + 1 + 1 + 1 + 1 + 3, "runs 1, 2, 4, 8, 16, then 32, 48 and 64"


def test_a_model_that_changes_under_its_path_is_not_quantized(tmp_path: Path) -> None:
    model = save_layers(tmp_path / "layers.onnx")
    status = model.stat()
    session = session_of(model)
    (x,) = batches(1, seed=5)
    before = session.run(None, {"x": x})
    content = bytearray(model.read_bytes())
    content[content.index(b"gemm0")] = ord("G")  # another file, as long and as old
    model.write_bytes(bytes(content))
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    for other in batches(8):
        session.run(None, {"x": other})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert (record.state, record.why) == ("float", "its file has changed since the session was made")
    for left, right in zip(session.run(None, {"x": x}), before, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_cache_that_cannot_be_written_costs_the_memory_alone(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    intact.ort.policy(cache=tmp_path / "file" / "cache")
    session = session_of(model)
    swap(session)
    (record,) = intact.ort.status()
    assert "the next start will quantize again" in record.help
    (x,) = batches(1, seed=7)
    session.run(None, {"x": x})
    assert intact.ort.status()[0].engine_runs == 1


def test_a_full_disk_leaves_the_model_in_float(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from intact.engine import Engine

    def refuse(engine: Engine, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Engine, "save", refuse)
    session = session_of(model)
    for x in batches(6):
        session.run(None, {"x": x})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "float"
    assert "No space left on device" in record.why
    (x,) = batches(1, seed=7)
    np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], floats(model, x)[0])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1, "runs": "many"}', b"\xff" * 99])
def test_a_damaged_record_is_none(model: Path, tmp_path: Path, content: bytes) -> None:
    swap(session_of(model))
    for name in (tmp_path / "cache").glob("*.json"):
        name.write_bytes(content)
    registry.clear()
    session = session_of(model)
    session.run(None, {"x": batches(1)[0]})
    (record,) = intact.ort.status()
    assert record.state == "watching"
    assert intact.ort.status(everything=True) == []


def test_a_damaged_plan_is_made_again(model: Path, tmp_path: Path) -> None:
    swap(session_of(model))
    (plan,) = (tmp_path / "cache").glob("*.plan")
    plan.write_bytes(plan.read_bytes()[:1000])
    registry.clear()
    swap(session_of(model))


def test_sixteen_threads_get_their_own_answers(model: Path) -> None:
    session = session_of(model)
    inputs = batches(16 * 12, seed=11)
    expected = {index: floats(model, x)[0] for index, x in enumerate(inputs)}
    barrier = threading.Barrier(16)

    def work(thread: int) -> list[tuple[int, np.ndarray]]:
        barrier.wait(SECONDS)
        numbers = range(12 * thread, 12 * thread + 12)
        return [(index, session.run(["y", "early"], {"x": inputs[index]})[0]) for index in numbers]

    with ThreadPoolExecutor(16) as pool:
        for round_index in range(2):
            for answers in pool.map(work, range(16)):
                for index, y in answers:
                    assert decibels(expected[index], y) > 15, f"round {round_index}"
            assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.runs == 2 * 16 * 12
    assert record.state == "int8", record.why
    assert record.engine_runs >= 16 * 12


def test_a_cache_keeps_its_bound(tmp_path: Path) -> None:
    intact.ort.policy(cache_bytes=1)
    for layers in (1, 2, 3):
        registry.clear()
        swap(session_of(save_layers(tmp_path / f"{layers}.onnx", layers=layers)))
    assert len(list((tmp_path / "cache").glob("*.plan"))) == 1
    (record,) = intact.ort.status(everything=True)
    assert record.file.endswith("3.onnx")


def save_identity(path: Path, kind: int) -> Path:
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(onnx_model([node], {"x": (kind, ["n"])}, {"y": (kind, ["n"])}), path)
    return path


def test_strings_go_to_onnx_runtime(tmp_path: Path) -> None:
    session = session_of(save_identity(tmp_path / "strings.onnx", TensorProto.STRING))
    for word in ("a", "b", "c"):
        assert session.run(None, {"x": np.array([word], dtype=object)})[0].tolist() == [word]
    (record,) = intact.ort.status()
    assert (record.state, record.why) == ("float", "input 'x' is a tensor(string)")


def test_nothing_to_quantize_stays_in_float(tmp_path: Path) -> None:
    session = session_of(save_identity(tmp_path / "floats.onnx", TensorProto.FLOAT))
    for size in range(1, 12):
        np.testing.assert_array_equal(session.run(None, {"x": np.ones(size, np.float32)})[0], np.ones(size))
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert record.state == "float"
    assert record.why


def test_sequences_go_to_onnx_runtime(tmp_path: Path) -> None:
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"])
    onnx.save(onnx_model([node], {"x": ["n"]}, [y]), tmp_path / "sequence.onnx")
    session = session_of(tmp_path / "sequence.onnx")
    assert len(session.run(None, {"x": np.ones(3, np.float32)})[0]) == 2
    (record,) = intact.ort.status()
    assert "output 'y' is a seq" in record.why


@pytest.mark.slow
def test_a_program_runs_unedited_and_so_do_the_processes_it_starts(model: Path, tmp_path: Path) -> None:
    code = (
        TO_INT8
        + """
import subprocess
child = "import onnxruntime as o; print(o.InferenceSession.run.__wrapped__.__module__, o.__file__)"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout)
"""
    )
    module, file = finish(start(tmp_path, model, code)).split()
    assert module.startswith("onnxruntime")
    assert file == onnxruntime.__file__


@pytest.mark.slow
def test_a_program_that_ends_meanwhile_ends_at_once_and_silently(model: Path, tmp_path: Path) -> None:
    finish(start(tmp_path, model, TO_TRIAL, INTACT_ORT_ISOLATE="yes"))


@pytest.mark.slow
def test_a_killed_program_leaves_no_process_and_no_file(model: Path, tmp_path: Path) -> None:
    code = """
    from intact.ort.trials import trial
    begin = trial.ProcessTrial.__init__
    def begin_and_die(self, job):
        begin(self, job)
        print(self._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    trial.ProcessTrial.__init__ = begin_and_die
    """ + textwrap.indent(TO_TRIAL + "intact.ort.wait()", "    ")
    process = start(tmp_path, model, code, INTACT_ORT_ISOLATE="yes")
    pid = int(process.stdout.readline())
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            pass
        else:
            ended, _, _ = select.select([descriptor], [], [], SECONDS)
            os.close(descriptor)
            assert ended, "what quantizes ends with the program"
    process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert [p.suffix for p in (tmp_path / "shared").iterdir()] == [".lock"]
    finish(start(tmp_path, model, TO_INT8))


@pytest.mark.slow
def test_processes_that_start_at_once_share_one_result(model: Path, tmp_path: Path) -> None:
    code = (
        TO_INT8
        + "print(record.state, flush=True); sys.stdin.read(); run(3); print(intact.ort.status()[0].runs)"
    )
    programs = [start(tmp_path, model, code, SEED=str(seed)) for seed in range(8)]
    for program in programs:
        assert program.stdout.readline() == "int8\n"
    for program in programs:  # they end at the same moment
        program.stdin.close()
        program.stdin = None
    runs = [int(finish(program)) for program in programs]
    files = sorted(p.suffix for p in (tmp_path / "shared").iterdir())
    assert files == [".json", ".lock", ".plan", ".update"]
    intact.ort.policy(cache=tmp_path / "shared")
    (record,) = intact.ort.status(everything=True)
    assert (record.state, record.runs) == ("int8", sum(runs)), "no count is lost"


def test_counts_of_writers_at_once_are_not_lost(tmp_path: Path) -> None:
    caches = [ResultCache(tmp_path / "cache", 1 << 20) for _ in range(8)]

    def work(cache: ResultCache) -> None:
        for _ in range(10):
            assert not cache.update(
                "key", lambda before: ModelRecord(runs=1 + (before.runs if before else 0))
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, caches))
    record = caches[0].read("key")
    assert record is not None
    assert record.runs == 80


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_after_the_swap_goes_on(model: Path, tmp_path: Path) -> None:
    code = (
        TO_INT8
        + """
before = record.engine_runs
child = os.fork()
if child == 0:
    run(300)
    (record,) = intact.ort.status()
    os._exit(0 if (record.state, record.engine_runs, record.guard_runs) == ("int8", 300, 0) else 1)
run(10)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), record.state)
"""
    )
    assert finish(start(tmp_path, model, code)) == "0 int8"


@pytest.mark.slow
def test_a_line_for_each_model_stands_at_the_end(model: Path, tmp_path: Path) -> None:
    process = start(tmp_path, model, TO_INT8 + "run(5)", INTACT_ORT="verbose")
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    (line,) = errors.splitlines()
    assert line.startswith("intact.ort: layers.onnx: int8 (int8) after ")
    assert "5 in the engine" in line


@pytest.mark.slow
def test_off_leaves_everything_to_onnx_runtime(model: Path, tmp_path: Path) -> None:
    code = "print(hasattr(onnxruntime.InferenceSession.run, '__wrapped__'))"
    assert finish(start(tmp_path, model, code, INTACT_ORT="off")) == "False"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ACCURACY", "WATCH", "MODE"])
def test_a_damaged_variable_leaves_everything_to_onnx_runtime(model: Path, tmp_path: Path, name: str) -> None:
    finish(start(tmp_path, model, "run(8)", **{f"INTACT_ORT_{name}": "-?"}))


assert WIDTH == 32, "as PROGRAM says"

"""Trials end in time, the next program goes on where one ended, and the guard looks at speed, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.ort.door_models import WIDTH, batches
from tests.ort.test_door import floats, session_of, swap

import intact.ort
from intact.errors import QuantValueError
from intact.ort.policies import Policy
from intact.ort.records import describe
from intact.ort.session_methods import registry
from intact.ort.session_signature import ATTRIBUTE
from intact.ort.trials import trial
from intact.ort.trials.candidates import Candidate, TrialJob
from intact.ort.trials.guard import WINDOW, Guard, GuardedRun
from intact.ort.trials.samples import RunSample, SampleStore, split_holdout

pytestmark = pytest.mark.usefixtures("door")


def run_watched(model: Path, *, seed: int = 1) -> None:
    session = session_of(model)
    for x in batches(6, seed=seed):
        session.run(None, {"x": x})
    assert intact.ort.wait()


def test_a_trial_that_takes_too_long_leaves_the_model_in_float(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(job: TrialJob) -> Iterator[Candidate]:
        while True:
            yield Candidate("int8", failure="none")

    monkeypatch.setattr(trial, "candidates", endless)
    intact.ort.policy(trial_seconds=0.2)
    run_watched(model)
    (record,) = intact.ort.status()
    assert (record.state, record.tries) == ("float", 1)
    assert record.why.startswith("quantizing took longer than 0 seconds")
    assert "trial_seconds" in record.help
    (x,) = batches(1, seed=9)
    np.testing.assert_array_equal(session_of(model).run(["y"], {"x": x})[0], floats(model, x)[0])


@pytest.mark.slow
def test_a_process_that_takes_too_long_is_ended(model: Path) -> None:
    intact.ort.policy(trial_seconds=0.001, isolate=True)
    run_watched(model)
    (record,) = intact.ort.status()
    assert record.state == "float"
    assert record.why.startswith("quantizing took longer than")


def test_the_time_of_a_trial_grows_with_the_model_and_its_runs(model: Path) -> None:
    from intact.ort.trials.model_trial import ModelTrial

    session = session_of(model)
    session.run(None, {"x": batches(1)[0]})
    (served,) = registry.models()
    samples = served._samples
    assert samples is not None
    seconds = []
    for run_seconds in (0.0, 0.01, 10.0):
        samples._run_seconds = run_seconds * samples._runs
        seconds.append(ModelTrial(served, samples)._most_seconds())
    assert 120 <= seconds[0] < 121
    assert seconds[1] == pytest.approx(seconds[0] + 20)
    assert seconds[2] == 1800


def test_few_samples_of_long_runs_calibrate_and_the_others_compare() -> None:
    samples = [RunSample({}, {}, 0) for _ in range(30)]
    calibration, holdout = split_holdout(samples, 0.001)
    assert (len(calibration), len(holdout)) == (20, 10)
    calibration, holdout = split_holdout(samples, 0.2)
    assert (len(calibration), len(holdout)) == (7, 23)
    calibration, holdout = split_holdout(samples, 100.0)
    assert (len(calibration), len(holdout)) == (3, 27)
    assert set(map(id, calibration + holdout)) == set(map(id, samples))


def score_samples(scores: list[float], *, count: int = 4, nbytes: int = 1 << 20) -> SampleStore:
    """Return a store of runs [1, 8] -> a score each."""
    store = SampleStore(count, nbytes)
    for x, score in zip(batches(len(scores), rows=1), scores, strict=True):
        store.add({"x": x[:, :8]}, {"y": np.full((1, 1), score, np.float32)})
    return store


def test_a_score_that_was_never_high_is_waited_for() -> None:
    low = [0.001, 0.002, 0.0005, 0.001] * 20
    store = score_samples(low)
    assert not store.is_ready
    assert "output 'y' have all been below 0.5" in store.shortage
    assert len(store.samples) == len(store.checksums) == 32
    assert score_samples([*low, 0.9, *low]).is_ready
    assert score_samples([*low, 1.5, *low]).is_ready, "these are no scores"
    assert score_samples([0.0] * 12).is_ready, "nor is this"


def test_memory_is_bounded_while_a_score_is_waited_for() -> None:
    store = score_samples([0.001, 0.002] * 40, nbytes=6 * 36)
    assert (len(store.samples), store.is_ready) == (6, False)


@pytest.mark.parametrize(("look_seconds", "idle_runs"), [(0.002, 0), (0.004, 33), (1.0, 64)])
def test_runs_for_which_there_is_no_time_are_not_timed(look_seconds: float, idle_runs: int) -> None:
    """3% of the program's time go to looks at its arrays."""
    store = score_samples([])
    assert [store.has_time(0.001) for _ in range(100)] == [True] * 100
    store.spend(look_seconds)
    assert store.idle_runs == idle_runs and store.mean_seconds == pytest.approx(0.001)
    assert store.has_time(0.001) == (idle_runs < 64), "these runs have gone by"
    assert store.idle_runs == (64 if idle_runs == 64 else idle_runs), "and as many follow"


def test_a_float_model_has_no_costs_any_more(model: Path) -> None:
    intact.ort.policy(accuracy=500.0)
    session = session_of(model)
    assert ATTRIBUTE in session.__dict__
    run_watched(model)
    assert ATTRIBUTE not in session.__dict__
    assert ATTRIBUTE not in session_of(model).__dict__, "nor those that are made later"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sessions of this kind")
def test_a_process_that_quantizes_shares_the_scheduling_group_of_the_program(model: Path) -> None:
    job = TrialJob(str(model), 1, 99, False, [{"x": x} for x in batches(2)], [], ["y"], is_timed=False)
    with trial.start_trial(job, isolate=True) as running:
        assert isinstance(running, trial.ProcessTrial)
        process = running._process.pid
        assert os.getsid(process) == os.getsid(0), "Linux weighs priorities within a session"
        assert os.getpgid(process) == process, "the terminal's signals are the program's"


@pytest.mark.parametrize("value", [float("nan"), "long", True])
def test_a_time_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(QuantValueError, match="trial_seconds"):
        intact.ort.policy(trial_seconds=value)


def test_the_environment_sets_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_ORT_TRIAL_SECONDS", "42.5")
    assert intact.ort.policy().trial_seconds == 42.5


def test_the_next_program_goes_on_where_one_ended(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []

    def end_in_the_middle(job: TrialJob) -> Iterator[Candidate]:
        jobs.append(job)
        yield Candidate("int8", failure="none")
        raise SystemExit  # as the program's end leaves it: nothing is decided

    real = trial.candidates
    monkeypatch.setattr(trial, "candidates", end_in_the_middle)
    run_watched(model)
    (record,) = intact.ort.status(everything=True)
    assert record.ruled_out == ["int8: none"]
    registry.clear()
    monkeypatch.setattr(trial, "candidates", lambda job: jobs.append(job) or real(job))
    run_watched(model)
    assert [job.ruled_out for job in jobs] == [[], ["int8"]]
    (record,) = intact.ort.status()
    assert (record.state, record.candidate) == ("int8", "int8, 16 bits where needed"), record.why
    assert record.ruled_out == []


def test_another_gate_begins_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session_of(model).run(None, {"x": batches(1)[0]})
    (served,) = registry.models()
    served.record.ruled_out, served.record.gate = ["int8: far"], served.rules.gate_name
    served.save_record()
    for accuracy, ruled_out in ((20.0, ["int8: far"]), (25.0, [])):
        registry.clear()
        intact.ort.policy(accuracy=accuracy)
        session_of(model)
        (served,) = registry.models()
        assert served.record.ruled_out == ruled_out


def guard_run(seconds: float) -> GuardedRun:
    return GuardedRun({}, {"y": np.ones((1, WIDTH), np.float32)}, seconds)


@pytest.mark.parametrize(("seconds", "is_slow"), [(0.5, False), (1.0, False), (1.04, False), (1.1, True)])
def test_a_guard_compares_times(seconds: float, is_slow: bool) -> None:
    guard = Guard(Policy(), 30.0)
    for _ in range(WINDOW - 1):
        guard.note_seconds(guard_run(seconds), 1.0)
        assert (guard.speedup, guard.check_speed()) == (None, "")
    guard.note_seconds(guard_run(100.0), 1.0)  # one that something else has slowed down
    assert guard.speedup == pytest.approx(1 / seconds, abs=1e-4)
    assert bool(guard.check_speed()) == is_slow


def test_times_decide_nothing_where_the_policy_asks_for_none() -> None:
    guard = Guard(Policy(speed=0.0), 30.0)
    for _ in range(WINDOW):
        guard.note_seconds(guard_run(9.0), 1.0)
    assert (guard.speedup, guard.check_speed()) == (None, "")


def test_an_engine_that_is_slower_goes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(model)
    swap(session)
    (served,) = registry.models()
    served._guard = Guard(Policy(guard=1), 20.0)
    monkeypatch.setattr(Guard, "speedup", 0.8)
    session.run(None, {"x": batches(1, seed=9)[0]})
    assert intact.ort.wait()
    (record,) = intact.ort.status()
    assert (record.state, record.is_rejected) == ("float", True)
    assert record.why == "the guard went back: 0.80 times as fast as ONNX Runtime in the program's own runs"
    assert "0.80 times in guarded runs" in describe(record)
    registry.clear()
    session_of(model)
    assert intact.ort.status()[0].state == "float", "the next start remembers it"


def test_all_available_providers_are_those_of_the_processor(model: Path) -> None:
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    if set(providers) - {"AzureExecutionProvider", "CPUExecutionProvider"}:
        pytest.skip("this onnxruntime has other providers")
    swap(onnxruntime.InferenceSession(str(model), providers=providers))

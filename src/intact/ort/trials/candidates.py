"""Quantizes a model in several ways, the fastest first, and measures each: what a trial's process does."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import IntactError
from intact.ort.session_signature import SessionSignature, are_finite, signature_of
from intact.ort.trials.largest_scores import linear_outputs
from intact.ort.trials.samples import spread

if TYPE_CHECKING:
    from intact.engine import Engine

Batch = Mapping[str, NDArray[Any]]

_SECONDS, _MOST_SECONDS = 1.5, 10.0
"""The time that a comparison of speed takes, besides the first runs, and where rounds are long."""
_LEAST_ROUNDS, _ROUNDS = 3, 10
"""Rounds at least, and those that are waited for: on a busy machine the fewest are undisturbed."""
_MOST_FIRST_ROUNDS = 4
_LEAST_TIMED = 3
"""Different inputs that are timed, where one run of all would take longer than `_SECONDS`."""


@dataclass(frozen=True)
class TrialJob:
    """Describes a model to quantize.

    Attributes:
        source: The path of the model, or its bytes.
        threads: Of a run; None: as many as the process may use.
        level: ONNX Runtime's optimization level of the program's session.
        has_codes: The model is quantized already.
        calibration, holdout: Inputs by name.
        output_names: In the session's order.
        new_shape_share: The share of the program's runs whose shapes come for the first time.
        is_timed: Whether speed decides; else nothing is timed.
        ruled_out: Names of candidates that are left out.
        run_seconds: The mean time of the program's runs.
    """

    source: str | bytes
    threads: int | None
    level: int
    has_codes: bool
    calibration: Sequence[Batch]
    holdout: Sequence[Batch]
    output_names: Sequence[str]
    new_shape_share: float = 0.0
    is_timed: bool = True
    ruled_out: Sequence[str] = ()
    run_seconds: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """Holds one way to run a model in the engine, and how it compares.

    Attributes:
        name: How it was quantized, in words.
        engine: What runs it; None: it could not be built.
        outputs: Of the hold-out inputs.
        calibration_outputs: Of the others, where these are not the same.
        speedup: ONNX Runtime's time divided by the engine's; 0 where nothing was timed.
        in_float: Layers in float, and why, one a line.
        logits: Outputs that a linear layer gives: they may be scores.
        failure: Why there is no engine.
    """

    name: str
    engine: Engine | None = None
    outputs: Sequence[Batch] = ()
    calibration_outputs: Sequence[Batch] = ()
    speedup: float = 0.0
    in_float: Sequence[str] = field(default_factory=tuple)
    logits: Sequence[str] = field(default_factory=tuple)
    failure: str = ""


def candidates(job: TrialJob) -> Iterator[Candidate]:
    """Yield the ways to quantize a model, the one that is probably fastest first."""
    ways: dict[str, Callable[[], tuple[Any, list[str]]]]
    if job.has_codes:
        ways = {"codes of the file": partial(_as_is, job)}
    else:
        ways = {
            # Where 8 bits miss the gate, a budget that aims at 25 dB does, too: those below have one.
            "int8": partial(_quantize_layers, job, float_budget=0.0),
            "int8, 16 bits where needed": partial(_quantize_layers, job, bits16="auto"),
            "int8, worst layers in float": partial(_quantize_layers, job, float_budget=1.0),
            "int8 weights in blocks, inputs quantized in each run": partial(_in_blocks, job),
        }
    logits = cache(partial(linear_outputs, job.source))  # reads the file
    for name, quantize in ways.items():
        if name in job.ruled_out:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield replace(_candidate(job, name, quantize), logits=logits())
        except Exception as error:  # whatever it is, the program has ONNX Runtime
            yield Candidate(name, failure=describe_error(error))


def describe_error(error: BaseException) -> str:
    """Return an error in one line: INTact's own have their kind in them."""
    if isinstance(error, IntactError):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def _candidate(job: TrialJob, name: str, quantize: Callable[[], tuple[Any, list[str]]]) -> Candidate:
    from intact.engine import compile

    model, in_float = quantize()
    engine = compile(model, threads=job.threads)
    outputs, calibration_outputs = (
        [{key: results[key] for key in job.output_names} for results in map(engine.run, batches)]
        for batches in (job.holdout, () if job.has_codes else job.calibration)
    )
    load_again = partial(compile, model, threads=job.threads)
    speedup = _speedup(job, engine, load_again) if job.is_timed else 0.0
    return Candidate(name, engine, outputs, calibration_outputs, speedup, in_float)


def _as_is(job: TrialJob) -> tuple[Any, list[str]]:
    return job.source, []


def _quantize_layers(job: TrialJob, **options: Any) -> tuple[Any, list[str]]:
    from intact.ptq import quantize

    result = quantize(job.source, list(job.calibration), progress=False, **options)
    in_float = [f"{name}: {why}" for part in result.parts.values() for name, why in part.in_float.items()]
    return result.model, in_float


def _in_blocks(job: TrialJob) -> tuple[Any, list[str]]:
    from intact.ptq import quantize_weights

    result = quantize_weights(
        job.source, weights="int8", block=32, activations="dynamic-int8", progress=False
    )
    return result.model, [f"{name}: {why}" for name, why in result.in_float.items()]


def _speedup(job: TrialJob, engine: Engine, load_again: Callable[[], Engine]) -> float:
    """Return ONNX Runtime's time divided by the engine's, on the hold-out inputs by turns.

    The first run with new shapes binds memory and may pack weights. It counts as often as the program's runs
    have new shapes, and is measured with several engines, as each has one such run alone.

    Args:
        job: What is run.
        engine: The engine.
        load_again: Gives another one of the same model.
    """
    names, begin = list(job.output_names), time.perf_counter()
    batches = spread(job.holdout, max(_LEAST_TIMED, int(_SECONDS / max(job.run_seconds, 1e-9))))
    firsts: list[NDArray[np.float64]] = []
    runs: list[Callable[[Batch], Any]] = []
    finite = [name for name, array in batches[0].items() if array.dtype.kind == "f"]
    for count in range(_MOST_FIRST_ROUNDS if job.new_shape_share else 1):
        if count and time.perf_counter() - begin > _SECONDS:
            break
        session, engine = _float_session(job), load_again() if count else engine
        runs = [partial(_run_session, session, names), engine.run]
        signature = signature_of(session)
        if isinstance(signature, SessionSignature):
            runs[1] = partial(_run_engine, engine, signature, finite, names)
        for run_batch in runs:  # weights are packed once
            run_batch(batches[0])
        firsts.append(_seconds(runs, batches))
    first = np.minimum.reduce(firsts)
    best, begin = first, time.perf_counter()
    for rounds in range(1000):
        seconds = time.perf_counter() - begin
        if rounds >= _LEAST_ROUNDS and seconds > (_SECONDS if rounds >= _ROUNDS else _MOST_SECONDS):
            break
        best = np.minimum(best, _seconds(runs, batches))
    share = job.new_shape_share
    expected = share * first.sum(axis=1) + (1 - share) * best.sum(axis=1)
    return float(expected[0] / max(expected[1], 1e-9))


def _run_session(session: Any, names: Sequence[str], batch: Batch) -> Any:
    return session.run(names, dict(batch))


def _run_engine(
    engine: Engine, signature: SessionSignature, finite: Sequence[str], names: Sequence[str], batch: Batch
) -> Any:
    """Run the engine with the checks of inputs that a program's run has: they count in small models."""
    arrays = signature.fitting(dict(batch))
    if arrays is None or not are_finite(arrays, finite):
        arrays = dict(batch)
    outputs = engine.run(arrays)
    return [outputs[name] for name in names]


def _seconds(runs: Sequence[Callable[[Batch], Any]], batches: Sequence[Batch]) -> NDArray[np.float64]:
    """Return the seconds of each run: [runs, batches]."""
    seconds = np.empty((len(runs), len(batches)))
    for column, batch in enumerate(batches):
        for row, run in enumerate(runs):
            begin = time.perf_counter()
            run(batch)
            seconds[row, column] = time.perf_counter() - begin
    return seconds


def _float_session(job: TrialJob) -> Any:
    """Return a session like the program's."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job.threads or 0
    options.graph_optimization_level = ort.GraphOptimizationLevel(job.level)
    options.log_severity_level = 4
    return ort.InferenceSession(job.source, options, providers=["CPUExecutionProvider"])

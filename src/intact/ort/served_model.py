"""`ServedModel`: a model whose runs are watched in ONNX Runtime, and move to the engine and back."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import numpy as np
from numpy.typing import NDArray

from intact.ort.background import background
from intact.ort.model_identity import ModelIdentity
from intact.ort.policies import Policy
from intact.ort.records import COUNTS, ModelRecord, ResultCache, name_of
from intact.ort.session_signature import ATTRIBUTE, SessionSignature, are_finite
from intact.ort.trials.candidates import describe_error
from intact.ort.trials.engine_results import TrialResult, load_result, meets
from intact.ort.trials.guard import Guard, GuardedRun, levels_of
from intact.ort.trials.samples import SampleStore, checksum_of, has_equal_values, has_nan
from intact.processes import renew_in_child

if TYPE_CHECKING:
    from intact.engine import Engine
    from intact.ort.trials.chains import ModelFlow

FloatRun = Callable[[Any, Any, Any, Any], Any]
"""ONNX Runtime's own `run`: of (session, output names, feed, run options)."""

_CODED_WATCH = 4
"""Different inputs that are seen before a model of codes is tried: nothing is calibrated."""
_MOST_ERRORS = 3
_MOST_TRIES = 3
"""Programs that may try to quantize a model in vain: inputs and machines differ."""


class ServedModel:
    """The runs of all sessions of a program that have the same model, threads and policy.

    Args:
        identity: The model.
        signature: What goes in and comes out.
        rules: When the engine answers.
        float_run: ONNX Runtime's `run`.

    Attributes:
        record: What is remembered, with the counts of this process.
    """

    def __init__(
        self, identity: ModelIdentity, signature: SessionSignature, rules: Policy, float_run: FloatRun
    ) -> None:
        self.identity, self.signature, self.rules = identity, signature, rules
        self._float_run = float_run
        self.cache = ResultCache(rules.folder, rules.cache_bytes)
        self.record = ModelRecord(file=str(identity.path or ""), program=program_name())
        self._engine: Engine | None = None
        self._samples: SampleStore | None = None
        self._tried_samples: SampleStore | None = None
        self._known_inputs: frozenset[str] = frozenset()
        self._guard = Guard(rules, rules.accuracy)
        self._key: str | None = None
        self._errors_in_a_row = 0
        self._has_news = False
        self._finite_inputs: list[str] = []
        self._verified_outputs: frozenset[str] = frozenset(signature.outputs)
        self.flow: ModelFlow | None = None
        self._renew()
        self._sessions: WeakSet[Any] = WeakSet()
        renew_in_child(self)
        self._begin()

    def _renew(self) -> None:
        self._lock, self._save_lock = threading.Lock(), threading.Lock()
        self._runs, self._engine_runs = itertools.count(1), itertools.count(1)
        self._last, self._saved = dict.fromkeys(COUNTS, 0), dict.fromkeys(COUNTS, 0)

    def after_fork(self) -> None:
        """Renew the lock; the counts of the parent are the parent's. What was being tried stays in float."""
        self._renew()
        self._samples = None

    @property
    def key(self) -> str:
        """The name of its files in the cache."""
        if self._key is None:
            self._key = self.cache.key(self.identity.digest, self.signature.threads, self.rules.metric_name)
        return self._key

    @property
    def gate_rules(self) -> Policy:
        """The policy that outputs have to meet: more decibels where another model reads them."""
        if self.flow is None or not self.flow.readers or self.rules.metric is not None:
            return self.rules
        from intact.ort.trials.chains import CHAIN_DB

        return replace(self.rules, accuracy=self.rules.accuracy + CHAIN_DB)

    @property
    def has_engine(self) -> bool:
        """True where the engine answers."""
        return self._engine is not None

    def attach(self, session: Any) -> None:
        """Look at the runs of a session, unless all of them are ONNX Runtime's for good."""
        self._sessions.add(session)
        if self.record.state != "float":
            setattr(session, ATTRIBUTE, (session._sess, self))

    def _begin(self) -> None:
        """Take what is remembered of the model, or watch it."""
        if self.rules.mode == "exact" and not self.identity.has_codes:
            self.stay_float("mode='exact' moves only models that hold codes", "leave the mode out")
            self._has_news = False
            return
        record = self.cache.read(self.key) if self.cache.has_files(self.identity.digest) else None
        if record is not None and self._resume(record):
            return
        self.watch()

    def watch(self) -> None:
        """Look at the program's inputs and outputs from now on."""
        from intact.ort.trials.chains import ModelFlow

        count = min(_CODED_WATCH, self.rules.watch) if self.identity.has_codes else self.rules.watch
        self._samples = self._tried_samples or SampleStore(count, self.rules.memory)
        self._samples.go_on()
        if self.flow is None:
            self.flow = ModelFlow(name_of(self.record), self._note_reader)
        self.flow.watch(partial(getattr, self._samples, "samples"))
        self.record.state, self.record.why = "watching", ""

    def _note_reader(self) -> None:
        """Note that another model reads the outputs; go back to float where they are too far from it."""
        self.record.readers = sorted(self.flow.readers) if self.flow else []
        decibels = self.record.decibels
        if self._engine is not None and decibels is not None and decibels < self.gate_rules.accuracy:
            self._watch_again()

    def _watch_again(self) -> None:
        """Go back to float and look at more inputs, as those so far do not suffice."""
        with self._lock:
            if self._engine is None:
                return
            self._engine = None
            self._has_news = True
            self.watch()

    def _resume(self, record: ModelRecord) -> bool:
        """Go on where an earlier program ended; return False where the model has to be watched."""
        if record.state == "int8" and meets(record, self.rules, self.identity.has_codes):
            result = load_result(self.cache, self.key, record, self.signature.threads)
            if result is not None:
                self.swap(result)
                return True
        elif record.is_rejected or (record.state == "float" and record.tries >= _MOST_TRIES):
            self.record = replace(self.record, **_findings(record))
            return True
        else:
            self.record.tries = record.tries
            if record.gate == self.rules.gate_name:
                self.record.ruled_out, self.record.gate = record.ruled_out, record.gate
        return False

    def run(self, session: Any, output_names: Any, feed: Any, options: Any) -> Any:
        """Answer a run as ONNX Runtime does: same names, types, shapes and order, and its own errors."""
        self._last["runs"] = next(self._runs)
        engine = self._engine
        if engine is not None:
            results = self._run_engine(engine, session, output_names, feed, options)
            if results is not None:
                return results
        samples = self._samples
        if samples is None or options is not None:
            return self._float_run(session, output_names, feed, options)
        if samples.idle_runs > 0:
            samples.idle_runs -= 1
            return self._float_run(session, output_names, feed, options)
        clock = self.rules.clock
        begin = clock()
        results = self._float_run(session, output_names, feed, options)
        end = clock()
        if samples.has_time(end - begin):
            self._watch_run(samples, output_names, feed, results)
            samples.spend(clock() - end)
        return results

    def run_in_engine(self, session: Any, output_names: Any, feed: Any) -> list[NDArray[Any]] | None:
        """Return the engine's outputs for a run that has another way to ONNX Runtime; None: take that."""
        self._last["runs"] = next(self._runs)
        engine = self._engine
        return None if engine is None else self._run_engine(engine, session, output_names, feed, None)

    def _watch_run(self, samples: SampleStore, output_names: Any, feed: Any, results: Any) -> None:
        """Keep a run's arrays where they are new, and quantize when they suffice."""
        arrays = self.signature.fitting(feed)
        if arrays is None or not self._lock.acquire(blocking=False):
            return
        try:
            if self._samples is not samples:
                return
            names = list(output_names) if output_names else list(self.signature.outputs)
            if samples.samples and set(samples.samples[0].outputs) != set(names):
                return
            if not all(isinstance(result, np.ndarray) for result in results):
                return
            samples.add(arrays, dict(zip(names, results, strict=True)))
            if samples.is_ready and not background.is_child:
                self._samples = None
                self._try(samples)
        except Exception as error:  # a fault of ours: the run has its answer
            self._samples = None
            self.stay_float(f"watching failed: {describe_error(error)}")
        finally:
            self._lock.release()

    def _try(self, samples: SampleStore) -> None:
        from intact.ort.trials.model_trial import ModelTrial  # what programs need that get so far

        self.record.state, self.record.why = "trying", ""
        self._tried_samples = samples
        trial = ModelTrial(self, samples)
        if not background.submit("trial", trial.run):
            self.stay_float("the program is ending, or is the child of a fork")

    def _run_engine(
        self, engine: Engine, session: Any, output_names: Any, feed: Any, options: Any
    ) -> list[NDArray[Any]] | None:
        """Return the engine's outputs; None where ONNX Runtime has to answer."""
        names = output_names if output_names else self.signature.outputs
        arrays = self.signature.fitting(feed) if options is None else None
        is_known = arrays is not None and self._verified_outputs.issuperset(names)
        if arrays is None or not is_known or not self._are_defined(arrays):
            self._last["declined_runs"] += 1
            return None
        if self._known_inputs and f"{checksum_of(arrays):08x}" not in self._known_inputs:
            self._watch_again()
            return None
        begin = self.rules.clock()
        try:
            outputs = engine.run(arrays)
            end = self.rules.clock()
            results = [outputs[name] for name in names]
        except Exception as error:  # the program never sees an error that is not ONNX Runtime's
            self._note_error(error)
            return None
        self._errors_in_a_row = 0
        number = self._last["engine_runs"] = next(self._engine_runs)
        if self._guard.is_due(number) and not background.is_child:
            run = GuardedRun(
                {name: np.array(array) for name, array in arrays.items()},
                {name: np.array(array) for name, array in zip(names, results, strict=True)},
                end - begin,
            )
            background.submit("check", partial(self._check, ref(session), run))
        return results

    def _are_defined(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Return whether no input has NaN or infinities, which codes do not have, but where it always may.

        Inputs of equal values, where float gives NaN for them, are not defined either.
        """
        if not are_finite(arrays, self._finite_inputs):
            return False
        return not (self.record.has_undefined_runs and has_equal_values(arrays))

    def _check(self, session: ref[Any], run: GuardedRun) -> None:
        """Compute a run in float, too, and go back where the engine is not close any more."""
        alive = session()
        if alive is None or self._engine is None:
            return
        begin = self.rules.clock()
        reference = self._float_run(alive, list(run.outputs), dict(run.inputs), None)
        if has_equal_values(run.inputs) and any(map(has_nan, reference)):
            self.record.has_undefined_runs = self._has_news = True  # such inputs are float's from now on
            return
        self._guard.note_seconds(run, self.rules.clock() - begin)
        self._last["guard_runs"] += 1
        self.record.guard_speedup = self._guard.speedup
        if why := self._guard.check(run, dict(zip(run.outputs, reference, strict=True))):
            self._reject(why, "quantize with data like these, or ask for less accuracy")
        elif why := self._guard.check_speed():
            self._reject(why, "remove its record from the cache folder to try again")

    def _reject(self, why: str, help: str) -> None:
        """Go back to float for good."""
        self.record.is_rejected = True
        self.stay_float(f"the guard went back: {why}", help)
        self.cache.remove_plan(self.key)
        self.save_record()

    def _note_error(self, error: Exception) -> None:
        self._last["errors"] += 1
        self.record.last_error = describe_error(error)
        self._errors_in_a_row += 1
        if self._errors_in_a_row >= _MOST_ERRORS:
            self.stay_float(f"the engine failed {_MOST_ERRORS} times: {self.record.last_error}")

    def swap(self, result: TrialResult) -> None:
        """Let the engine answer from the next run on."""
        findings = _findings(result.record)
        self.record = replace(self.record, **{**findings, "state": "int8", "why": "", "help": ""})
        self.record.runs_until_engine = self._last["runs"]
        decibels = self.record.decibels
        self._guard = Guard(
            self.gate_rules,
            self.rules.accuracy if decibels is None else decibels,
            result.record.logits,
            levels_of(result.record.levels),
        )
        self._known_inputs = frozenset(self.record.known_inputs)
        if not self._known_inputs:
            self._tried_samples = None
        if result.outputs:
            self._has_news = True
            self._verified_outputs = frozenset(result.outputs)
        self._finite_inputs = [
            port.name for port in self.signature.inputs
            if port.dtype.kind == "f" and port.name not in self.record.infinite_inputs
        ]  # fmt: skip
        self._engine = result.engine

    def stay_float(self, why: str, help: str = "") -> None:
        """Leave all runs to ONNX Runtime from now on."""
        self._engine = self._samples = self._tried_samples = None
        self._has_news = True
        self.record.state, self.record.why, self.record.help = "float", why, help
        for session in list(self._sessions):
            session.__dict__.pop(ATTRIBUTE, None)

    def waits_for(self) -> str:
        """Return what is missing before the model is quantized, in words; "" where nothing is."""
        samples = self._samples
        return samples.shortage if samples is not None else ""

    def current_record(self) -> ModelRecord:
        """Return what is to be remembered, with the counts of this process."""
        counts: dict[str, Any] = dict(self._last)
        record = replace(self.record, **counts)
        if record.state in ("watching", "trying"):
            record.why = self.waits_for() or "being quantized"
        return record

    def save_record(self) -> str:
        """Write what is remembered; return why the system refuses it, "" where it does not.

        What an earlier program has learned stays where this one has learned nothing.
        """
        with self._save_lock:
            counts = dict(self._last)
            failure = self.cache.update(self.key, partial(self._merge, counts))
            if not failure:
                self._saved = counts
            return failure

    def _merge(self, counts: Mapping[str, int], before: ModelRecord | None) -> ModelRecord:
        """Return what is to be remembered in the place of `before`."""
        record = self.current_record()
        if before is not None and not self._has_news:
            is_open = before.state in ("watching", "trying") and self.record.ruled_out
            progress = self.record if is_open else before
            record = replace(
                before, program=record.program, last_error=record.last_error or before.last_error,
                ruled_out=progress.ruled_out, gate=progress.gate,
                guard_speedup=record.guard_speedup or before.guard_speedup,
            )  # fmt: skip
        for name in COUNTS:
            earlier = 0 if before is None else getattr(before, name)
            setattr(record, name, earlier + counts[name] - self._saved[name])
        return record


_FOUND = (
    "state", "why", "help", "candidate", "metric", "decibels", "agreement", "speedup", "guard_speedup",
    "in_float", "logits", "levels", "infinite_inputs", "has_undefined_runs", "tries", "inputs",
    "known_inputs", "ruled_out", "gate", "readers",
)  # fmt: skip


def _findings(record: ModelRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in (*_FOUND, "is_rejected")}


def program_name() -> str:
    """Return the name of the running program."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return f"-m {spec.name.removesuffix('.__main__')}"
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"

"""`ModelTrial`: quantizes a model behind a program's back, and decides by the gate whether it is used."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from intact.ort.background import background, report_fault
from intact.ort.model_identity import ModelIdentity
from intact.ort.policies import Policy
from intact.ort.records import ModelRecord, ResultCache
from intact.ort.session_signature import SessionSignature
from intact.ort.trials.array_messages import Batch
from intact.ort.trials.candidates import TrialJob, describe_error
from intact.ort.trials.chains import ModelFlow
from intact.ort.trials.engine_results import TrialResult, least_speed, load_result, meets
from intact.ort.trials.gate import Verdict, compare_outputs, count_changes
from intact.ort.trials.guard import Guard, GuardedRun, levels_of
from intact.ort.trials.samples import RunSample, SampleStore, split_holdout
from intact.ort.trials.trial import CandidateReport, ProcessTrial, RunningTrial, TimeLimit, start_trial

_POLL_SECONDS = 1.0
_LEAST_SECONDS, _MOST_SECONDS = 120.0, 1800.0
_SECONDS_PER_BYTE = 10 / (1 << 20)
_MOST_REASON = 2000
_RUNS_PER_TRIAL = 2_000
"""A trial computes all samples several times, in reference arithmetic that is far slower than a run."""


@dataclass
class _Findings:
    """Collects what candidates have shown.

    Attributes:
        record: Of the best one.
        reasons: Why none was taken.
        ruled_out: Those of candidates that are not close enough, or have no engine.
    """

    record: ModelRecord
    reasons: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)


class TrialOwner(Protocol):
    """Gets the engine, or the reason why there is none: see `intact.ort.served_model.ServedModel`."""

    identity: ModelIdentity
    signature: SessionSignature
    rules: Policy
    flow: ModelFlow | None
    cache: ResultCache
    record: ModelRecord

    @property
    def key(self) -> str:
        """The name of its files in the cache."""
        ...

    @property
    def gate_rules(self) -> Policy:
        """The policy that outputs have to meet."""
        ...

    def swap(self, result: TrialResult) -> None:
        """Let the engine answer from the next run on."""
        ...

    def stay_float(self, why: str, help: str = "") -> None:
        """Leave all runs to ONNX Runtime from now on."""
        ...

    def save_record(self) -> str:
        """Write what is remembered."""
        ...


class ModelTrial:
    """One attempt to quantize a model.

    Args:
        model: The model; gets the engine, or the reason why there is none.
        samples: What was seen of its runs.
    """

    def __init__(self, model: TrialOwner, samples: SampleStore) -> None:
        self._model, self._samples = model, samples
        self._calibration, self._holdout = split_holdout(samples.samples, samples.mean_seconds)
        if model.identity.has_codes or not self._holdout:
            self._holdout = list(samples.samples)
        self._outputs = tuple(samples.samples[0].outputs)
        self._levels = [f"{self._level(name):.6g} {name}" for name in self._outputs]

    def run(self) -> None:
        """Quantize; every error becomes the reason why the model stays in float."""
        try:
            self._run()
        except Exception as error:  # whatever it is, the program has ONNX Runtime
            self._model.stay_float(f"it could not be quantized: {describe_error(error)}")

    def _run(self) -> None:
        model = self._model
        if model.flow is not None:
            try:
                model.flow.keep()
                model.flow.connect()
            except Exception as error:  # models are compared one at a time then
                report_fault(error)
        while not background.is_stopped:
            with model.cache.lock(model.key) as is_ours:
                if self._adopt():
                    return
                if is_ours:
                    self._quantize()
                    return
            background.stopping.wait(_POLL_SECONDS)  # another process quantizes the same model

    def _adopt(self) -> bool:
        """Take what another process has made meanwhile, where it passes the gate on this program's inputs."""
        model = self._model
        record = model.cache.read(model.key)
        if record is None or record.state != "int8":
            return False
        if not meets(record, model.gate_rules, model.identity.has_codes):
            return False
        if record.known_inputs and not self._checksums().issubset(record.known_inputs):
            return False
        result = load_result(model.cache, model.key, record, model.signature.threads)
        if result is None:
            return False
        outputs = [self._select(result.engine.run(sample.inputs)) for sample in self._holdout]
        verdict = self._compare(outputs, record.logits)
        if verdict.is_close:
            self._swap(replace(result, outputs=self._outputs))
        return verdict.is_close

    def _quantize(self) -> None:
        model = self._model
        if not model.identity.is_same_content():
            model.stay_float("its file has changed since the session was made", "start the program again")
            return
        with start_trial(self._job(), model.rules.isolate) as trial:
            background.stop_later(trial.stop)
            limit = TimeLimit(trial, self._most_seconds())
            try:
                self._choose(trial, limit)
            finally:
                limit.cancel()
                background.forget(trial.stop)

    def _most_seconds(self) -> float:
        """Return the time that the trial may take: by the model's size and the time of its runs."""
        rules, nbytes = self._model.rules, self._model.identity.nbytes
        if rules.trial_seconds is not None:
            return max(0.0, rules.trial_seconds)
        seconds = _SECONDS_PER_BYTE * nbytes + _RUNS_PER_TRIAL * self._samples.mean_seconds
        return min(_MOST_SECONDS, _LEAST_SECONDS + seconds)

    def _checksums(self) -> set[str]:
        return {f"{checksum:08x}" for checksum in self._samples.checksums}

    def _job(self) -> TrialJob:
        model = self._model
        identity, signature = model.identity, model.signature
        source = str(identity.path) if identity.content is None else identity.content
        return TrialJob(
            source, signature.threads, signature.level, identity.has_codes,
            [sample.inputs for sample in self._calibration], [sample.inputs for sample in self._holdout],
            self._outputs, self._samples.new_shape_share, model.rules.speed > 0,
            [line.partition(": ")[0] for line in model.record.ruled_out], self._samples.mean_seconds,
        )  # fmt: skip

    def _first_findings(self) -> _Findings:
        """Return what an earlier program has found out, and what these samples are."""
        record, samples = self._model.record, self._samples
        is_limited = samples.is_repetitive and not self._model.identity.has_codes
        checksums = sorted(self._checksums()) if is_limited else []
        values = replace(
            record, tries=record.tries + 1, infinite_inputs=self._infinite_inputs(), ruled_out=[], gate="",
            inputs=len(samples.samples), known_inputs=checksums,
            has_undefined_runs=samples.has_undefined_runs,
        )  # fmt: skip
        return _Findings(values, list(record.ruled_out), list(record.ruled_out))

    def _choose(self, trial: RunningTrial, limit: TimeLimit) -> None:
        """Take the first candidate that passes the gate."""
        model = self._model
        findings = self._first_findings()
        while (report := trial.next()) is not None:
            verdict = self._examine(report, findings)
            if verdict is None:
                self._rule_out(findings)
                continue
            if not verdict.is_close:
                if report.speedup < least_speed(model.rules, model.identity.has_codes):
                    break  # what takes more bits takes more time
                self._rule_out(findings)
                continue
            if report.speedup < least_speed(model.rules, model.identity.has_codes):
                break
            limit.cancel()
            self._take(trial, findings.record)
            return
        if background.is_stopped:
            return
        if limit.has_ended:
            self._give_up(findings)
            return
        if isinstance(trial, ProcessTrial) and trial.has_crashed:
            findings.reasons.append("the process that quantizes ended before its work")
        self._refuse(findings)

    def _rule_out(self, findings: _Findings) -> None:
        """Remember that the last candidate is none, so that the next program goes on where this one ends."""
        findings.ruled_out.append(findings.reasons[-1][:_MOST_REASON])
        self._model.record.ruled_out = list(findings.ruled_out)
        self._model.record.gate = self._model.gate_rules.gate_name
        self._model.save_record()

    def _give_up(self, findings: _Findings) -> None:
        """Leave the model in float, as the trial took too long; the next one goes on."""
        model = self._model
        model.record.tries = findings.record.tries
        seconds = f"quantizing took longer than {self._most_seconds():.0f} seconds"
        why = " | ".join([seconds, *findings.reasons])
        model.stay_float(why[:_MOST_REASON], "allow more, intact.ort.policy(trial_seconds=...)")
        model.save_record()

    def _infinite_inputs(self) -> list[str]:
        """Return the inputs that were not finite in a run that was watched."""
        return sorted({
            name
            for sample in self._samples.samples
            for name, array in sample.inputs.items()
            if array.dtype.kind == "f" and not np.isfinite(array).all()
        })  # fmt: skip

    def _examine(self, report: CandidateReport, findings: _Findings) -> Verdict | None:
        """Compare a candidate's outputs with float's; None where it has none."""
        if report.failure:
            findings.reasons.append(f"{report.name}: {report.failure}")
            return None
        rules = self._model.gate_rules
        verdict = self._compare(report.outputs, report.logits)
        if verdict.is_close and (why := self._check_all_samples(report, verdict)):
            verdict = replace(verdict, is_close=False, why=why)
        needed = least_speed(rules, self._model.identity.has_codes)
        words = [] if verdict.is_close else [verdict.why]
        if report.speedup < needed:
            words.append(f"{report.speedup:.2f} times as fast as ONNX Runtime, not {needed:g}")
        findings.reasons.append(f"{report.name}: {'; '.join(words)}")
        findings.record = replace(
            findings.record, candidate=report.name, metric=rules.metric_name, agreement=verdict.agreement,
            decibels=_finite(verdict.decibels), speedup=round(report.speedup, 4) or None,
            in_float=report.in_float, logits=report.logits, levels=self._levels,
        )  # fmt: skip
        return verdict

    def _compare(self, outputs: list[Batch], logits: list[str]) -> Verdict:
        pairs = [(sample.outputs, result) for sample, result in zip(self._holdout, outputs, strict=True)]
        return compare_outputs(pairs, self._model.gate_rules, logits)

    def _check_all_samples(self, report: CandidateReport, verdict: Verdict) -> str:
        """Return why the program's runs so far would have sent the engine away, "" where they would not.

        The hold-out runs are few, and measure the whole. These are all runs: each by itself, as the guard
        looks at them, and the answers of all together.
        """
        samples = [*self._holdout, *self._calibration]
        outputs = [*report.outputs, *report.calibration_outputs]
        pairs = list(zip((sample.outputs for sample in samples), outputs, strict=False))
        guard = Guard(self._model.gate_rules, verdict.decibels, report.logits, levels_of(self._levels))
        whys = (guard.check(GuardedRun({}, values), reference) for reference, values in pairs)
        return next(filter(None, whys), "") or count_changes(pairs, self._model.gate_rules, report.logits)

    def _level(self, name: str) -> float:
        """Return the mean square of an output's finite values in all samples."""
        values = [sample.outputs[name] for sample in self._samples.samples]
        finite = [array[np.isfinite(array)].astype(np.float64) for array in values if array.dtype.kind == "f"]
        count = sum(array.size for array in finite)
        return sum(float(np.sum(array**2)) for array in finite) / count if count else 0.0

    def _select(self, outputs: Mapping[str, Any]) -> Batch:
        return {name: outputs[name] for name in self._outputs}

    def _take(self, trial: RunningTrial, record: ModelRecord) -> None:
        """Store the plan, load it here, and let it answer."""
        from intact.engine import load

        model, threads = self._model, self._model.signature.threads
        record = replace(record, state="int8", why="", help="", tries=0)
        failure = ""
        with suppress(OSError):
            model.cache.prepare()
        path = model.cache.plan_path(model.key)
        if failure := trial.save(path):
            path = Path(tempfile.gettempdir(), f"intact-ort-{secrets.token_hex(8)}.plan")
            try:
                if second := trial.save(path):
                    model.stay_float(
                        f"its plan cannot be written: {second}", "make room, or set INTACT_ORT_CACHE"
                    )
                    return
                engine = load(path, threads=threads, copy=True)
            finally:
                with suppress(OSError):
                    path.unlink()
        else:
            engine = load(path, threads=threads)
        self._swap(TrialResult(record, engine, self._outputs))
        if failure:
            model.record.help = f"the next start will quantize again: {failure}"
            return
        model.save_record()
        model.cache.trim(model.key)

    def _swap(self, result: TrialResult) -> None:
        shapes: dict[Any, RunSample] = {}
        for sample in self._holdout:  # memory for these sizes, and packed weights, before a run waits for it
            shapes.setdefault(tuple(array.shape for array in sample.inputs.values()), sample)
        for sample in shapes.values():
            result.engine.run(sample.inputs)
        self._model.swap(result)

    def _refuse(self, findings: _Findings) -> None:
        model = self._model
        why = " | ".join(findings.reasons) or "it could not be quantized"
        has_time = (findings.record.speedup or 0) >= least_speed(model.rules, model.identity.has_codes)
        help = "ask for less accuracy, intact.ort.policy(accuracy=...)" if has_time else ""
        model.record = replace(findings.record)
        model.stay_float(why[:_MOST_REASON], help)
        model.save_record()


def _finite(decibels: float) -> float | None:
    """Return decibels as JSON has them: None for equal outputs."""
    return round(decibels, 3) if abs(decibels) < 1e6 else None

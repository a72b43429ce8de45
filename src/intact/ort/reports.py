"""What became of each model: records, and lines at the end of a program."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from pathlib import Path

from intact.ort.background import background, faults
from intact.ort.policies import current_policy
from intact.ort.result_cache import ModelRecord, ResultCache
from intact.ort.session_methods import registry
from intact.terminal import printable


def process_records() -> list[ModelRecord]:
    """Return the records of the models that this process has run, and of those that it refused."""
    refused = [ModelRecord(file=name, state="float", why=why) for name, why in registry.refused.items()]
    return [model.summed_record() for model in registry.models()] + refused


def stored_records() -> list[ModelRecord]:
    """Return the records in the cache folder, the newest first."""
    rules = current_policy()
    return ResultCache(rules.folder, rules.cache_bytes).records()


def describe(record: ModelRecord) -> str:
    """Return a model's record in one line."""
    name = Path(record.file).name or "a model in memory"
    words = [f"{name}: {record.state}"]
    if record.state == "int8":
        words[0] += f" ({record.candidate}) after {record.runs_until_engine} runs"
    words.append(f"{record.runs} runs, {record.engine_runs} in the engine")
    words += [f"{count} {label}" for count, label in counts_of(record) if count]
    words += figures_of(record)
    if record.why:
        words.append(record.why)
    return printable(", ".join(words))


def counts_of(record: ModelRecord) -> list[tuple[int, str]]:
    """Return (count, label) of runs that something happened to."""
    return [
        (record.declined_runs, "with inputs that the engine does not take"), (record.errors, "errors"),
        (record.guard_runs, "guarded"),
    ]  # fmt: skip


def figures_of(record: ModelRecord) -> list[str]:
    """Return what was measured, in words."""
    words = []
    if record.speedup is not None:
        words.append(f"{record.speedup:.2f} times as fast")
        words.append("equal outputs" if record.decibels is None else figure_of_metric(record))
    if record.agreement is not None:
        words.append(f"{record.agreement:.2%} of largest scores equal")
    return words


def figure_of_metric(record: ModelRecord) -> str:
    """Return the closeness to float with its unit."""
    unit = "dB" if record.metric == "decibels" else record.metric
    return f"{record.decibels:.1f} {unit}" if record.decibels is not None else ""


def _end_program() -> None:
    """Write records to the cache and, where the program asks for it, lines to standard error."""
    with suppress(Exception):
        if background.is_child:
            return
        background.stop()
        for model in registry.models():
            with suppress(Exception):
                model.save_record()
        if current_policy().verbose:
            for record in process_records():
                print(f"intact.ort: {describe(record)}", file=sys.stderr)
            for fault in faults:
                print(f"intact.ort: {printable(fault)}", file=sys.stderr)


atexit.register(_end_program)

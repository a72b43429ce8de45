"""Records of models in words."""

from __future__ import annotations

from pathlib import Path

from intact.ort.records.result_cache import ModelRecord
from intact.terminal import printable


def describe(record: ModelRecord) -> str:
    """Return a model's record in one line."""
    words = [f"{name_of(record)}: {record.state}"]
    if record.state == "int8":
        words[0] += f" ({record.candidate}) after {record.runs_until_engine} runs"
    words.append(f"{record.runs} runs, {record.engine_runs} in the engine")
    words += [f"{count} {label}" for count, label in counts_of(record) if count]
    words += figures_of(record)
    if record.readers:
        words.append(f"read by {' and '.join(record.readers)}")
    if record.why:
        words.append(record.why)
    return printable(", ".join(words))


def name_of(record: ModelRecord) -> str:
    """Return the name of a model's file."""
    return Path(record.file).name or "a model in memory"


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
    if record.guard_speedup is not None:
        words.append(f"{record.guard_speedup:.2f} times in guarded runs")
    if record.candidate:
        words.append("equal outputs" if record.decibels is None else figure_of_metric(record))
    if record.agreement is not None:
        words.append(f"{record.agreement:.2%} of largest scores equal")
    if record.known_inputs:
        words.append(text_of_repeats(record))
    return words


def text_of_repeats(record: ModelRecord) -> str:
    """Return what the gate saw of a program that repeats its inputs, in words; "" for other programs."""
    if not record.known_inputs:
        return ""
    seen = "one input" if record.inputs == 1 else f"{record.inputs} inputs"
    return f"measured on {seen} that the program repeats; others are answered in float"


def figure_of_metric(record: ModelRecord) -> str:
    """Return the closeness to float with its unit."""
    unit = "dB" if record.metric == "decibels" else record.metric
    return f"{record.decibels:.1f} {unit}" if record.decibels is not None else ""

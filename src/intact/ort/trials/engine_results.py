"""Engines that have passed the gate, by this program or an earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from intact.ort.policies import Policy
from intact.ort.records import ModelRecord, ResultCache

if TYPE_CHECKING:
    from intact.engine import Engine


@dataclass(frozen=True)
class TrialResult:
    """Holds an engine that has passed the gate.

    Attributes:
        record: What was measured.
        engine: It.
        outputs: Names of the outputs that were compared; empty for all.
    """

    record: ModelRecord
    engine: Engine
    outputs: tuple[str, ...] = ()


def least_speed(rules: Policy, has_codes: bool) -> float:
    """Return how many times as fast as ONNX Runtime the engine must be: codes move where it is not slower."""
    return min(1.0, rules.speed) if has_codes else rules.speed


def meets(record: ModelRecord, rules: Policy, has_codes: bool) -> bool:
    """Return whether what was measured of a model passes the gate of a policy."""
    if record.metric != rules.metric_name or record.is_rejected:
        return False
    is_fast = (record.speedup or 0.0) >= least_speed(rules, has_codes)
    is_close = record.decibels is None or record.decibels >= rules.accuracy
    shares_scores = record.agreement is not None and record.agreement >= rules.agreement
    return is_fast and (is_close or shares_scores)


def load_result(cache: ResultCache, key: str, record: ModelRecord, threads: int | None) -> TrialResult | None:
    """Return the engine of a plan in the cache; None where it cannot be read."""
    from intact.engine import load

    path = cache.plan_path(key)
    try:
        engine = load(path, threads=threads)
    except Exception:  # damaged, removed meanwhile, of another version: it is made again
        return None
    cache.touch(key)
    return TrialResult(record, engine)

"""Rules that turn measurements of one tensor into findings with advice; the thresholds stand here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from intact.ptq.analysis.analysis_records import AccuracyFinding
from intact.ptq.analysis.tensor_observations import TensorObservation

DOMINANT = 0.2
"""Of the error of the whole: from there on a tensor is worth a treatment of its own."""

FEW_CHANNELS, MOST_OF_ERROR = 1 / 8, 0.9
"""So few of a tensor's channels carry so much of its error."""

FAR = 8.0
"""Times the median channel: who reaches that far takes three bits from all others."""

SATURATED = 1e-3
"""Of the values: fewer are what a method cuts off on purpose."""

BEYOND = 1.1
"""Times the range: less is what the widest value of other samples does anywhere."""

HINGED = 1.5
"""Times the second largest sample: one sample alone sets the range."""

ONE_SIDED = 0.1
"""Of the larger end: where the smaller one is less, half of a symmetric signed grid is for almost nothing."""

LEAST_SAMPLES, LEAST_CHANNELS = 8, 8

_SCARCE = 8
"""Bits of which one is worth something."""


@dataclass(frozen=True)
class TensorEvidence:
    """Holds what the rules may look at for one tensor.

    Attributes:
        name: The name of the tensor.
        observed: Its values on the hold-out samples.
        later: Its values on data that calibration did not see; None without such data.
        share: The part of the output error that this tensor causes.
        gain: The part of that error that vanishes when it alone stays in float; None if not measured.
        weight: Whether it is a constant.
        wide: The engine reads codes of 16 bits.
    """

    name: str
    observed: TensorObservation
    later: TensorObservation | None
    share: float
    gain: float | None = None
    weight: bool = False
    wide: bool = True

    @property
    def importance(self) -> float:
        """The larger of `share` and `gain`."""
        return max(self.share, self.gain or 0.0)

    @property
    def int16_advice(self) -> list[str]:
        """The advice to use 16 bits, as a list of one; empty where the engine or a weight rules that out."""
        return [f"16 bits (--bits16 '{self.name}')"] if self.wide and not self.weight else []


def findings_of(looks: Iterable[TensorEvidence]) -> list[AccuracyFinding]:
    """Apply every rule to every tensor and return the findings, those of the most important tensors first."""
    ordered = sorted(looks, key=lambda look: -look.importance)
    return [f for look in ordered for rule in (WEIGHT_RULES if look.weight else RULES) for f in rule(look)]


def find_dominant_error(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor that brings much of the output error, and whose float version lowers it."""
    if look.importance < DOMINANT or (look.gain is not None and look.gain <= 0):
        return
    says = f"brings {look.share:.0%} of the error of the outputs"
    if look.gain is not None:
        says += f"; left in float alone it takes off {look.gain:.0%}"
    fitted = ["codes fitted to its inputs (--rounding)"] if look.weight else []
    yield _finding(
        look, "dominant", says, *fitted, *look.int16_advice, "leave its layers in float (--exclude)"
    )


def find_outlier_channels(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor of which a few channels are so large that the others get few codes."""
    reach = look.observed.reach
    alive = reach[reach > 0]
    if len(alive) < LEAST_CHANNELS:
        return
    median = float(np.median(alive))
    far = int((alive > FAR * median).sum())
    if 0 < far <= max(1, FEW_CHANNELS * len(alive)):
        times = float(alive.max()) / median
        yield _finding(
            look, "outlier channels",
            f"{_channels(far, 'reach', len(reach))} up to {times:.0f} times as far as the median: the others "
            "have few codes",
            "smooth or equalize (--equalization on)", *look.int16_advice,
        )  # fmt: skip


def find_clipped_channels(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor whose error lies in a few channels that are clipped."""
    errors = np.sort(look.observed.errors)[::-1]
    if len(errors) < LEAST_CHANNELS or not errors.sum() > 0 or not look.observed.beyond:
        return
    few = int(np.searchsorted(np.cumsum(errors), MOST_OF_ERROR * errors.sum())) + 1
    if few <= max(1, FEW_CHANNELS * len(errors)):
        part = errors[:few].sum() / errors.sum()
        yield _finding(
            look, "clipped channels",
            f"{_channels(few, 'carry', len(errors))} {part:.0%} of its error: they are cut off",
            "smooth or equalize (--equalization on)", "method max", *look.int16_advice,
        )  # fmt: skip


def find_saturation(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor of which calibration values lie beyond the range."""
    observed = look.observed
    if observed.beyond > SATURATED * observed.count:
        yield _finding(
            look, "saturation", f"{observed.beyond / observed.count:.2%} of its values lie beyond the range",
            "a wider range (method max, or a higher percentile)",
        )  # fmt: skip


def find_short_range(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor whose later data exceed the range often, or by far."""
    later = look.later
    if later is None or not later.count:
        return
    reach, range_end = (
        max(-later.low, later.high),
        max(float(-later.ends[0].min()), float(later.ends[1].max())),
    )
    observed_reach = max(-look.observed.low, look.observed.high)
    before, now = look.observed.beyond / max(look.observed.count, 1), later.beyond / later.count
    if now > max(SATURATED, 2 * before) or reach > BEYOND * max(range_end, observed_reach):
        yield _finding(
            look, "range too short",
            f"{now:.2%} of its values in later data lie beyond the range "
            f"({reach:.3g}, the range {range_end:.3g})",
            "calibrate on more data, like these; or are they prepared in another way?",
        )  # fmt: skip


def find_unstable_range(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a tensor whose largest value comes from a single sample."""
    peaks = np.sort(look.observed.peaks)
    if len(peaks) >= LEAST_SAMPLES and peaks[-2] > 0 and peaks[-1] > HINGED * peaks[-2]:
        yield _finding(
            look, "unstable range",
            f"one sample of {len(peaks)} reaches {peaks[-1]:.3g}, the next one {peaks[-2]:.3g}",
            "calibrate on more data, or cut rare values off (method percentile or mse)",
        )  # fmt: skip


def find_one_sided(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report values of one sign on a grid that covers both signs."""
    observed = look.observed
    small, large = sorted((-observed.low, observed.high))
    format = observed.spec.format
    symmetric = observed.spec.symmetric and format.signed and not format.is_float
    if symmetric and format.bits <= _SCARCE and large > 0 and small < ONE_SIDED * large:
        yield _finding(
            look, "one-sided",
            f"values from {observed.low:.3g} to {observed.high:.3g} on a grid for both signs use half of the "
            "codes",
            "activations uint8, or a zero point (--asymmetric), where the engine takes them",
        )  # fmt: skip


def find_dead_channels(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report channels that are 0 in all samples."""
    dead = int((look.observed.reach == 0).sum())
    if dead and look.observed.channels >= LEAST_CHANNELS:
        what = f"{_channels(dead, 'are', look.observed.channels)} 0"
        yield _finding(
            look, "dead channels", what if look.weight else f"{what} in all samples",
            "prune them" if look.weight
            else "prune them, or give data that reach them: other inputs may, and would saturate",
        )  # fmt: skip


def find_unequal_channels(look: TensorEvidence) -> Iterator[AccuracyFinding]:
    """Report a weight with one scale whose channels differ in size."""
    if look.observed.spec.axis is None and look.observed.axis is not None:
        yield from (
            _finding(look, finding.kind, finding.says, "one scale per channel (without --per-tensor)")
            for finding in find_outlier_channels(look)
        )


RULES: tuple[Callable[[TensorEvidence], Iterator[AccuracyFinding]], ...] = (
    find_dominant_error,
    find_outlier_channels,
    find_clipped_channels,
    find_saturation,
    find_short_range,
    find_unstable_range,
    find_one_sided,
    find_dead_channels,
)
WEIGHT_RULES: tuple[Callable[[TensorEvidence], Iterator[AccuracyFinding]], ...] = (
    find_dominant_error,
    find_unequal_channels,
    find_dead_channels,
)


def _finding(look: TensorEvidence, kind: str, says: str, *advice: str) -> AccuracyFinding:
    """Build a finding from a list of alternatives, any one of which helps."""
    *first_pieces, last = advice
    words = f"{', '.join(first_pieces)}, or {last}" if first_pieces else last
    return AccuracyFinding(kind, look.name, says, words, look.share)


def _channels(count: int, verb: str, of: int) -> str:
    """Write "3 of 64 channels reach" or "1 of 64 channels reaches"."""
    single = {"reach": "reaches", "carry": "carries", "are": "is"}
    return f"{count} of {of} channels {verb if count != 1 else single[verb]}"

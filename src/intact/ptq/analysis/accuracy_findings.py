"""What is wrong with single tensors, and what helps: thresholds, words, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from intact.ptq.analysis.analysis_records import AccuracyFinding
from intact.ptq.analysis.tensor_observations import Observed

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
class Look:
    """What the rules see of one tensor.

    Attributes:
        name: Of the tensor.
        seen: On the runs that calibration kept.
        later: On data that calibration did not see; None: there are none.
        share: Of the error of the whole, of this tensor.
        gain: Part of that error that leaving it alone in float takes off; None: that was not measured.
        weight: It is a constant.
        wide: The engine reads codes of 16 bits.
    """

    name: str
    seen: Observed
    later: Observed | None
    share: float
    gain: float | None = None
    weight: bool = False
    wide: bool = True

    @property
    def matters(self) -> float:
        """How much, by either measure."""
        return max(self.share, self.gain or 0.0)

    @property
    def sixteen(self) -> list[str]:
        """The setting that gives it 16 bits, where there is one."""
        return [f"16 bits (--bits16 '{self.name}')"] if self.wide and not self.weight else []


def findings_of(looks: Iterable[Look]) -> list[AccuracyFinding]:
    """What every rule says about every tensor: those that matter most first, then in the order of `looks`."""
    ordered = sorted(looks, key=lambda look: -look.matters)
    return [f for look in ordered for rule in (WEIGHT_RULES if look.weight else RULES) for f in rule(look)]


def dominant(look: Look) -> Iterator[AccuracyFinding]:
    """One tensor brings much of the error, and without it there is less."""
    if look.matters < DOMINANT or (look.gain is not None and look.gain <= 0):
        return
    says = f"brings {look.share:.0%} of the error of the outputs"
    if look.gain is not None:
        says += f"; left in float alone it takes off {look.gain:.0%}"
    fitted = ["codes fitted to its inputs (--rounding)"] if look.weight else []
    yield _finding(look, "dominant", says, *fitted, *look.sixteen, "leave its layers in float (--exclude)")


def outlier_channels(look: Look) -> Iterator[AccuracyFinding]:
    """A few channels reach so far that the others get few codes."""
    reach = look.seen.reach
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
            "smooth or equalize (--equalization on)", *look.sixteen,
        )  # fmt: skip


def clipped_channels(look: Look) -> Iterator[AccuracyFinding]:
    """A few channels carry the error: what is cut off lies there."""
    errors = np.sort(look.seen.errors)[::-1]
    if len(errors) < LEAST_CHANNELS or not errors.sum() > 0 or not look.seen.beyond:
        return
    few = int(np.searchsorted(np.cumsum(errors), MOST_OF_ERROR * errors.sum())) + 1
    if few <= max(1, FEW_CHANNELS * len(errors)):
        part = errors[:few].sum() / errors.sum()
        yield _finding(
            look, "clipped channels",
            f"{_channels(few, 'carry', len(errors))} {part:.0%} of its error: they are cut off",
            "smooth or equalize (--equalization on)", "method max", *look.sixteen,
        )  # fmt: skip


def saturation(look: Look) -> Iterator[AccuracyFinding]:
    """Values of the calibration data lie beyond the range."""
    seen = look.seen
    if seen.beyond > SATURATED * seen.count:
        yield _finding(
            look, "saturation", f"{seen.beyond / seen.count:.2%} of its values lie beyond the range",
            "a wider range (method max, or a higher percentile)",
        )  # fmt: skip


def short_range(look: Look) -> Iterator[AccuracyFinding]:
    """Later data reach beyond the range: often, or far beyond all that calibration saw."""
    later = look.later
    if later is None or not later.count:
        return
    reach, kept = max(-later.low, later.high), max(float(-later.ends[0].min()), float(later.ends[1].max()))
    seen = max(-look.seen.low, look.seen.high)
    before, now = look.seen.beyond / max(look.seen.count, 1), later.beyond / later.count
    if now > max(SATURATED, 2 * before) or reach > BEYOND * max(kept, seen):
        yield _finding(
            look, "range too short",
            f"{now:.2%} of its values in later data lie beyond the range ({reach:.3g}, the range {kept:.3g})",
            "calibrate on more data, like these; or are they prepared in another way?",
        )  # fmt: skip


def unstable_range(look: Look) -> Iterator[AccuracyFinding]:
    """One sample alone sets the largest value: another one may go beyond it."""
    peaks = np.sort(look.seen.peaks)
    if len(peaks) >= LEAST_SAMPLES and peaks[-2] > 0 and peaks[-1] > HINGED * peaks[-2]:
        yield _finding(
            look, "unstable range",
            f"one sample of {len(peaks)} reaches {peaks[-1]:.3g}, the next one {peaks[-2]:.3g}",
            "calibrate on more data, or cut rare values off (method percentile or mse)",
        )  # fmt: skip


def one_sided(look: Look) -> Iterator[AccuracyFinding]:
    """Values of one sign on a grid for both."""
    seen = look.seen
    small, large = sorted((-seen.low, seen.high))
    format = seen.spec.format
    symmetric = seen.spec.symmetric and format.signed and not format.is_float
    if symmetric and format.bits <= _SCARCE and large > 0 and small < ONE_SIDED * large:
        yield _finding(
            look, "one-sided",
            f"values from {seen.low:.3g} to {seen.high:.3g} on a grid for both signs use half of the codes",
            "activations uint8, or a zero point (--asymmetric), where the engine takes them",
        )  # fmt: skip


def dead_channels(look: Look) -> Iterator[AccuracyFinding]:
    """Channels that are 0 throughout."""
    dead = int((look.seen.reach == 0).sum())
    if dead and look.seen.channels >= LEAST_CHANNELS:
        what = f"{_channels(dead, 'are', look.seen.channels)} 0"
        yield _finding(
            look, "dead channels", what if look.weight else f"{what} in all samples",
            "prune them" if look.weight
            else "prune them, or give data that reach them: other inputs may, and would saturate",
        )  # fmt: skip


def unlike_channels(look: Look) -> Iterator[AccuracyFinding]:
    """One scale for the channels of a weight that differ."""
    if look.seen.spec.axis is None and look.seen.axis is not None:
        yield from (
            _finding(look, one.kind, one.says, "one scale per channel (without --per-tensor)")
            for one in outlier_channels(look)
        )


RULES: tuple[Callable[[Look], Iterator[AccuracyFinding]], ...] = (
    dominant, outlier_channels, clipped_channels, saturation, short_range, unstable_range, one_sided,
    dead_channels,
)  # fmt: skip
WEIGHT_RULES: tuple[Callable[[Look], Iterator[AccuracyFinding]], ...] = (
    dominant,
    unlike_channels,
    dead_channels,
)


def _finding(look: Look, kind: str, says: str, *advice: str) -> AccuracyFinding:
    """A finding; of several pieces of advice any one helps."""
    *others, last = advice
    words = f"{', '.join(others)}, or {last}" if others else last
    return AccuracyFinding(kind, look.name, says, words, look.share)


def _channels(count: int, verb: str, of: int) -> str:
    """ "3 of 64 channels reach", "1 of 64 channels reaches"."""
    single = {"reach": "reaches", "carry": "carries", "are": "is"}
    return f"{count} of {of} channels {verb if count != 1 else single[verb]}"

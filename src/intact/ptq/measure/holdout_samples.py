"""Hold-out samples: runs kept from calibration, to measure what a choice does to the outputs."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intact.ptq.data.model_inputs import Feeds
from intact.ptq.measure.running_sums import RunningSums, add_by_name

if TYPE_CHECKING:
    from intact.calib import Histogram
    from intact.ptq.measure.running_sums import Moments

HOLDOUT_BYTES, HOLDOUT_LEAST, HOLDOUT_MOST = 2**22, 8, 64
STACKED_BYTES = 2**18
INNER_BYTES = 2**18
HALVES_MOST = 8
"""Hold-out samples that make halves, at most: more take longer for the same decibels."""

_APART = 4
"""Samples that make two halves; of fewer stacked ones each is cut in two."""


@dataclass(order=True)
class HoldoutSample:
    """Holds one run that is kept to measure what a choice does to the model's outputs.

    Attributes:
        digest: The hash of the inputs. Samples are sorted by it, so that no choice depends on the order of
            the data.
        feeds: The inputs by name.
        outputs: The float model's outputs by name.
        inner: The calibrated tensors by name, if they fit into `INNER_BYTES` together; else None.
        means: The sums of inputs by layer (`intact.ptq.measure.input_means`), where `inner` is None.
        squares: The squares of channels by tensor, where `inner` is None.
        moments: The moments of inputs by (layer, rows per run), where `inner` is None.
        stacked: How many runs of the data it holds, one behind the other along the first axis.
        counts: The histograms of the calibrated tensors in this run alone, by tensor; empty for runs that
            make no halves, that are stacked, or whose counts would take much memory.
    """

    digest: bytes
    feeds: Feeds = field(compare=False)
    outputs: dict[str, NDArray] = field(compare=False)
    inner: dict[str, NDArray] | None = field(compare=False, default=None, repr=False)
    means: dict[str, RunningSums] = field(compare=False, default_factory=dict, repr=False)
    squares: dict[str, RunningSums] = field(compare=False, default_factory=dict, repr=False)
    moments: dict[tuple[str, int], Moments] = field(compare=False, default_factory=dict, repr=False)
    stacked: int = field(compare=False, default=1)
    counts: dict[str, Histogram] = field(compare=False, default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """The bytes of inputs and outputs."""
        return sum(a.nbytes for a in (*self.feeds.values(), *self.outputs.values()))


class HoldoutSet:
    """Keeps a few of the runs, chosen by a hash of their content, independent of their order.

    At most 64, and at most 4 MiB of them where that is more than 8.
    """

    def __init__(self) -> None:
        self.runs: list[HoldoutSample] = []
        self._nbytes = 0
        self._bound: bytes | None = (
            None  # the least digest that there was no room for: none behind it, either
        )

    def offer(
        self,
        feeds: Feeds,
        outputs: dict[str, NDArray],
        inner: dict[str, NDArray] | None = None,
        digest: bytes | None = None,
        counts: dict[str, Histogram] | None = None,
    ) -> HoldoutSample | None:
        """Keep a copy of this run if its hash is among the smallest; another run may have to go.

        Args:
            feeds, outputs: Of the run.
            inner: Kept itself.
            digest: See `digest_of`; None: it is still to be made.
            counts: See `HoldoutSample`; kept of those that make halves.
        Returns:
            What is kept, if anything is.
        """
        digest = digest_of(feeds) if digest is None else digest
        if not self.may_keep(digest):
            return None
        ins, outs = ({name: a.copy() for name, a in arrays.items()} for arrays in (feeds, outputs))
        sample = HoldoutSample(digest, ins, outs, inner, counts=counts or {})
        self._keep(sample)
        return sample

    def may_keep(self, digest: bytes) -> bool:
        """Return whether a run with this digest would be kept now; none that would not is ever kept later."""
        if len(self.runs) == HOLDOUT_MOST and digest >= self.runs[-1].digest:
            return False
        return self._bound is None or digest <= self._bound

    def may_be_counted(self, feeds: Feeds, digest: bytes) -> bool:
        """Return whether a run may come to be one of those that make halves, and is not stacked."""
        leads = len(self.runs) < HALVES_MOST or digest < self.runs[HALVES_MOST - 1].digest
        return leads and is_large(feeds)

    def merge(self, other: HoldoutSet) -> None:
        """Keep those runs that a set which was offered the runs of both would have kept."""
        bounds = [bound for bound in (self._bound, other._bound) if bound is not None]
        self._bound = min(bounds, default=None)
        mine, self.runs, self._nbytes = self.runs, [], 0
        for sample in (*mine, *other.runs):
            if self._bound is None or sample.digest <= self._bound:
                self._keep(sample)

    def _keep(self, sample: HoldoutSample) -> None:
        insort(self.runs, sample)
        for later in self.runs[HALVES_MOST:]:
            later.counts = {}
        self._nbytes += sample.nbytes
        while len(self.runs) > HOLDOUT_LEAST and (
            len(self.runs) > HOLDOUT_MOST or self._nbytes > HOLDOUT_BYTES
        ):
            last = self.runs.pop()
            self._nbytes, self._bound = self._nbytes - last.nbytes, last.digest

    def stack(self) -> None:
        """Concatenate small runs, up to 256 KiB of inputs each, because fewer runs are faster."""
        stacked: list[list[HoldoutSample]] = []
        for sample in self.runs:
            last = stacked[-1] if stacked else []
            alike = bool(last) and _shapes(last[0]) == _shapes(sample)
            if alike and (len(last) + 1) * sample.nbytes <= STACKED_BYTES:
                last.append(sample)
            else:
                stacked.append([sample])
        self.runs = [_stack_samples(runs) for runs in stacked]


def is_large(feeds: Feeds) -> bool:
    """Return whether the inputs of a run are too large for another one beside them in a stack."""
    return 2 * sum(array.nbytes for array in feeds.values()) > STACKED_BYTES


def _shapes(sample: HoldoutSample) -> list[tuple[int, ...]]:
    return [array.shape for array in (*sample.feeds.values(), *sample.outputs.values())]


def _stack_samples(runs: Sequence[HoldoutSample]) -> HoldoutSample:
    feeds, outputs = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in ([sample.feeds for sample in runs], [sample.outputs for sample in runs])
    )
    means, squares = dict[str, RunningSums](), dict[str, RunningSums]()
    for sample in runs:
        add_by_name(squares, sample.squares)
    for name in runs[0].means:
        parts = [sample.means[name] for sample in runs if name in sample.means]
        total = sum(part.count for part in parts)
        means[name] = RunningSums.of_mean(np.sum([part.totals[0] for part in parts], axis=0) / total, total)
    return HoldoutSample(
        runs[0].digest, feeds, outputs, means=means, squares=squares, stacked=sum(r.stacked for r in runs)
    )


def halves_of(runs: Sequence[HoldoutSample]) -> tuple[list[HoldoutSample], list[HoldoutSample]]:
    """Return two halves of the samples; where these are few, but stacked, of what each of them holds."""
    if len(runs) >= _APART:
        return list(runs[::2]), list(runs[1::2])
    halves = [(_rows_of(run, 0, 2), _rows_of(run, 1, 2)) for run in runs if run.stacked > 1]
    return [first for first, _ in halves], [second for _, second in halves]


def _rows_of(sample: HoldoutSample, start: int, step: int) -> HoldoutSample:
    """Return every `step`-th of the runs that a stacked sample holds."""

    def pick(arrays: dict[str, NDArray]) -> dict[str, NDArray]:
        each = {name: array.reshape(sample.stacked, -1, *array.shape[1:]) for name, array in arrays.items()}
        return {n: a[start::step].reshape(-1, *arrays[n].shape[1:]) for n, a in each.items()}

    count = len(range(start, sample.stacked, step))
    return HoldoutSample(sample.digest, pick(sample.feeds), pick(sample.outputs), stacked=count)


@lru_cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # which takes as long as a kilobyte of data


def digest_of(feeds: Feeds) -> bytes:
    """Hash the inputs of a run."""
    digest = blake2b(digest_size=16)
    for name in sorted(feeds):
        array = feeds[name]
        digest.update(f"{name} {_dtype_name(array.dtype)} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.digest()

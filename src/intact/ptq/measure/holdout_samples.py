"""Runs that are kept from calibration, to measure on them what a choice does to the model's outputs."""

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
from intact.ptq.measure.channel_statistics import ChannelSquares

if TYPE_CHECKING:
    from intact.ptq.measure.second_moments import Moments

HELD_BYTES, HELD_LEAST, HELD_MOST = 2**22, 8, 64
STACKED_BYTES = 2**18
INNER_BYTES = 2**18

RunMeans = tuple[NDArray[np.float64], int]
"""Means of what a layer reads in one run (`intact.ptq.measure.input_means`), and over how many samples."""


@dataclass(order=True)
class Held:
    """One run that is kept: to measure what a choice does to the model's outputs.

    Attributes:
        digest: Of the inputs; runs are kept and summed in its order, so that no choice depends on the
            order of the data.
        feeds: The inputs.
        outputs: What the float model says to them.
        inner: What the tensors that were calibrated were in this run, where all of them are few bytes
            (`INNER_BYTES`): running the model again would tell the same. None: they were let go.
        means: Of what layers read, by layer, where inner tensors were let go.
        squares: Of channels, by tensor, likewise.
        moments: Of what layers read, by layer and `intact.ptq.measure.second_moments.rows_of_run`, likewise.
    """

    digest: bytes
    feeds: Feeds = field(compare=False)
    outputs: dict[str, NDArray] = field(compare=False)
    inner: dict[str, NDArray] | None = field(compare=False, default=None, repr=False)
    means: dict[str, RunMeans] = field(compare=False, default_factory=dict, repr=False)
    squares: dict[str, ChannelSquares] = field(compare=False, default_factory=dict, repr=False)
    moments: dict[tuple[str, int], Moments] = field(compare=False, default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Of inputs and outputs."""
        return sum(a.nbytes for a in (*self.feeds.values(), *self.outputs.values()))


class Sample:
    """A few of the runs, chosen by the hash of their content: the same ones in whatever order they come.

    At most 64, and at most 4 MiB of them where that is more than 8.
    """

    def __init__(self) -> None:
        self.runs: list[Held] = []
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
    ) -> Held | None:
        """Keep a copy of this run, if it is one of the chosen; another one may have to go.

        Args:
            feeds, outputs: Of the run.
            inner: Kept itself.
            digest: See `digest_of`; None: it is still to be made.
        Returns:
            What is kept, if anything is.
        """
        digest = digest_of(feeds) if digest is None else digest
        if not self.may_keep(digest):
            return None
        ins, outs = ({name: a.copy() for name, a in arrays.items()} for arrays in (feeds, outputs))
        held = Held(digest, ins, outs, inner)
        self._keep(held)
        return held

    def may_keep(self, digest: bytes) -> bool:
        """Whether a run with this digest would be kept now; none that would not is ever kept later."""
        if len(self.runs) == HELD_MOST and digest >= self.runs[-1].digest:
            return False
        return self._bound is None or digest <= self._bound

    def merge(self, other: Sample) -> None:
        """Keep of both what one that was offered the runs of both would have kept."""
        bounds = [bound for bound in (self._bound, other._bound) if bound is not None]
        self._bound = min(bounds, default=None)
        mine, self.runs, self._nbytes = self.runs, [], 0
        for held in (*mine, *other.runs):
            if self._bound is None or held.digest <= self._bound:
                self._keep(held)

    def _keep(self, held: Held) -> None:
        insort(self.runs, held)
        self._nbytes += held.nbytes
        while len(self.runs) > HELD_LEAST and (len(self.runs) > HELD_MOST or self._nbytes > HELD_BYTES):
            last = self.runs.pop()
            self._nbytes, self._bound = self._nbytes - last.nbytes, last.digest

    def stack(self) -> None:
        """Put small runs together, at most 256 KiB of inputs each: the fewer runs, the faster they are."""
        stacked: list[list[Held]] = []
        for held in self.runs:
            last = stacked[-1] if stacked else []
            alike = bool(last) and _shapes(last[0]) == _shapes(held)
            if alike and (len(last) + 1) * held.nbytes <= STACKED_BYTES:
                last.append(held)
            else:
                stacked.append([held])
        self.runs = [_together(runs) for runs in stacked]


def _shapes(held: Held) -> list[tuple[int, ...]]:
    return [array.shape for array in (*held.feeds.values(), *held.outputs.values())]


def _together(runs: Sequence[Held]) -> Held:
    feeds, outputs = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in ([held.feeds for held in runs], [held.outputs for held in runs])
    )
    means, squares = dict[str, RunMeans](), dict[str, ChannelSquares]()
    for held in runs:
        squares |= {name: squares[name] + s if name in squares else s for name, s in held.squares.items()}
    for name in runs[0].means:
        parts = [held.means[name] for held in runs if name in held.means]
        total = sum(samples for _, samples in parts)
        sums = np.sum([samples * mean for mean, samples in parts], axis=0)
        means[name] = sums / total, total
    return Held(runs[0].digest, feeds, outputs, means=means, squares=squares)


@lru_cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # which takes as long as a kilobyte of data


def digest_of(feeds: Feeds) -> bytes:
    """A hash of the inputs of a run."""
    digest = blake2b(digest_size=16)
    for name in sorted(feeds):
        array = feeds[name]
        digest.update(f"{name} {_dtype_name(array.dtype)} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.digest()

"""One run of the float model, every wanted tensor counted and let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from numpy.typing import NDArray

from intact.calib import Calibration
from intact.errors import IntactError
from intact.graph import Model, Session
from intact.ptq.channels import ChannelEnds
from intact.ptq.inputs import Feeds, inputs_of

Run = tuple[int, Feeds]
"""(number of the batch, feeds)."""

_FIX = "calibration runs the float model: bring it to operators and an opset that ONNX Runtime has"


def session_of(model: Model, wanted: Sequence[str], threads: int) -> Session:
    """`model` with the tensors `wanted` among its outputs."""
    fed = {one.name for one in inputs_of(model)}
    extra = [name for name in wanted if name not in fed]
    return Session(model, extra=extra, folded=True, threads=threads, fix=_FIX)


@dataclass(frozen=True)
class Asked:
    """What is counted.

    Attributes:
        wanted, outputs: Names of the tensors to count, and of the model's own outputs.
        data: What the runs are made of, in words.
        channels: The axis of those of `wanted` whose channels are looked at one by one.
    """

    wanted: Sequence[str]
    outputs: Sequence[str]
    data: str
    channels: Mapping[str, int] = field(default_factory=dict)


class Counter:
    """Counts what runs make of the wanted tensors; several runs may be under way at once.

    Args:
        session: The float model, with the wanted tensors among its outputs.
        asked: What is counted, and what is handed on.
        threads: Of counting one tensor.

    Attributes:
        calibration: What was counted.
        channels: The ends of every channel of the tensors that were asked for.
    """

    def __init__(self, session: Session, asked: Asked, threads: int) -> None:
        self.calibration, self.channels = Calibration(), dict[str, ChannelEnds]()
        self._session, self._asked, self._threads = session, asked, threads
        self._outputs, self._locks = set(asked.outputs), {name: Lock() for name in asked.wanted}

    def run(self, item: Run) -> tuple[int, Feeds, dict[str, NDArray]]:
        """Count one run of batch `number`; also returns what the model puts out."""
        number, feeds = item
        kept = {}
        try:
            for name, array in feeds.items():
                self._count(name, array)
            for name, array in self._session.stream(feeds):
                self._count(name, array)
                if name in self._outputs:
                    kept[name] = array
        except IntactError as error:
            raise error.at(f"batch {number} of data ({self._asked.data})") from error
        return number, feeds, kept

    def _count(self, name: str, array: NDArray) -> None:
        if (lock := self._locks.get(name)) is not None:
            axis = self._asked.channels.get(name)
            ends = ChannelEnds.of(array, axis) if axis is not None and array.size else None
            with lock:  # counts do not depend on whose turn it is
                self.calibration.collect(name, array, threads=self._threads)
                if ends is not None:
                    known = self.channels.get(name)
                    self.channels[name] = ends if known is None else known | ends

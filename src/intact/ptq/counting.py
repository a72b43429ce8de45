"""One run of the float model, every wanted tensor counted and let go."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from numpy.typing import NDArray

from intact.calib import Calibration
from intact.errors import IntactError
from intact.graph import Model, Session
from intact.ptq.inputs import Feeds, inputs_of

Run = tuple[int, Feeds]
"""(number of the batch, feeds)."""

_FIX = "calibration runs the float model: bring it to operators and an opset that ONNX Runtime has"


def session_of(model: Model, wanted: Sequence[str], threads: int) -> Session:
    """`model` with the tensors `wanted` among its outputs."""
    fed = {one.name for one in inputs_of(model)}
    extra = [name for name in wanted if name not in fed]
    return Session(model, extra=extra, folded=True, threads=threads, fix=_FIX)


class Counter:
    """Counts what runs make of the wanted tensors; several runs may be under way at once.

    Args:
        session: The float model, with the wanted tensors among its outputs.
        calibration: What is counted into.
        wanted, outputs: Names of the tensors to count, and of those to hand on.
        data: What the runs are made of, in words.
        threads: Of counting one tensor.
    """

    def __init__(
        self,
        session: Session,
        calibration: Calibration,
        wanted: Sequence[str],
        outputs: Sequence[str],
        data: str,
        threads: int,
    ) -> None:
        self._data, self._threads = data, threads
        self._session, self._calibration, self._outputs = session, calibration, set(outputs)
        self._locks = {name: Lock() for name in wanted}

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
            raise error.at(f"batch {number} of data ({self._data})") from error
        return number, feeds, kept

    def _count(self, name: str, array: NDArray) -> None:
        if (lock := self._locks.get(name)) is not None:
            with lock:  # counts do not depend on whose turn it is
                self._calibration.collect(name, array, threads=self._threads)

"""What a model hands to the branches of its Ifs: calibration data for a branch, as for any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from intact.graph import Branch, Model, Session, part
from intact.ptq.data import open_data
from intact.ptq.inputs import Feeds, inputs_of
from intact.ptq.settings import Settings
from intact.ptq.workers import THREADS

KEPT_BYTES = 2**26
"""Of what reaches a branch, at most."""

_SHORT, _MOST = 64, 64
"""Bytes of inputs and of outputs up to which these are remembered, and of how many runs."""


class Captured:
    """The runs of a model that take one of its branches, and what the branch reads then.

    What the first pass finds is kept where it is little; else every pass runs the model again, which must
    stay unchanged.

    Args:
        model: The model around the branch.
        branch: Of an If of its main graph.
        taken: Which batches take it.
        data: Of the model, to be read any number of times.
        settings: How many batches, of which size.
    """

    def __init__(
        self, model: Model, branch: Branch, taken: Sequence[bool], data: Any, settings: Settings
    ) -> None:
        self._model, self._taken, self._data, self._settings = model, taken, data, settings
        self._read = [value.name or "" for value in branch.model.graph.inputs]
        self._kept: list[Feeds] | None = None

    @cached_property
    def _work(self) -> _Work:
        return _Work(self._model, self._read)

    def __iter__(self) -> Iterator[Feeds]:
        return self._computing() if self._kept is None else iter(self._kept)

    def _computing(self) -> Iterator[Feeds]:
        kept: list[Feeds] | None = []
        room = KEPT_BYTES
        for feeds, taken in zip(opened(self._model, self._data, self._settings), self._taken, strict=True):
            if taken:
                found = self._work(feeds)
                room -= sum(array.nbytes for array in found.values())
                if kept is not None and room >= 0:
                    kept.append(found)
                else:
                    kept = None
                yield found
        self._kept = kept


def taken_by(
    model: Model, branches: Sequence[Branch], data: Any, settings: Settings
) -> dict[str, list[bool]]:
    """Which batches of `data` take each branch, by its name: one pass over them for all."""
    conditions = {branch.name: _condition(branch) for branch in branches}
    work = _Work(model, list(conditions.values()))
    found: dict[str, list[bool]] = {branch.name: [] for branch in branches}
    for feeds in opened(model, data, settings):
        known = work(feeds)
        for branch in branches:
            value = bool(known[conditions[branch.name]].reshape(-1)[0])
            found[branch.name].append(value == branch.condition)
    return found


def _condition(branch: Branch) -> str:
    (condition,) = branch.node.inputs
    return "" if condition is None else condition.name or ""


class _Work:
    """Runs what of a model makes some of its values: not the branches themselves.

    Args:
        model: Not changed; its weights are used in place.
        names: Of the values.
    """

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        fed = {one.name for one in inputs_of(model)}
        self._names = list(dict.fromkeys(names))
        self._computed = [name for name in self._names if name not in fed]
        self._read: list[str] | None = None  # by what is computed; None: not known
        self._session = self._session_of(model) if self._computed else None
        self._known: dict[bytes, Feeds] = {}  # what short inputs gave

    def _session_of(self, model: Model) -> Session:
        made = {value.name: value for node in model.graph for value in node.outputs}
        if not all(name in made for name in self._computed):  # constants: rare, and ONNX Runtime has them
            return Session(model, extra=self._computed, threads=THREADS)
        needed = part(model, model.graph.inputs, [made[name] for name in self._computed])
        self._read = [value.name or "" for value in needed.graph.inputs if value.uses()]
        return Session(needed, threads=THREADS)

    def __call__(self, feeds: Feeds) -> Feeds:
        """The values of one run, by name."""
        known = dict(feeds)
        if self._session is not None:
            known |= self._found(self._session, {n: feeds[n] for n in self._session.inputs if n in feeds})
        return {name: known[name] for name in self._names}

    def _found(self, session: Session, given: Feeds) -> Feeds:
        """What is computed; what came before is not run again, where numbers like a sample rate decide."""
        read = [] if self._read is None else [given[name] for name in self._read if name in given]
        short = self._read is not None and sum(array.nbytes for array in read) <= _SHORT
        key = b"".join(b"%s %s " % (str(a.shape).encode(), a.tobytes()) for a in read) if short else b""
        if short and key in self._known:
            return self._known[key]
        found = dict(session.stream(given, self._computed))
        if short and len(self._known) < _MOST and sum(array.nbytes for array in found.values()) <= _SHORT:
            self._known[key] = found
        return found


def opened(model: Model, data: Any, settings: Settings) -> Iterator[Feeds]:
    """The batches of `data` for `model`."""
    size, number = settings.batch_size, settings.num_batches
    return open_data(data, inputs_of(model), batch_size=size, num_batches=number).batches


def kept(model: Model, data: Any, settings: Settings) -> Any:
    """`data`, in memory where they can be read but once."""
    return list(opened(model, data, settings)) if isinstance(data, Iterator) else data

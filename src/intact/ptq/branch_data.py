"""What a model hands to the branches of its Ifs: calibration data for a branch, as for any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from intact.graph import Branch, Model, Session, inputs_behind, part
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.data.parallel_runs import THREADS
from intact.ptq.scope.settings import Settings

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
        known: What the branch reads in these runs, where that was found already.
    """

    def __init__(
        self, model: Model, branch: Branch, taken: Sequence[bool], data: Any, settings: Settings,
        known: list[Feeds] | None = None,
    ) -> None:  # fmt: skip
        self._model, self._taken, self._data, self._settings = model, taken, data, settings
        self._read, self._kept = branch.reads, known

    @cached_property
    def _work(self) -> _Work:
        return _Work(self._model, self._read)

    def __iter__(self) -> Iterator[Feeds]:
        return self._computing() if self._kept is None else iter(self._kept)

    def _computing(self) -> Iterator[Feeds]:
        kept = _Kept(KEPT_BYTES)
        for feeds, taken in zip(opened(self._model, self._data, self._settings), self._taken, strict=True):
            if taken:
                found = self._work(feeds)
                kept.add(found)
                yield found
        self._kept = kept.all


class _Kept:
    """Runs that are kept as long as they are little together.

    Attributes:
        all: The runs; None where they were too much.
    """

    def __init__(self, room: int) -> None:
        self.all: list[Feeds] | None = []
        self._room = room

    def add(self, found: Feeds) -> None:
        self._room -= sum(array.nbytes for array in found.values())
        if self.all is not None and self._room >= 0:
            self.all.append(found)
        else:
            self.all = None


class Handed:
    """What the runs of a model hand to its branches, found in one pass over the data for all of them.

    Where numbers like a sample rate decide, the pass works out nothing but the conditions, once for each of
    their values; else it takes with it what the branches read.

    Args:
        model: Not changed.
        branches: Of Ifs of its main graph.
        data, settings: As for `Captured`.

    Attributes:
        taken: Which batches take each branch, by its name.
    """

    def __init__(self, model: Model, branches: Sequence[Branch], data: Any, settings: Settings) -> None:
        self._model, self._data, self._settings = model, data, settings
        self.taken: dict[str, list[bool]] = {branch.name: [] for branch in branches}
        self._kept: dict[str, _Kept] = {}
        conditions = {branch.name: _condition(branch) for branch in branches}
        deciding = inputs_behind(model, list(conditions.values()))
        work = None
        for feeds in opened(model, data, settings):
            if work is None:
                names = list(conditions.values())
                if sum(feeds[name].nbytes for name in deciding) > _SHORT:
                    names += [name for branch in branches for name in branch.reads]
                    self._kept = {branch.name: _Kept(KEPT_BYTES // len(branches)) for branch in branches}
                work = _Work(model, names)
            known = work(feeds)
            for branch in branches:
                value = bool(known[conditions[branch.name]].reshape(-1)[0])
                self.taken[branch.name].append(taken := value == branch.condition)
                if taken and self._kept:
                    self._kept[branch.name].add({name: known[name] for name in branch.reads})

    def to(self, branch: Branch) -> Captured:
        """The data of a branch."""
        known = self._kept[branch.name].all if self._kept else None
        return Captured(self._model, branch, self.taken[branch.name], self._data, self._settings, known)


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
            return Session(model, extra=self._computed, folded=True, threads=THREADS)
        needed = part(model, model.graph.inputs, [made[name] for name in self._computed])
        self._read = [value.name or "" for value in needed.graph.inputs if value.uses()]
        return Session(needed, folded=True, threads=THREADS)

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

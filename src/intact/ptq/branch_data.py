"""Calibration data for the branches of an If: the tensors that the outer model hands to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from intact.graph import Branch, Model, Session, inputs_behind, part
from intact.processes import cached_property
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.data.parallel_runs import THREADS
from intact.ptq.scope.settings import Settings

KEPT_BYTES = 2**26
"""Of what reaches a branch, at most."""

_SHORT, _MOST = 64, 64
"""Bytes of inputs and of outputs up to which these are remembered, and of how many runs."""


class BranchRuns:
    """Iterates over the runs that take one branch, as feeds of that branch.

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
        self, model: Model, branch: Branch, routes: Sequence[bool], data: Any, settings: Settings,
        runs: list[Feeds] | None = None,
    ) -> None:  # fmt: skip
        self._model, self._taken, self._data, self._settings = model, routes, data, settings
        self._read, self._stores = branch.reads, runs

    @cached_property
    def _work(self) -> _PartialModel:
        return _PartialModel(self._model, self._read)

    def __iter__(self) -> Iterator[Feeds]:
        return self._compute_runs() if self._stores is None else iter(self._stores)

    def _compute_runs(self) -> Iterator[Feeds]:
        store = _BoundedStore(KEPT_BYTES)
        for feeds, is_routed in zip(
            open_batches(self._model, self._data, self._settings), self._taken, strict=True
        ):
            if is_routed:
                branch_feeds = self._work(feeds)
                store.add(branch_feeds)
                yield branch_feeds
        self._stores = store.all


class _BoundedStore:
    """Keeps runs while they fit into a bound of bytes together.

    Attributes:
        all: The runs; None where they were too much.
    """

    def __init__(self, room: int) -> None:
        self.all: list[Feeds] | None = []
        self._room = room

    def add(self, feeds: Feeds) -> None:
        self._room -= sum(array.nbytes for array in feeds.values())
        if self.all is not None and self._room >= 0:
            self.all.append(feeds)
        else:
            self.all = None


class BranchRouting:
    """Finds, in one pass over the data, which runs take which branch.

    Where numbers like a sample rate decide, the pass works out nothing but the conditions, once for each of
    their values; else it takes with it what the branches read.

    Args:
        model: Not changed.
        branches: Of Ifs of its main graph.
        data, settings: As for `BranchRuns`.

    Attributes:
        taken: Which batches take each branch, by its name.
    """

    def __init__(self, model: Model, branches: Sequence[Branch], data: Any, settings: Settings) -> None:
        self._model, self._data, self._settings = model, data, settings
        self.routes: dict[str, list[bool]] = {branch.name: [] for branch in branches}
        self._stores: dict[str, _BoundedStore] = {}
        conditions = {branch.name: _condition(branch) for branch in branches}
        deciding = inputs_behind(model, list(conditions.values()))
        partial_model = None
        for feeds in open_batches(model, data, settings):
            if partial_model is None:
                names = list(conditions.values())
                if sum(feeds[name].nbytes for name in deciding) > _SHORT:
                    names += [name for branch in branches for name in branch.reads]
                    self._stores = {
                        branch.name: _BoundedStore(KEPT_BYTES // len(branches)) for branch in branches
                    }
                partial_model = _PartialModel(model, names)
            values = partial_model(feeds)
            for branch in branches:
                value = bool(values[conditions[branch.name]].reshape(-1)[0])
                self.routes[branch.name].append(is_routed := value == branch.condition)
                if is_routed and self._stores:
                    self._stores[branch.name].add({name: values[name] for name in branch.reads})

    def data_for(self, branch: Branch) -> BranchRuns:
        """Return the data of a branch."""
        runs = self._stores[branch.name].all if self._stores else None
        return BranchRuns(self._model, branch, self.routes[branch.name], self._data, self._settings, runs)


def _condition(branch: Branch) -> str:
    (condition,) = branch.node.inputs
    return "" if condition is None else condition.name or ""


class _PartialModel:
    """Runs the part of a model that computes some of its values, without the branches.

    Args:
        model: Not changed; its weights are used in place.
        names: Of the values.
    """

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        fed = {model_input.name for model_input in inputs_of(model)}
        self._names = list(dict.fromkeys(names))
        self._computed = [name for name in self._names if name not in fed]
        self._read: list[str] | None = None  # by what is computed; None: not known
        self._session = self._session_of(model) if self._computed else None
        self._cache: dict[bytes, Feeds] = {}  # what short inputs gave

    def _session_of(self, model: Model) -> Session:
        values_by_name = {value.name: value for node in model.graph for value in node.outputs}
        if not all(
            name in values_by_name for name in self._computed
        ):  # constants: rare, and ONNX Runtime has them
            return Session(model, extra=self._computed, folded=True, threads=THREADS)
        needed = part(model, model.graph.inputs, [values_by_name[name] for name in self._computed])
        self._read = [value.name or "" for value in needed.graph.inputs if value.uses()]
        return Session(needed, folded=True, threads=THREADS)

    def __call__(self, feeds: Feeds) -> Feeds:
        """Return the values of one run, by name."""
        values = dict(feeds)
        if self._session is not None:
            values |= self._compute(self._session, {n: feeds[n] for n in self._session.inputs if n in feeds})
        return {name: values[name] for name in self._names}

    def _compute(self, session: Session, feeds: Feeds) -> Feeds:
        """Compute the values; results for short inputs, such as a sample rate, come from a cache."""
        read = [] if self._read is None else [feeds[name] for name in self._read if name in feeds]
        short = self._read is not None and sum(array.nbytes for array in read) <= _SHORT
        key = b"".join(b"%s %s " % (str(a.shape).encode(), a.tobytes()) for a in read) if short else b""
        if short and key in self._cache:
            return self._cache[key]
        values = dict(session.stream(feeds, self._computed))
        if short and len(self._cache) < _MOST and sum(array.nbytes for array in values.values()) <= _SHORT:
            self._cache[key] = values
        return values


def open_batches(model: Model, data: Any, settings: Settings) -> Iterator[Feeds]:
    """Open `data` as batches for `model`.

    Args:
        model: Whose inputs the batches fit.
        data: As `quantize` takes them.
        settings: Sizes and number of batches.
    Raises:
        QuantValueError: The data do not fit the model.
    """
    size, number = settings.batch_size, settings.num_batches
    return open_data(data, inputs_of(model), batch_size=size, num_batches=number).batches


def keep_if_read_once(model: Model, data: Any, settings: Settings) -> Any:
    """Return `data`; an iterator, which can be read only once, becomes a list."""
    return list(open_batches(model, data, settings)) if isinstance(data, Iterator) else data

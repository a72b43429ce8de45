"""What a model hands to the branches of its Ifs: calibration data for a branch, as for any model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from intact.graph import Branch, Model, Session
from intact.ptq.data import open_data
from intact.ptq.inputs import Feeds, inputs_of
from intact.ptq.settings import Settings


class Captured:
    """The runs of a model that take one of its branches, and what the branch reads then.

    Nothing is kept: every pass over it runs the model again, which must stay unchanged.

    Args:
        model: The model around the branch.
        branch: Of an If of its main graph.
        data: Of the model, to be read any number of times.
        settings: How many batches, of which size.
    """

    def __init__(self, model: Model, branch: Branch, data: Any, settings: Settings) -> None:
        self._model, self._branch, self._data, self._settings = model, branch, data, settings
        (condition,) = branch.node.inputs
        self._condition = "" if condition is None else condition.name or ""
        self._read = [value.name or "" for value in branch.model.graph.inputs]
        fed = {one.name for one in inputs_of(model)}
        self._computed = [name for name in dict.fromkeys((self._condition, *self._read)) if name not in fed]

    @cached_property
    def _session(self) -> Session:
        return Session(self._model, extra=self._computed)

    def __iter__(self) -> Iterator[Feeds]:
        for feeds in opened(self._model, self._data, self._settings):
            known = feeds | dict(self._session.stream(feeds, self._computed))
            if bool(known[self._condition].reshape(-1)[0]) == self._branch.condition:
                yield {name: known[name] for name in self._read}

    @property
    def reached(self) -> bool:
        """Whether any run takes the branch."""
        return any(True for _ in self)


def opened(model: Model, data: Any, settings: Settings) -> Iterator[Feeds]:
    """The batches of `data` for `model`."""
    size, number = settings.batch_size, settings.num_batches
    return open_data(data, inputs_of(model), batch_size=size, num_batches=number).batches


def kept(model: Model, data: Any, settings: Settings) -> Any:
    """`data`, in memory where they can be read but once."""
    return list(opened(model, data, settings)) if isinstance(data, Iterator) else data

"""What layers of the float model read on held runs, looked at by several stages in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from numpy.typing import NDArray

from intact.graph import Model, Session
from intact.ptq.sample import Held
from intact.ptq.workers import THREADS, in_order

Found = TypeVar("Found")
Readers: TypeAlias = Mapping[str, Mapping[str, Callable[[NDArray], Found]]]
"""By tensor, and by the layer that reads it: what looks at it."""


def measured(
    model: Model, runs: Sequence[Held], *readers: Readers[Any]
) -> Iterator[tuple[dict[str, Any], ...]]:
    """For each run, in order, what each of `readers` finds, by layer; nothing of an empty tensor.

    Args:
        model: Float; must not change meanwhile.
        runs: To run it on, with the same inputs each.
        readers: Each one's functions are called from several threads.
    """
    fed = set(runs[0].feeds)
    tensors = list(dict.fromkeys(name for one in readers for name in one))
    computed = [name for name in tensors if name not in fed]
    session = Session(model, extra=computed, folded=True, threads=THREADS)

    def of_run(held: Held) -> tuple[dict[str, Any], ...]:
        found: tuple[dict[str, Any], ...] = tuple({} for _ in readers)
        given = ((name, held.feeds[name]) for name in tensors if name in fed)
        for part in (given, session.stream(held.feeds, computed)):
            for name, x in part:
                for one, into in zip(readers, found, strict=True):
                    if x.size:
                        into.update((layer, look(x)) for layer, look in one.get(name, {}).items())
        return found

    yield from in_order(of_run, runs)

"""What layers of the float model read on held runs, looked at by several stages in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from numpy.typing import NDArray

from intact.graph import Model, Session, part
from intact.ptq.data.model_inputs import Feeds
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import Held

Found = TypeVar("Found")
Readers: TypeAlias = Mapping[str, Mapping[str, Callable[[NDArray], Found]]]
"""By tensor, and by the layer that reads it: what looks at it. Where that has a method `together`, it takes
the tensors of many runs, and gives what it would find in each."""


def measured(
    model: Model, runs: Sequence[Held], *readers: Readers[Any], has_run: bool = False
) -> Iterator[tuple[dict[str, Any], ...]]:
    """For each run, in order, what each of `readers` finds, by layer; nothing of an empty tensor.

    Args:
        model: Float; must not change meanwhile.
        runs: To run it on, with the same inputs each.
        readers: Each one's functions are called from several threads.
        has_run: The inner tensors that `runs` hold are those of `model`: what they do not tell is made of
            them, and the model runs only where they were let go.
    """
    fed = set(runs[0].feeds)
    tensors = list(dict.fromkeys(name for one in readers for name in one))
    computed = [name for name in tensors if name not in fed]
    made = {value.name for node in model.graph for value in node.outputs}
    if has_run and made.issuperset(computed) and all(held.inner is not None for held in runs):
        yield from _kept(_known(model, runs, computed), tensors, readers)
        return
    session = Session(model, extra=computed, folded=True, threads=THREADS)

    def of_run(held: Held) -> tuple[dict[str, Any], ...]:
        found: tuple[dict[str, Any], ...] = tuple({} for _ in readers)
        given = ((name, held.feeds[name]) for name in tensors if name in fed)
        for half in (given, session.stream(held.feeds, computed)):
            for name, x in half:
                for one, into in zip(readers, found, strict=True):
                    if x.size:
                        into.update((layer, look(x)) for layer, look in one.get(name, {}).items())
        return found

    yield from in_order(of_run, runs)


def _known(model: Model, runs: Sequence[Held], computed: Sequence[str]) -> list[Feeds]:
    """The tensors of each run, by name: those that it holds, and what they make of others of `computed`."""
    values = [{**held.feeds, **(held.inner or {})} for held in runs]
    if missing := [name for name in computed if name not in values[0]]:
        made = {value.name or "": value for node in model.graph for value in node.outputs}
        held = [made[name] for name in values[0] if name in made]
        needed = part(model, [*model.graph.inputs, *held], [made[name] for name in missing])
        read = [value for value in needed.graph.inputs if value.uses()]
        needed.graph.inputs[:] = read
        session = Session(needed, folded=True, threads=THREADS)
        for one in values:
            given = {name: one[name] for value in read if (name := value.name or "") in one}
            one.update(session.stream(given, missing))
    return values


def _kept(
    values: Sequence[Feeds], tensors: Sequence[str], readers: Sequence[Readers[Any]]
) -> Iterator[tuple[dict[str, Any], ...]]:
    """What `readers` find in tensors by name, of one run after the other."""
    early: dict[tuple[int, str], Iterator[Any]] = {}
    for place, one in enumerate(readers):
        for name, layers in one.items():
            tensors_of_runs = [held[name] for held in values if held[name].size]
            for layer, look in layers.items():
                together = getattr(look, "together", None)
                if together is not None and tensors_of_runs:
                    early[place, layer] = iter(together(tensors_of_runs))
    for held in values:
        found: tuple[dict[str, Any], ...] = tuple({} for _ in readers)
        for place, (one, into) in enumerate(zip(readers, found, strict=True)):
            for name in (name for name in tensors if name in one and held[name].size):
                for layer, look in one[name].items():
                    known = early.get((place, layer))
                    into[layer] = look(held[name]) if known is None else next(known)
        yield found

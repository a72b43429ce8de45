"""Reads the inputs of layers on hold-out samples, for several stages in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from numpy.typing import NDArray

from intact.graph import Model, Session, part
from intact.ptq.data.model_inputs import Feeds
from intact.ptq.data.parallel_runs import THREADS, in_order
from intact.ptq.measure.holdout_samples import HoldoutSample

Result = TypeVar("Result")
Readers: TypeAlias = Mapping[str, Mapping[str, Callable[[NDArray], Result]]]
"""By tensor, and by the layer that reads it: what looks at it. Where that has a method `together`, it takes
the tensors of many runs, and gives what it would find in each."""


def read_layer_inputs(
    model: Model, runs: Sequence[HoldoutSample], *readers: Readers[Any], has_run: bool = False
) -> Iterator[tuple[dict[str, Any], ...]]:
    """Yield, for each run in order, what each of `readers` computes, by layer. Empty tensors are skipped.

    Args:
        model: Float; must not change meanwhile.
        runs: To run it on, with the same inputs each.
        readers: Each one's functions are called from several threads.
        has_run: The inner tensors that `runs` hold are those of `model`: what they do not tell is made of
            them, and the model runs only where they were let go.
    """
    fed = set(runs[0].feeds)
    tensors = list(dict.fromkeys(name for reader in readers for name in reader))
    computed = [name for name in tensors if name not in fed]
    values_by_name = {value.name for node in model.graph for value in node.outputs}
    if has_run and values_by_name.issuperset(computed) and all(sample.inner is not None for sample in runs):
        yield from _apply_readers(_inner_tensors(model, runs, computed), tensors, readers)
        return
    session = Session(model, extra=computed, folded=True, threads=THREADS)

    def of_run(sample: HoldoutSample) -> tuple[dict[str, Any], ...]:
        results: tuple[dict[str, Any], ...] = tuple({} for _ in readers)
        fed_tensors = ((name, sample.feeds[name]) for name in tensors if name in fed)
        for half in (fed_tensors, session.stream(sample.feeds, computed)):
            for name, x in half:
                for reader, into in zip(readers, results, strict=True):
                    if x.size:
                        into.update((layer, look(x)) for layer, look in reader.get(name, {}).items())
        return results

    yield from in_order(of_run, runs)


def _inner_tensors(model: Model, runs: Sequence[HoldoutSample], computed: Sequence[str]) -> list[Feeds]:
    """Return the tensors of each run by name: those that it holds, and those computed from them."""
    values = [{**sample.feeds, **(sample.inner or {})} for sample in runs]
    if missing := [name for name in computed if name not in values[0]]:
        values_by_name = {value.name or "": value for node in model.graph for value in node.outputs}
        sample = [values_by_name[name] for name in values[0] if name in values_by_name]
        needed = part(model, [*model.graph.inputs, *sample], [values_by_name[name] for name in missing])
        read = [value for value in needed.graph.inputs if value.uses()]
        needed.graph.inputs[:] = read
        session = Session(needed, folded=True, threads=THREADS)
        for tensors in values:
            feeds = {name: tensors[name] for value in read if (name := value.name or "") in tensors}
            tensors.update(session.stream(feeds, missing))
    return values


def _apply_readers(
    values: Sequence[Feeds], tensors: Sequence[str], readers: Sequence[Readers[Any]]
) -> Iterator[tuple[dict[str, Any], ...]]:
    """Yield what `readers` compute from the tensors of each run."""
    early: dict[tuple[int, str], Iterator[Any]] = {}
    for place, reader in enumerate(readers):
        for name, layers in reader.items():
            tensors_of_runs = [run[name] for run in values if run[name].size]
            for layer, look in layers.items():
                together = getattr(look, "together", None)
                if together is not None and tensors_of_runs:
                    early[place, layer] = iter(together(tensors_of_runs))
    for run in values:
        results: tuple[dict[str, Any], ...] = tuple({} for _ in readers)
        for place, (reader, into) in enumerate(zip(readers, results, strict=True)):
            for name in (name for name in tensors if name in reader and run[name].size):
                for layer, look in reader[name].items():
                    early_results = early.get((place, layer))
                    into[layer] = look(run[name]) if early_results is None else next(early_results)
        yield results

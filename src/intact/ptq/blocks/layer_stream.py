"""Runs a model piece by piece: up to the input of a layer, and on from there when the layer has changed.

What lies between two layers runs in ONNX Runtime as a model of its own. Only tensors that later pieces read
are kept, for every batch of the calibration data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import (
    Constants,
    Model,
    Node,
    Session,
    Value,
    is_block_operator,
    part,
    strip_dynamic,
    subgraphs,
)
from intact.ptq.data.model_inputs import Feeds

Rows = NDArray[np.float32]
_ROWS = 1024  # of inputs that are multiplied at once: each product is added to K x K sums


class LayerStream:
    """Gives the inputs of one layer after the other.

    Args:
        model: May be changed between two calls of `advance` behind the node that the last one named; names
            of values stay.
        batches: Of its inputs, checked.
    """

    def __init__(self, model: Model, batches: Iterable[Feeds]) -> None:
        self._model = model
        self._live = [dict(feeds) for feeds in batches]

    def advance(self, name: str) -> None:
        """Run what stands in front of the node `name`.

        Raises:
            UnsupportedError: ONNX Runtime cannot run it.
        """
        nodes = list(self._model.graph)
        place = next(number for number, node in enumerate(nodes) if node.name == name)
        constants = Constants(self._model.graph)
        front = set(nodes[:place])
        needed = {
            value.name or "": value
            for later in nodes[len(front) :]
            for value in _inputs_of(later)
            if value not in constants and (value.producer() in front or value.is_graph_input())
        }
        stored = set(self._live[0]) if self._live else set()
        missing = {name: value for name, value in needed.items() if name not in stored}
        if missing and self._live:
            self._run(needed, missing, stored)
        for tensors in self._live:
            for name in tensors.keys() - needed.keys():
                del tensors[name]

    def tensors(self, name: str) -> Iterator[NDArray]:
        """Yield a tensor that stands in front of the current layer, batch by batch.

        Raises:
            QuantValueError: There is none of this name.
        """
        for tensors in self._live:
            if name not in tensors:
                raise QuantValueError(
                    f"tensor '{name}'", "none", "an input of the layer", "report this model"
                )
            yield tensors[name]

    def _run(self, needed: dict[str, Value], missing: dict[str, Value], stored: set[str]) -> None:
        feeds = _leaves(missing.values(), stored)
        names = [value.name or "" for value in feeds]
        section = part(self._model, feeds, list(missing.values()))
        if any(is_block_operator(node) for node in section.graph):  # ONNX Runtime has no such operators
            strip_dynamic(section)
        session = Session(section, folded=True)
        for tensors in self._live:
            results = session.run({name: tensors[name] for name in names})
            for name in tensors.keys() - needed.keys():
                del tensors[name]
            tensors.update(results)


def join_rows(tensors: Iterable[tuple[NDArray, ...]]) -> Iterator[tuple[Rows, ...]]:
    """Yield tuples of tensors [..., K] as float32 rows [rows, K] each, many at a time."""
    waiting: list[tuple[Rows, ...]] = []
    for group in tensors:
        waiting.append(tuple(np.asarray(x.reshape(-1, x.shape[-1]), np.float32) for x in group))
        if sum(len(rows) for rows, *_ in waiting) >= _ROWS:
            yield tuple(map(np.concatenate, zip(*waiting, strict=True)))
            waiting = []
    if waiting:
        yield tuple(map(np.concatenate, zip(*waiting, strict=True)))


def _inputs_of(node: Node) -> list[Value]:
    """Return what a node reads, its subgraphs included."""
    values = [value for value in node.inputs if value is not None]
    for graph in subgraphs(node):
        for inner in graph:
            values += _inputs_of(inner)
    return values


def _leaves(targets: Iterable[Value], stored: set[str]) -> list[Value]:
    """Return the stored values from which `targets` are computed, in the order in which they are met."""
    waiting, seen, leaves = list(targets), set(), []
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.name in stored:
            leaves.append(value)
        elif (producer := value.producer()) is not None:
            waiting += _inputs_of(producer)
    return leaves

"""Runs a model piece by piece: up to the input of a layer, and on from there when the layer has changed.

What lies between two layers runs in ONNX Runtime as a model of its own. Only tensors that later pieces read
are kept, for every batch of the calibration data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import (
    Graph,
    Model,
    Session,
    Value,
    constants_of,
    extract_section,
    is_block_operator,
    read_values,
    strip_dynamic,
)
from intact.ptq.data.model_inputs import Feeds

Rows = NDArray[np.float32]
_ROWS = 1024  # of inputs that are multiplied at once: each product is added to K x K sums


class LayerStream:
    """Gives the inputs of one layer after the other.

    Args:
        model: May be changed between two calls of `advance` behind the node that the last one named; names
            of values stay.
        graphs: From its main graph inwards, the last one with the layers.
        batches: Of the inputs of that graph, and of what it reads of the others, checked.

    Attributes:
        batches: Tensors that later nodes read, by name, of each batch.
    """

    def __init__(self, model: Model, graphs: Sequence[Graph], batches: Iterable[Feeds]) -> None:
        self.model, self.graphs = model, tuple(graphs)
        self.batches = [dict(feeds) for feeds in batches]
        self._passed: set[str | None] = set()

    def advance(self, name: str) -> bool:
        """Run what stands in front of the node `name`; return whether it has not been passed already.

        Raises:
            UnsupportedError: ONNX Runtime cannot run it.
        """
        if name in self._passed:
            return False
        nodes = list(self.graphs[-1])
        place = next(number for number, node in enumerate(nodes) if node.name == name)
        constants = constants_of(self.graphs)
        later = {value for node in nodes[place:] for value in node.outputs}
        needed = {
            value.name or "": value
            for node in nodes[place:]
            for value in read_values(node)
            if value not in constants and value not in later
        }
        stored = set(self.batches[0]) if self.batches else set()
        missing = {name: value for name, value in needed.items() if name not in stored}
        if missing and self.batches:
            self._run(needed, missing, stored)
        for tensors in self.batches:
            for other in tensors.keys() - needed.keys():
                del tensors[other]
        self._passed |= {node.name for node in nodes[:place]}
        return True

    def tensors(self, name: str) -> Iterator[NDArray]:
        """Yield a tensor that stands in front of the current layer, batch by batch.

        Raises:
            QuantValueError: There is none of this name.
        """
        for tensors in self.batches:
            if name not in tensors:
                raise QuantValueError(
                    f"tensor '{name}'", "none", "an input of the layer", "report this model"
                )
            yield tensors[name]

    def _run(self, needed: dict[str, Value], missing: dict[str, Value], stored: set[str]) -> None:
        feeds = _leaves(missing.values(), stored)
        names = [value.name or "" for value in feeds]
        section = extract_section(self.model, self.graphs, feeds, list(missing.values()))
        if any(map(is_block_operator, section.graph.all_nodes())):  # ONNX Runtime has no such operators
            strip_dynamic(section)
        session = Session(section, folded=True)
        for tensors in self.batches:
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
            waiting += read_values(producer)
    return leaves

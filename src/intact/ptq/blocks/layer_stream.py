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
    SIDES,
    Constants,
    Graph,
    Model,
    Node,
    Session,
    Value,
    constants_of,
    extract_section,
    inner_graphs,
    is_block_operator,
    outer_values,
    read_values,
    strip_dynamic,
)
from intact.ptq.blocks.linear_layers import LinearLayer, Path
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


_Streams = tuple[LayerStream, ...]


class BranchStreams:
    """Gives the inputs of layers of a model and of its branches, in the order in which they run.

    Args:
        models: Of the same nodes and branches, computed side by side: with codes, and without. They may
            be changed as for `LayerStream`.
        batches: Of their inputs, checked.
    """

    def __init__(self, models: Sequence[Model], batches: Iterable[Feeds]) -> None:
        inputs = list(batches)
        self.count = len(models)
        self._streams: dict[Path, _Streams | None] = {
            (): tuple(LayerStream(model, (model.graph,), inputs) for model in models)
        }

    def rows(self, layer: LinearLayer) -> Iterator[tuple[Rows, ...]]:
        """Yield what a layer multiplies, in each model, as `join_rows` does.

        Nothing where no batch reaches it: in branches that none takes, in bodies of loops, and in front of
        a layer of the same branch whose inputs were given already.
        """
        streams = self._advance(layer.path, layer.node.name or "")
        if streams is not None:
            name = layer.source.name or ""
            yield from join_rows(zip(*(stream.tensors(name) for stream in streams), strict=True))

    def _advance(self, path: Path, node: str) -> _Streams | None:
        """Run what stands in front of a node, in all models; None where no batch reaches it any more."""
        streams = self._open(path)
        reached = [stream.advance(node) for stream in streams or ()]
        if streams is None or not all(reached):
            return None
        for inner in [inner for inner in self._streams if inner[: len(path)] == path != inner]:
            if inner[len(path)][0] != node:
                del self._streams[inner]  # its If has been passed
        return streams

    def _open(self, path: Path) -> _Streams | None:
        """Return the streams of a graph; None where no batch reaches it."""
        if path not in self._streams:
            *outer, (node, side) = path
            streams = self._advance(tuple(outer), node) if side in SIDES else None
            self._streams[path] = None if streams is None else _enter(streams, node, side)
        return self._streams[path]


def _enter(streams: _Streams, node: str, side: str) -> _Streams | None:
    """Return the streams of a branch, on the batches that take it in all models; None where none does."""
    conditions = zip(*(_conditions(stream, node) for stream in streams), strict=True)
    is_taken = [set(values) == {SIDES[side]} for values in conditions]
    if not any(is_taken):
        return None
    entered = []
    for stream in streams:
        branch, constants = inner_graphs(_node(stream, node))[side], constants_of(stream.graphs)
        names = {value.name or "" for value in outer_values(branch) if value not in constants}
        if not stream.batches[0].keys() >= names:
            return None  # it reads a list of tensors
        feeds = [
            {name: tensors[name] for name in names}
            for tensors, is_in in zip(stream.batches, is_taken, strict=True)
            if is_in
        ]
        entered.append(LayerStream(stream.model, (*stream.graphs, branch), feeds))
    return tuple(entered)


def _conditions(stream: LayerStream, node: str) -> Iterator[bool]:
    """Yield the condition of an If for each batch."""
    (condition,) = _node(stream, node).inputs
    assert condition is not None
    name = condition.name or ""
    for tensors in stream.batches:
        value = tensors[name] if name in tensors else Constants(stream.model.graph)(condition)
        if value is not None:
            yield bool(value.reshape(-1)[0])


def _node(stream: LayerStream, name: str) -> Node:
    return next(node for node in stream.graphs[-1] if node.name == name)

"""Cross-layer equalization: channels of consecutive layers rescaled so that their weights span like ranges.

A positive factor per channel passes through Relu and pooling: ``conv2(relu(conv1(x)))`` stays the same when
channel i of conv1's output is divided by s[i] and conv2's weights for it are multiplied by s[i]. With
``s = sqrt(r1 * r2) / r2``, r1 and r2 the largest weights of the channel on either side, both become
sqrt(r1 * r2) (Nagel et al. 2019, section 4.1). It helps where one scale serves channels of unlike size: a
weight with one scale, and the activations between depthwise convolutions.

No factor passes through the Clip of a Relu6: its bound is one number for all channels, and would have to be
divided by each channel's factor. (The paper makes it a Relu, which is another function.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact.graph import Constants, Model, Node, Value, set_initializer
from intact.graph.ops.attributes import integer
from intact.ptq.measure.quantization_state import State
from intact.ptq.stages.smoothing import smooths_images

_PASSING = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
_ROUNDS = 8
"""Each round equalizes every pair once; chains of depthwise layers need several to settle."""


@dataclass(frozen=True)
class ConvPair:
    """Two convolutions with nothing between them but what a positive factor per channel passes through."""

    first: Node
    second: Node

    @property
    def depthwise(self) -> bool:
        """Whether the second one keeps its channels apart."""
        return _groups(self.second) > 1


def equalized_as_asked(state: State) -> State | None:
    """The model equalized where that was asked for, before its statistics are collected."""
    if state.calibration is not None:
        return None
    state = replace(state, not_equalized=clipped_pairs(state.model))
    return _equalized(state) if state.settings.equalization is True else state


def equalized_where_it_matters(state: State) -> State | None:
    """The equalized model, its statistics to be collected anew; None where equalizing cannot matter.

    It can where weights have one scale, or layers are depthwise, unless what these read is smoothed anyway,
    which needs no second pass over the data.
    """
    if not state.runs or state.settings.equalization != "auto":
        return None
    pairs = find_pairs(state.model)
    depthwise = any(pair.depthwise for pair in pairs) and not smooths_images(state)
    return _equalized(state) if depthwise or (pairs and not state.settings.per_channel) else None


def read_once(state: State) -> str:
    """Why the statistics of `state` cannot be collected anew; empty where they can."""
    if not isinstance(state.data, Iterator):
        return ""
    once = "equalization would help, but the data can be read only once"
    return f"{once}: give a list, or equalization=True (--equalization on)"


def _equalized(state: State) -> State:
    model = state.model.clone()
    count = equalize(model)
    return replace(state, model=model, equalized=count > 0, calibration=None)


def find_pairs(model: Model) -> list[ConvPair]:
    """The pairs whose weights can be balanced, in the graph's order."""
    return [pair for pair, clips in _candidates(model) if not clips]


def clipped_pairs(model: Model) -> str:
    """The pairs that a Clip keeps from being balanced, and why, as a clause; empty where there are none."""
    clips = [found[0].name for _, found in _candidates(model) if found]
    if not clips:
        return ""
    shown = ", ".join(f"'{name}'" for name in clips[:3]) + (", ..." if len(clips) > 3 else "")
    count = "1 pair of convolutions has" if len(clips) == 1 else f"{len(clips)} pairs of convolutions have"
    return f"{count} a Clip between them, one bound for all channels: {shown}"


def _candidates(model: Model) -> list[tuple[ConvPair, list[Node]]]:
    """Convolutions with nothing but passing operators and Clips between them; and the Clips."""
    found = []
    for node in model.graph:
        if not _is_conv(node):
            continue
        clips: list[Node] = []
        reader = _only_reader(node.outputs[0])
        while reader is not None and not reader.domain and reader.op_type in (*_PASSING, "Clip"):
            clips += [reader] if reader.op_type == "Clip" else []
            reader = _only_reader(reader.outputs[0]) if len(reader.outputs) == 1 else None
        if reader is not None and reader is not node and _is_conv(reader):
            found.append((ConvPair(node, reader), clips))
    return found


def equalize(model: Model) -> int:
    """Balance every pair of a float model, in place; the outputs stay the same but for rounding.

    Returns:
        How many pairs there were.
    """
    pairs = find_pairs(model)
    layers = list(dict.fromkeys(node for pair in pairs for node in (pair.first, pair.second)))
    constants = Constants(model.graph)
    spans = {node: _Span.of(node, constants) for node in layers}
    for _ in range(_ROUNDS):
        for pair in pairs:
            first, second = spans[pair.first], spans[pair.second]
            before, behind = first.by_output(), second.by_input()
            usable = (before > 0) & (behind > 0)
            factor = np.sqrt(np.where(usable, before, 1) / np.where(usable, behind, 1))
            first.outputs /= factor
            second.inputs *= factor
    for node, span in spans.items():
        _rescale(model, node, span, constants)
    return len(pairs)


@dataclass
class _Span:
    """Largest weight of every (output, input) channel of a layer, and the factors found so far.

    Attributes:
        largest: [groups, outputs of a group, inputs of a group].
        outputs, inputs: One factor per channel.
    """

    largest: NDArray[np.float64]
    outputs: NDArray[np.float64]
    inputs: NDArray[np.float64]

    @classmethod
    def of(cls, node: Node, constants: Constants) -> _Span:
        weight = _weight(node, constants)
        groups = _groups(node)
        flat = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
        largest = np.abs(flat).max(axis=3).astype(np.float64)
        return cls(largest, np.ones(weight.shape[0]), np.ones(groups * weight.shape[1]))

    def _scaled(self) -> NDArray[np.float64]:
        groups, outputs, inputs = self.largest.shape
        return (
            self.largest * self.outputs.reshape(groups, outputs, 1) * self.inputs.reshape(groups, 1, inputs)
        )

    def by_output(self) -> NDArray[np.float64]:
        return np.asarray(self._scaled().max(axis=2).reshape(-1))

    def by_input(self) -> NDArray[np.float64]:
        return np.asarray(self._scaled().max(axis=1).reshape(-1))


def _rescale(model: Model, node: Node, span: _Span, constants: Constants) -> None:
    weight = _weight(node, constants)
    groups, outputs, inputs = span.largest.shape
    factors = span.outputs.reshape(groups, outputs, 1) * span.inputs.reshape(groups, 1, inputs)
    spread = factors.reshape(weight.shape[0], inputs, *[1] * (weight.ndim - 2))
    name = node.inputs[1].name if node.inputs[1] is not None else None
    set_initializer(model, name or "", weight * spread)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        array = constants(bias)
        assert array is not None
        set_initializer(model, bias.name or "", array * span.outputs)


def _is_conv(node: Node) -> bool:
    """Whether `node` is a convolution with parameters that nobody else reads."""
    if node.domain or node.op_type != "Conv":
        return False
    parameters = [value for value in node.inputs[1:] if value is not None]
    return all(v.is_initializer() and not v.is_graph_input() and len(v.uses()) == 1 for v in parameters)


def _only_reader(value: Value) -> Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def _weight(node: Node, constants: Constants) -> NDArray:
    weight = constants(node.inputs[1])
    assert weight is not None
    return weight


def _groups(node: Node) -> int:
    return integer(node, "group", 1)

"""Cross-layer equalization: rescales channels of consecutive layers so that their weights have like ranges.

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

from intact.graph import Constants, Model, Node, only_reader, ops, set_initializer
from intact.ptq.measure.quantization_state import State
from intact.ptq.stages.smoothing import smooths_images

_PASSING = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
_ROUNDS = 8
"""Each round equalizes every pair once; chains of depthwise layers need several to settle."""


@dataclass(frozen=True)
class ConvPair:
    """Holds two convolutions with only operators between them that positive channel factors pass through."""

    first: Node
    second: Node

    @property
    def depthwise(self) -> bool:
        """Return whether the second convolution is depthwise."""
        return _groups(self.second) > 1


def equalize_on_request(state: State) -> State | None:
    """Equalize the model where the user requested it, before statistics are collected."""
    if state.calibration is not None:
        return None
    state = replace(state, not_equalized=describe_clipped_pairs(state.model))
    return _equalize_state(state) if state.settings.equalization is True else state


def propose_equalization(state: State) -> State | None:
    """Propose the equalized model, without statistics; None where equalization cannot matter.

    It can where weights have one scale, or layers are depthwise, unless what these read is smoothed anyway,
    which needs no second pass over the data.
    """
    if not state.runs or state.settings.equalization != "auto":
        return None
    pairs = find_pairs(state.model)
    depthwise = any(pair.depthwise for pair in pairs) and not smooths_images(state)
    return _equalize_state(state) if depthwise or (pairs and not state.settings.per_channel) else None


def reason_against_second_pass(state: State) -> str:
    """Explain why statistics of `state` cannot be collected again; empty where they can."""
    if not isinstance(state.data, Iterator):
        return ""
    once = "equalization would help, but the data can be read only once"
    return f"{once}: give a list, or equalization=True (--equalization on)"


def _equalize_state(state: State) -> State:
    model = state.model.clone()
    count = equalize(model)
    return replace(state, model=model, equalized=count > 0, calibration=None)


def find_pairs(model: Model) -> list[ConvPair]:
    """Return the pairs whose weights can be balanced, in the graph's order."""
    return [pair for pair, clips in _candidates(model) if not clips]


def describe_clipped_pairs(model: Model) -> str:
    """Describe the pairs that a Clip prevents from being balanced; empty where there are none."""
    clips = [nodes[0].name for _, nodes in _candidates(model) if nodes]
    if not clips:
        return ""
    shown = ", ".join(f"'{name}'" for name in clips[:3]) + (", ..." if len(clips) > 3 else "")
    count = "1 pair of convolutions has" if len(clips) == 1 else f"{len(clips)} pairs of convolutions have"
    return f"{count} a Clip between them, one bound for all channels: {shown}"


def _candidates(model: Model) -> list[tuple[ConvPair, list[Node]]]:
    """Return convolution pairs with only passing operators and Clips between them, and the Clips."""
    pairs = []
    for node in model.graph:
        if not _is_conv(node):
            continue
        clips: list[Node] = []
        reader = only_reader(node.outputs[0])
        while reader is not None and not reader.domain and reader.op_type in (*_PASSING, "Clip"):
            clips += [reader] if reader.op_type == "Clip" else []
            reader = only_reader(reader.outputs[0]) if len(reader.outputs) == 1 else None
        if reader is not None and reader is not node and _is_conv(reader):
            pairs.append((ConvPair(node, reader), clips))
    return pairs


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
    """Holds the largest weight of every (output, input) channel of a layer, and the factors so far.

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

    def _magnitudes(self) -> NDArray[np.float64]:
        groups, outputs, inputs = self.largest.shape
        return (
            self.largest * self.outputs.reshape(groups, outputs, 1) * self.inputs.reshape(groups, 1, inputs)
        )

    def by_output(self) -> NDArray[np.float64]:
        return np.asarray(self._magnitudes().max(axis=2).reshape(-1))

    def by_input(self) -> NDArray[np.float64]:
        return np.asarray(self._magnitudes().max(axis=1).reshape(-1))


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
    """Return whether `node` is a convolution with parameters that nobody else reads."""
    if node.domain or node.op_type != "Conv":
        return False
    parameters = [value for value in node.inputs[1:] if value is not None]
    return all(v.is_initializer() and not v.is_graph_input() and len(v.uses()) == 1 for v in parameters)


def _weight(node: Node, constants: Constants) -> NDArray:
    weight = constants(node.inputs[1])
    assert weight is not None
    return weight


def _groups(node: Node) -> int:
    return ops.Conv.of(node).group

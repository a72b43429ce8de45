"""Bias correction: the mean error that rounding a weight adds to its layer's output, taken out of the bias.

It is the same for every sample, so it does not average out as the rest of the rounding error does:
``E[y_q - y] = sum (w_q - w) E[x]``, with E[x] over the positions that each tap of the kernel reads, padding
included, measured on the float model (Nagel et al. 2019, section 4.2, with data). Rounding activations has
no mean to speak of (docs/decisions/0006-auto-compares-outputs.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.graph import Constants, Inserter, Model, Namer, Node, Session, Value, ops, prune, set_initializer
from intact.ptq.ranges import QuantizedWeight
from intact.ptq.sample import Held
from intact.ptq.state import BiasError, State
from intact.ptq.workers import THREADS, in_order


def with_bias_errors(state: State) -> State | None:
    """What the weights' rounding does to the means; None where nothing is held to measure it on."""
    if not state.runs:
        return None
    model = state.model.clone()
    errors = mean_errors(model, state.weights, state.runs)
    return replace(state, model=model, bias_errors=tuple(errors))


def with_corrected_biases(state: State) -> State | None:
    """The model with the errors taken out of its biases; None where there are none."""
    if not state.bias_errors:
        return None
    model = state.model.clone()
    for name, bias in corrected(model, state.bias_errors).items():
        set_initializer(model, name, bias)
    return replace(state, model=model, corrected=True)


def without_added_biases(state: State) -> State | None:
    """The model without the zeros that were put there to be corrected; None where they were."""
    if state.corrected:
        return None
    model = state.model.clone()
    drop_added(model, state.bias_errors)
    prune(model)
    return replace(state, model=model)


def mean_errors(model: Model, weights: Sequence[QuantizedWeight], runs: Sequence[Held]) -> list[BiasError]:
    """The layers of a float model that quantized weights move the mean of, and by how much.

    Every layer gets a bias of its own, in place; `drop_added` takes unneeded ones away.

    Args:
        model: Float, not marked yet.
        weights: How each weight will be quantized.
        runs: What to measure on.
    """
    nodes = {node.name or "": node for node in model.graph}
    found = []
    for weight in weights:
        for name, index in weight.readers:
            node = nodes[name]
            x = node.inputs[0]
            if index == 1 and x is not None and x.name and _supported(node):
                found.append((node, x.name, weight))
    means = _means(model, [(node, x) for node, x, _ in found], runs)
    editor = _Biases(model)
    layers = []
    for node, _, weight in found:
        if (mean := means.get(node.name or "")) is None:
            continue
        if (bias := editor.own_bias(node, weight.array)) is not None:
            layers.append(BiasError(node.name or "", *bias, _applied(node, weight.lost, mean)))
    return layers


def corrected(model: Model, errors: Sequence[BiasError]) -> dict[str, NDArray]:
    """The corrected bias of every layer, by initializer."""
    found = {}
    for layer in errors:
        old = model.graph.initializers[layer.bias].const_value
        assert old is not None
        bias = old.numpy()
        found[layer.bias] = (bias.astype(np.float64).reshape(-1) - layer.error).astype(bias.dtype)
        found[layer.bias] = found[layer.bias].reshape(bias.shape)
    return found


def drop_added(model: Model, errors: Sequence[BiasError]) -> None:
    """Take the zero biases away that `mean_errors` added."""
    added = {layer.node for layer in errors if layer.added}
    for node in model.graph:
        if node.name in added:
            node.resize_inputs(2)


def _supported(node: Node) -> bool:
    said = ops.read(node)
    if isinstance(said, ops.ConvTranspose):  # not where its pads are what is left over
        return said.output_shape is None and not said.auto_pad.startswith("SAME")
    if isinstance(said, ops.Gemm):
        return said.alpha == said.beta == 1 and not said.transA
    return isinstance(said, ops.Conv | ops.MatMul)


def _means(
    model: Model, layers: Sequence[tuple[Node, str]], runs: Sequence[Held]
) -> dict[str, NDArray[np.float64]]:
    """E[x] for every weight element of one output channel: [C, *kernel] or, for products, [K]."""
    wanted = list(dict.fromkeys(x for _, x in layers))
    constants = Constants(model.graph)
    readers: dict[str, dict[str, _Mean]] = {x: {} for x in wanted}
    for node, x in layers:
        if (weight := constants(node.inputs[1])) is not None:
            readers[x][node.name or ""] = _Mean(node, weight.shape)
    fed = set(runs[0].feeds)
    names = [x for x in wanted if x not in fed]
    session = Session(model, extra=names, folded=True, threads=THREADS)

    def means(held: Held) -> dict[str, tuple[NDArray[np.float64], int]]:
        given = ((x, held.feeds[x]) for x in wanted if x in fed)
        return {
            layer: (mean(array), len(array))
            for part in (given, session.stream(held.feeds, names))
            for x, array in part
            if array.size
            for layer, mean in readers[x].items()
        }

    sums: dict[str, NDArray[np.float64]] = {}
    counts: dict[str, int] = {}
    for found in in_order(means, runs):
        for name, (mean, rows) in found.items():
            sums[name] = sums.get(name, 0.0) + rows * mean
            counts[name] = counts.get(name, 0) + rows
    return {name: total / counts[name] for name, total in sums.items()}


class _Mean:
    """E[x] over the positions that a layer multiplies each element of its weight at.

    Args:
        node: A layer that `_supported` knows.
        weight: The shape of its weight.
    """

    def __init__(self, node: Node, weight: tuple[int, ...]) -> None:
        said = ops.read(node)
        self._conv = said if isinstance(said, ops.Conv | ops.ConvTranspose) else None
        self._kernel = weight[2:]
        self._known: tuple[tuple[int, ...], _Taps] | None = None  # the last sizes': few are unlike them

    def __call__(self, x: NDArray) -> NDArray[np.float64]:
        """[C, *kernel], or [K] of a product."""
        if self._conv is None:
            return np.asarray(x.reshape(-1, x.shape[-1]).mean(axis=0, dtype=np.float64))
        spatial, known = x.shape[2:], self._known
        if known is None or known[0] != spatial:
            taps = _transposed_taps if isinstance(self._conv, ops.ConvTranspose) else _taps
            self._known = known = spatial, taps(self._conv, self._kernel, spatial)
        windows, outputs = known[1]
        return _sums_by_tap(x, windows) / (len(x) * outputs)


_Taps = tuple[Sequence[Sequence[slice]], int]
"""For each spatial axis, what each tap along it reads; and at how many positions."""


def _taps(said: ops.Conv, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> _Taps:
    strides, dilations = said.strides_of(len(kernel)), said.dilations_of(len(kernel))
    pads = said.pads_of(kernel, spatial)
    assert pads is not None, "the sizes are known"
    windows, outputs = [], 1
    for i, (n, s, k, d) in enumerate(zip(spatial, strides, kernel, dilations, strict=True)):
        before, behind = pads[i], pads[len(kernel) + i]
        count = (n + before + behind - ((k - 1) * d + 1)) // s + 1
        windows.append([_read(n, t * d - before, s, count) for t in range(k)])
        outputs *= count
    return windows, outputs


def _transposed_taps(said: ops.ConvTranspose, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> _Taps:
    """Each tap of the kernel writes what it reads to every `stride`-th output position, if that exists."""
    strides, dilations = said.strides_of(len(kernel)), said.dilations_of(len(kernel))
    pads = said.pads or (0, 0) * len(kernel)
    extra = said.output_padding or (0,) * len(kernel)
    windows, outputs = [], 1
    for i, (n, s, k, d, e) in enumerate(zip(spatial, strides, kernel, dilations, extra, strict=True)):
        size = (n - 1) * s + (k - 1) * d + 1 + e - pads[i] - pads[len(kernel) + i]
        windows.append([_written(n, t * d - pads[i], s, size) for t in range(k)])
        outputs *= size
    return windows, outputs


def _read(size: int, offset: int, stride: int, outputs: int) -> slice:
    """The inputs at ``offset + stride * output`` that exist, of `size`."""
    first, last = max(-(offset // stride), 0), min((size - 1 - offset) // stride, outputs - 1)
    return slice(offset + stride * first, offset + stride * last + 1, stride) if first <= last else slice(0)


def _written(size: int, offset: int, stride: int, outputs: int) -> slice:
    """The inputs, of `size`, whose ``offset + stride * input`` is an output that exists."""
    first, last = -(offset // stride), (outputs - 1 - offset) // stride
    return slice(max(first, 0), max(min(last, size - 1) + 1, 0))


def _sums_by_tap(x: NDArray, windows: Sequence[Sequence[slice]]) -> NDArray[np.float64]:
    """Sums of the parts of `x` that each tap of a kernel sees, one axis after the other: [C, *kernel].

    Args:
        x: [N, C, *spatial].
        windows: For each spatial axis, what each tap along it sees.
    """
    sums = x[0].astype(np.float64) if len(x) == 1 else x.sum(axis=0, dtype=np.float64)
    for taps in windows:  # the next axis is always the second one: that of the taps becomes the last
        parts = [sums[:, tap].sum(axis=1) for tap in taps]
        sums = np.stack(parts, axis=-1) if len(parts) > 1 else parts[0][..., None]
    return np.asarray(sums)


def _applied(node: Node, weight: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the layer makes of `mean`, per output channel."""
    said = ops.read(node)
    if isinstance(said, ops.Conv):
        groups = said.group
        by_group = weight.reshape(groups, weight.shape[0] // groups, -1)
        return np.asarray(np.einsum("gok,gk->go", by_group, mean.reshape(groups, -1)).reshape(-1))
    if isinstance(said, ops.ConvTranspose):
        groups = said.group
        inputs, outputs = weight.shape[0] // groups, weight.shape[1]
        taps, means = weight.reshape(groups, inputs, outputs, -1), mean.reshape(groups, inputs, -1)
        return np.asarray(np.einsum("giok,gik->go", taps, means).reshape(-1))
    return np.asarray(weight @ mean if isinstance(said, ops.Gemm) and said.transB else mean @ weight)


class _Biases:
    """Gives layers biases that nobody else reads."""

    def __init__(self, model: Model) -> None:
        self._graph, self._names = model.graph, Namer(model.graph)
        self._constants = Constants(model.graph)

    def own_bias(self, node: Node, weight: NDArray) -> tuple[str, bool] | None:
        """(initializer, whether it was added); None where there is no place for one."""
        if node.op_type == "MatMul":
            return self._behind(node, weight.shape[-1])
        said = ops.read(node)
        assert said is not None and said.weight_axis is not None, "`_supported` knows these"
        channels = weight.shape[said.weight_axis]
        if isinstance(said, ops.ConvTranspose):
            channels *= said.group
        old = node.inputs[2] if len(node.inputs) > 2 else None
        if old is None:
            array = np.zeros(channels, weight.dtype)
            node.resize_inputs(3)
            return self._put(node, 2, array), True
        return self._own(node, 2, old, channels)

    def _behind(self, node: Node, channels: int) -> tuple[str, bool] | None:
        """The constant of the Add behind a MatMul."""
        uses = list(node.outputs[0].uses())
        if len(uses) != 1 or node.outputs[0].is_graph_output() or uses[0].node.op_type != "Add":
            return None
        add, index = uses[0].node, 1 - uses[0].idx
        other = add.inputs[index]
        return None if other is None else self._own(add, index, other, channels)

    def _own(self, node: Node, index: int, value: Value, channels: int) -> tuple[str, bool] | None:
        array = self._constants(value)
        if array is None or array.size != channels or array.shape[-1:] != (channels,):
            return None
        if value.is_initializer() and len(value.uses()) == 1 and not value.is_graph_output() and value.name:
            return value.name, False
        return self._put(node, index, array), False

    def _put(self, node: Node, index: int, array: NDArray) -> str:
        value = Inserter(self._graph, node, self._names).constant(f"{node.name}.bias", array)
        node.replace_input_with(index, value)
        assert value.name is not None
        return value.name

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

from intact.graph import Constants, Inserter, Model, Namer, Node, Value, is_op, ops, prune, set_initializer
from intact.ptq.measure.holdout_samples import Held
from intact.ptq.measure.input_means import Means, MeanSums, layers_of, mean_readers, weight_shapes
from intact.ptq.measure.layer_inputs import measured
from intact.ptq.measure.quantization_state import BiasError, State
from intact.ptq.scope.quantization_ranges import QuantizedWeight


def with_bias_errors(state: State) -> State | None:
    """What the weights' rounding does to the means, and biases of their own for all layers, in place.

    None where nothing is held to measure it on.
    """
    if not state.runs:
        return None
    known = state.input_means
    means = known.means if known is not None and known.are_of(state) else None
    errors = mean_errors(state.model, state.weights, state.runs, means, has_run=state.has_run)
    return replace(state, bias_errors=tuple(errors))


def with_corrected_biases(state: State) -> State | None:
    """Its biases are to be corrected, as `with_settled_biases` does; None where there are none."""
    return replace(state, corrected=True) if state.bias_errors else None


def with_settled_biases(state: State) -> State | None:
    """The model with the errors taken out of its biases, or without the zeros that were put there to be
    corrected, in place; None where there is nothing to do."""
    if state.corrected:
        put_corrected(state.model, state.bias_errors)
    elif any(error.added for error in state.bias_errors):
        drop_added(state.model, state.bias_errors)
        prune(state.model)
    else:
        return None
    return state


def mean_errors(
    model: Model,
    weights: Sequence[QuantizedWeight],
    runs: Sequence[Held],
    means: Means | None = None,
    *,
    has_run: bool = False,
) -> list[BiasError]:
    """The layers of a float model that quantized weights move the mean of, and by how much.

    Every layer gets a bias of its own, in place; `drop_added` takes unneeded ones away.

    Args:
        model: Float, not marked yet.
        weights: How each weight will be quantized.
        runs: What to measure on.
        means: Of what the layers read on these runs, where that is known.
        has_run: See `intact.ptq.measure.layer_inputs.measured`.
    """
    if means is None:
        sums = MeanSums()
        for (found,) in measured(
            model, runs, mean_readers(model, weight_shapes(model, weights)), has_run=has_run
        ):
            sums.add(found)
        means = sums.means
    editor = _Biases(model)
    layers = []
    for node, _, weight in layers_of(model, weights):
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


def put_corrected(model: Model, errors: Sequence[BiasError]) -> None:
    """Take the errors of all layers out of their biases, in place."""
    for name, bias in corrected(model, errors).items():
        set_initializer(model, name, bias)


def drop_added(model: Model, errors: Sequence[BiasError]) -> None:
    """Take the zero biases away that `mean_errors` added."""
    added = {layer.node for layer in errors if layer.added}
    for node in model.graph:
        if node.name not in added:
            continue
        index = _bias_index(node)
        if index == len(node.inputs) - 1:
            node.resize_inputs(index)
        else:
            node.replace_input_with(index, None)


def _bias_index(node: Node) -> int:
    return 3 if is_op(node, *ops.RECURRENT) else 2


def _applied(node: Node, weight: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the layer makes of `mean`, per output channel.

    By `einsum`, which adds in one order: BLAS, behind ``@``, in others on other machines.
    """
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
    if is_op(node, *ops.RECURRENT):  # a bias has a second half, which is added to the sums over states
        inputs = np.einsum("dok,k->do", weight, mean)
        return np.concatenate([inputs, np.zeros_like(inputs)], axis=1).reshape(-1)
    outputs_first = isinstance(said, ops.Gemm) and said.transB
    return np.asarray(np.einsum("ok,k->o" if outputs_first else "ko,k->o", weight, mean))


class _Biases:
    """Gives layers biases that nobody else reads."""

    def __init__(self, model: Model) -> None:
        self._graph, self._names = model.graph, Namer(model.graph)
        self._constants = Constants(model.graph)

    def own_bias(self, node: Node, weight: NDArray) -> tuple[str, bool] | None:
        """(initializer, whether it was added); None where there is no place for one."""
        if node.op_type == "MatMul":
            return self._behind(node, weight.shape[-1])
        if is_op(node, *ops.RECURRENT):
            return self._of_gates(node, weight)
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

    def _of_gates(self, node: Node, weight: NDArray) -> tuple[str, bool] | None:
        """Of a recurrent layer: [directions, 2 * gates * hidden]."""
        index, shape = _bias_index(node), (weight.shape[0], 2 * weight.shape[1])
        old = node.inputs[index] if len(node.inputs) > index else None
        if old is None:
            node.resize_inputs(max(len(node.inputs), index + 1))
            return self._put(node, index, np.zeros(shape, weight.dtype)), True
        array = self._constants(old)
        return None if array is None or array.shape != shape else self._kept(node, index, old, array)

    def _own(self, node: Node, index: int, value: Value, channels: int) -> tuple[str, bool] | None:
        array = self._constants(value)
        if array is None or array.size != channels or array.shape[-1:] != (channels,):
            return None
        return self._kept(node, index, value, array)

    def _kept(self, node: Node, index: int, value: Value, array: NDArray) -> tuple[str, bool]:
        """A bias that a node has already, or a copy of its own where others read that."""
        if value.is_initializer() and len(value.uses()) == 1 and not value.is_graph_output() and value.name:
            return value.name, False
        return self._put(node, index, array), False

    def _put(self, node: Node, index: int, array: NDArray) -> str:
        value = Inserter(self._graph, node, self._names).constant(f"{node.name}.bias", array)
        node.replace_input_with(index, value)
        assert value.name is not None
        return value.name

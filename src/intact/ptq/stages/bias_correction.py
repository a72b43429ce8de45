"""Bias correction: removes the mean error that weight rounding adds to a layer's output.

It is the same for every sample, so it does not average out as the rest of the rounding error does:
``E[y_q - y] = sum (w_q - w) E[x]``, with E[x] over the positions that each tap of the kernel reads, padding
included, measured on the float model (Nagel et al. 2019, section 4.2, with data). Rounding activations has
no mean to speak of (docs/decisions/0006-calibration-method-auto.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.graph import Constants, Inserter, Model, Namer, Node, Value, is_op, ops, prune, set_initializer
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.input_means import Means, layers_with_means, mean_readers, weight_shapes
from intact.ptq.measure.layer_inputs import read_layer_inputs
from intact.ptq.measure.quantization_state import BiasError, State
from intact.ptq.measure.running_sums import RunningSums, add_by_name, means_of
from intact.ptq.scope.quantization_ranges import QuantizedWeight


def with_bias_errors(state: State) -> State | None:
    """Measure how weight rounding moves the means, and give each layer its own bias, in place.

    None where nothing is held to measure it on.
    """
    if not state.runs:
        return None
    measured_means = state.input_means
    means = measured_means.means if measured_means is not None and measured_means.are_of(state) else None
    errors = mean_errors(state.model, state.weights, state.runs, means, has_run=state.has_run)
    return replace(state, bias_errors=tuple(errors))


def with_corrected_biases(state: State) -> State | None:
    """Mark the biases to be corrected by `with_settled_biases`; return None where there are none."""
    return replace(state, corrected=True) if state.bias_errors else None


def with_settled_biases(state: State) -> State | None:
    """Correct the biases, or remove the zeros that were added for that, in place.

    Return None where there is nothing to do.
    """
    if state.corrected:
        correct_biases(state.model, state.bias_errors)
    elif any(error.added for error in state.bias_errors):
        drop_added(state.model, state.bias_errors)
        prune(state.model)
    else:
        return None
    return state


def mean_errors(
    model: Model,
    weights: Sequence[QuantizedWeight],
    runs: Sequence[HoldoutSample],
    means: Means | None = None,
    *,
    has_run: bool = False,
) -> list[BiasError]:
    """Measure by how much quantized weights move the mean of each layer's output.

    Every layer gets a bias of its own, in place; `drop_added` takes unneeded ones away.

    Args:
        model: Float, not marked yet.
        weights: How each weight will be quantized.
        runs: What to measure on.
        means: Of what the layers read on these runs, where that is known.
        has_run: See `intact.ptq.measure.layer_inputs.read_layer_inputs`.
    """
    if means is None:
        sums = dict[str, RunningSums]()
        for (means_of_run,) in read_layer_inputs(
            model, runs, mean_readers(model, weight_shapes(model, weights)), has_run=has_run
        ):
            add_by_name(sums, means_of_run)
        means = means_of(sums)
    editor = _Biases(model)
    layers = []
    for node, _, weight in layers_with_means(model, weights):
        if (mean := means.get(node.name or "")) is None:
            continue
        if (bias := editor.own_bias(node, weight.array)) is not None:
            layers.append(BiasError(node.name or "", *bias, _apply_layer(node, weight.rounding_error, mean)))
    return layers


def biases_after_correction(model: Model, errors: Sequence[BiasError]) -> dict[str, NDArray]:
    """Return the corrected bias of every layer, by initializer."""
    biases = {}
    for layer in errors:
        old = model.graph.initializers[layer.bias].const_value
        assert old is not None
        bias = old.numpy()
        biases[layer.bias] = (bias.astype(np.float64).reshape(-1) - layer.error).astype(bias.dtype)
        biases[layer.bias] = biases[layer.bias].reshape(bias.shape)
    return biases


def correct_biases(model: Model, errors: Sequence[BiasError]) -> None:
    """Subtract the mean errors of all layers from their biases, in place."""
    for name, bias in biases_after_correction(model, errors).items():
        set_initializer(model, name, bias)


def drop_added(model: Model, errors: Sequence[BiasError]) -> None:
    """Remove the zero biases that `mean_errors` added."""
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


def _apply_layer(node: Node, weight: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply the layer's weights to `mean`; return one number per output channel.

    By `einsum`, which adds in one order: BLAS, behind ``@``, in others on other machines.
    """
    op = ops.read(node)
    if isinstance(op, ops.Conv):
        groups = op.group
        by_group = weight.reshape(groups, weight.shape[0] // groups, -1)
        return np.asarray(np.einsum("gok,gk->go", by_group, mean.reshape(groups, -1)).reshape(-1))
    if isinstance(op, ops.ConvTranspose):
        groups = op.group
        inputs, outputs = weight.shape[0] // groups, weight.shape[1]
        taps, means = weight.reshape(groups, inputs, outputs, -1), mean.reshape(groups, inputs, -1)
        return np.asarray(np.einsum("giok,gik->go", taps, means).reshape(-1))
    if is_op(node, *ops.RECURRENT):  # a bias has a second half, which is added to the sums over states
        inputs = np.einsum("dok,k->do", weight, mean)
        return np.concatenate([inputs, np.zeros_like(inputs)], axis=1).reshape(-1)
    outputs_first = isinstance(op, ops.Gemm) and op.transB
    return np.asarray(np.einsum("ok,k->o" if outputs_first else "ko,k->o", weight, mean))


class _Biases:
    """Gives each layer a bias that nobody else reads."""

    def __init__(self, model: Model) -> None:
        self._graph, self._names = model.graph, Namer(model.graph)
        self._constants = Constants(model.graph)

    def own_bias(self, node: Node, weight: NDArray) -> tuple[str, bool] | None:
        """Return (initializer, whether it was added); None where there is no place for one."""
        if node.op_type == "MatMul":
            return self._behind(node, weight.shape[-1])
        if is_op(node, *ops.RECURRENT):
            return self._of_gates(node, weight)
        op = ops.read(node)
        assert op is not None and op.weight_axis is not None, "`_supported` knows these"
        channels = weight.shape[op.weight_axis]
        if isinstance(op, ops.ConvTranspose):
            channels *= op.group
        old = node.inputs[2] if len(node.inputs) > 2 else None
        if old is None:
            array = np.zeros(channels, weight.dtype)
            node.resize_inputs(3)
            return self._put(node, 2, array), True
        return self._own(node, 2, old, channels)

    def _behind(self, node: Node, channels: int) -> tuple[str, bool] | None:
        """Return the constant of the Add behind a MatMul."""
        uses = list(node.outputs[0].uses())
        if len(uses) != 1 or node.outputs[0].is_graph_output() or uses[0].node.op_type != "Add":
            return None
        add, index = uses[0].node, 1 - uses[0].idx
        addend = add.inputs[index]
        return None if addend is None else self._own(add, index, addend, channels)

    def _of_gates(self, node: Node, weight: NDArray) -> tuple[str, bool] | None:
        """Return the bias of a recurrent layer, [directions, 2 * gates * hidden]."""
        index, shape = _bias_index(node), (weight.shape[0], 2 * weight.shape[1])
        old = node.inputs[index] if len(node.inputs) > index else None
        if old is None:
            node.resize_inputs(max(len(node.inputs), index + 1))
            return self._put(node, index, np.zeros(shape, weight.dtype)), True
        array = self._constants(old)
        return None if array is None or array.shape != shape else self._own_or_copy(node, index, old, array)

    def _own(self, node: Node, index: int, value: Value, channels: int) -> tuple[str, bool] | None:
        array = self._constants(value)
        if array is None or array.size != channels or array.shape[-1:] != (channels,):
            return None
        return self._own_or_copy(node, index, value, array)

    def _own_or_copy(self, node: Node, index: int, value: Value, array: NDArray) -> tuple[str, bool]:
        """Return a bias that a node has already, or a copy of its own where the bias is shared."""
        if value.is_initializer() and len(value.uses()) == 1 and not value.is_graph_output() and value.name:
            return value.name, False
        return self._put(node, index, array), False

    def _put(self, node: Node, index: int, array: NDArray) -> str:
        value = Inserter(self._graph, node, self._names).constant(f"{node.name}.bias", array)
        node.replace_input_with(index, value)
        assert value.name is not None
        return value.name

"""Correct biases: subtract the mean error that quantization adds to each layer's output.

Rounding a weight moves the mean of the output channels that it feeds, by the same amount for every image.
Unlike the rest of the rounding error, this part does not average out. It is measured layer by layer on the
float model's activations and subtracted (Nagel et al. 2019, section 4.2, with data).

The states of a recurrent layer are floats. The error of the sums over its inputs goes into their bias, as in
files: ``(w_q - w) E[x]``. A recurrent layer without biases gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.torch import distributed
from intact.torch.distributed import ProcessGroup
from intact.torch.nn import FusedQuantGRU, FusedQuantLSTM, FusedQuantRNN
from intact.torch.nn.modules._utils import QuantMixin
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.private_torch import ConvNd, DisableTorchFunction, whole_batch
from intact.torch.training.collect_statistics import collecting, evaluating, quantizing

_LAYERS = (nn.Linear, ConvNd)
_RECURRENT = (FusedQuantGRU, FusedQuantLSTM, FusedQuantRNN)
_NAME = "_bias_correction"


def _corrections(module: nn.Module) -> list[tuple[str, str]]:
    """Return the biases of a module that are corrected: (name of the bias, name of the buffer with its
    correction).
    """
    ends = module._suffixes() if isinstance(module, _RECURRENT) else []
    places = [(f"bias_ih{end}", f"{_NAME}{end}") for end in ends] or [("bias", _NAME)]
    return [(bias, name) for bias, name in places if isinstance(getattr(module, name, None), Tensor)]


def undo_bias_correction(model: nn.Module) -> None:
    """Restore the bias of every layer of `model` as it was before the correction."""
    for module in model.modules():
        for bias, name in _corrections(module):
            correction = getattr(module, name)
            with torch.no_grad():
                getattr(module, bias).add_(correction)
                correction.zero_()


def corrected_biases(model: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors that `undo_bias_correction` changes in `model`, by name, which begins with
    `prefix`.
    """
    tensors: dict[str, Tensor] = {}
    for path, module in model.named_modules(prefix=prefix):
        place = f"{path}." if path else ""
        for names in _corrections(module):
            tensors |= {f"{place}{name}": getattr(module, name) for name in names}
    return tensors


def remove_added_biases(layers: Iterable[nn.Module]) -> None:
    """Remove the biases that the correction added, after it was undone."""
    for layer in layers:
        layer.bias = None  # type: ignore[assignment]
        delattr(layer, _NAME)


def correct_bias(
    model: nn.Module,
    batches: Iterable[tuple[int, Any]],
    run: Callable[[nn.Module, Any], Any],
    rows: int,
    group: ProcessGroup,
) -> list[nn.Module]:
    """Subtract from the bias of each quantized layer the mean error of its output.

    A convolution or linear layer without a bias gets one.

    Args:
        model: Calibrated; not corrected yet.
        batches: This process's batches with their numbers, below `rows`.
        run: ``run(model, batch)``.
        rows: Number of batches of all processes, at least.
        group: The processes.
    Returns:
        The layers that had no bias.
    """
    layers = [m for m in model.modules() if isinstance(m, _LAYERS) and isinstance(m, QuantMixin)]
    quantizers = {n: m for n, m in model.named_modules() if isinstance(m, TensorQuantizer)}
    sums = [np.zeros((rows, _channels(layer))) for layer in layers]
    counts = np.zeros((rows, len(layers)))
    number = 0

    def measure(index: int) -> Callable[..., None]:
        def hook(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            own = {n: m for n, m in layer.named_modules() if isinstance(m, TensorQuantizer)}
            # Graph mode counts the calls that the model makes; these are none of them.
            with DisableTorchFunction(), quantizing(own):
                error = (type(layer).forward(layer, *inputs) - output).double()
                axis = error.dim() - 1 if isinstance(layer, nn.Linear) else 1
                reduced_axes = [a for a in range(error.dim()) if a != axis]
                # An empty list of axes would mean all of them to PyTorch.
                mean = whole_batch(error.mean(reduced_axes) if reduced_axes else error)
                sums[index][number] += mean.reshape(-1, mean.shape[-1]).mean(0).cpu().numpy()
            counts[number, index] += 1

        return hook

    recurrent = _RecurrentInputs(model, rows)
    handles = [layer.register_forward_hook(measure(i)) for i, layer in enumerate(layers)]
    handles += recurrent.hooks()
    try:
        with evaluating(model), collecting(quantizers, {}):
            for number, batch in batches:
                recurrent.number = number
                run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    added: list[nn.Module] = [layer for layer in layers if getattr(layer, "bias", None) is None]
    calls = distributed.sum_over(counts, group).sum(axis=0)
    for layer, total, count in zip(layers, sums, calls, strict=True):
        mean = distributed.sum_over(total, group).sum(axis=0) / max(count, 1.0)
        _subtract(layer, torch.from_numpy(mean))
    recurrent.correct(group)
    return added


class _RecurrentInputs:
    """Measures the means of what recurrent layers read, and corrects their biases.

    Attributes:
        number: Number of the batch that runs.
    """

    def __init__(self, model: nn.Module, rows: int) -> None:
        modules = [m for m in model.modules() if isinstance(m, _RECURRENT) and m.bias]
        self._layers: list[tuple[Any, int]] = [
            (module, layer) for module in modules for layer in range(module.num_layers)
            if not module._weight_quantizers[layer]._disabled
        ]  # fmt: skip
        self._sums = [np.zeros((rows, self._weights(*entry).shape[-1])) for entry in self._layers]
        self._counts = np.zeros((rows, len(self._layers)))
        self.number = 0

    @staticmethod
    def _weights(module: Any, layer: int) -> Tensor:
        """Return the float weights of a layer's inputs [directions, gates * hidden, inputs]."""
        return torch.stack([getattr(module, f"weight_ih{end}") for end in module._layer(layer)])

    def hooks(self) -> list[Any]:
        """Register hooks on the quantizers through which layers read their inputs."""
        return [
            module._input_quantizers[layer].register_forward_pre_hook(self._measure(index))
            for index, (module, layer) in enumerate(self._layers)
        ]

    def _measure(self, index: int) -> Callable[..., None]:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            with DisableTorchFunction():
                x = inputs[0].detach().double()
                mean = x.reshape(-1, x.shape[-1]).mean(0)
            self._sums[index][self.number] += mean.cpu().numpy()
            self._counts[self.number, index] += 1

        return hook

    @torch.no_grad()
    def correct(self, group: ProcessGroup) -> None:
        """Subtract the mean errors from the biases."""
        calls = distributed.sum_over(self._counts, group).sum(axis=0)
        for (module, layer), total, count in zip(self._layers, self._sums, calls, strict=True):
            mean = torch.from_numpy(distributed.sum_over(total, group).sum(axis=0) / max(count, 1.0))
            weights, quantizer = self._weights(module, layer), module._weight_quantizers[layer]
            with DisableTorchFunction(), quantizing({"": quantizer}):
                lost = quantizer(weights).double() - weights.double()
            for end, error in zip(module._layer(layer), lost @ mean.to(lost.device), strict=True):
                bias = getattr(module, f"bias_ih{end}")
                error = error.to(bias.dtype)
                bias.sub_(error)
                module.register_buffer(f"{_NAME}{end}", error, persistent=False)


def _channels(layer: nn.Module) -> int:
    return int(layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels)  # type: ignore[arg-type]


def _subtract(layer: nn.Module, mean: Tensor) -> None:
    weight: Any = layer.weight
    mean = mean.to(weight.device, weight.dtype)
    if getattr(layer, "bias", None) is None:
        layer.bias = nn.Parameter(torch.zeros_like(mean))
    with torch.no_grad():
        layer.bias.sub_(mean)  # type: ignore[operator]
    layer.register_buffer(_NAME, mean, persistent=False)

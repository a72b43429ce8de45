"""Bias correction: the mean error that quantization adds to each layer's output, taken out of its bias.

Rounding a weight moves the mean of the output channels that it feeds, by the same amount for every
image; unlike the rest of the rounding error this part does not average out. It is measured layer by
layer on the float model's activations and subtracted (Nagel et al. 2019, section 4.2, with data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.torch import distributed
from intact.torch._collection import evaluating, quantizing, watching
from intact.torch.distributed import ProcessGroup
from intact.torch.nn.modules._utils import QuantMixin
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)
_NAME = "_bias_correction"


def undo_bias_correction(model: nn.Module) -> None:
    """Give every layer of `model` the bias that it would have without the correction."""
    for module in model.modules():
        correction = getattr(module, _NAME, None)
        if isinstance(correction, Tensor):
            with torch.no_grad():
                module.bias.add_(correction)  # type: ignore[operator]
                correction.zero_()


def corrected_biases(model: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    """What `undo_bias_correction` changes in `model`, by name, which begins with `prefix`."""
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules(prefix=prefix):
        correction = getattr(module, _NAME, None)
        if isinstance(correction, Tensor):
            place = f"{path}." if path else ""
            found |= {f"{place}bias": module.bias, f"{place}{_NAME}": correction}
    return found


def without_bias(layers: Iterable[nn.Module]) -> None:
    """Take the biases away that the correction added; it was undone."""
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
    """Subtract from the bias of each quantized convolution and linear layer the mean error of its output.

    A layer without a bias gets one.

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
            with torch._C.DisableTorchFunction(), quantizing(own):
                error = (type(layer).forward(layer, *inputs) - output).double()
                axis = error.dim() - 1 if isinstance(layer, nn.Linear) else 1
                others = [a for a in range(error.dim()) if a != axis]
                sums[index][number] += error.mean(others).cpu().numpy()
            counts[number, index] += 1

        return hook

    handles = [layer.register_forward_hook(measure(i)) for i, layer in enumerate(layers)]
    try:
        with evaluating(model), watching(quantizers, {}):
            for number, batch in batches:  # noqa: B007  # the hooks read it
                run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    added: list[nn.Module] = [layer for layer in layers if getattr(layer, "bias", None) is None]
    calls = distributed.sum_over(counts, group).sum(axis=0)
    for layer, total, count in zip(layers, sums, calls, strict=True):
        mean = distributed.sum_over(total, group).sum(axis=0) / max(count, 1.0)
        _subtract(layer, torch.from_numpy(mean))
    return added


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

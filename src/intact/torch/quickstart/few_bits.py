"""Quantizes weights to 2 bits: where rounding to the nearest fails, and learning recovers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from intact.torch.graph_mode import quantize
from intact.torch.nn import TensorQuantizer
from intact.torch.quickstart.train import LEARNING_RATE, Batches
from intact.torch.reconstruction import reconstruct
from intact.torch.training.calibration import calibrate
from intact.torch.training.finetuning import finetune

BITS, STEPS, BATCH = 2, 150, 32


def few_bit_models(
    net: nn.Module,
    example: Tensor,
    inputs: Sequence[Tensor],
    batches: Batches,
    *,
    epochs: int,
    seed: int,
    progress: bool,
) -> Iterator[tuple[str, nn.Module]]:
    """Yield `net` by name with weights of 2 bits but in the first and the last layer, as the field reports
    it.

    Args:
        net: Float, trained.
        example: One input.
        inputs: To calibrate on, and to learn rounding from.
        batches: To fine-tune on, after the float model's answers.
        epochs: Of fine-tuning.
        seed: Of what is learned.
        progress: Draw progress bars.
    """
    model = quantize(net, example=example, weights="int4", activations="uint8").model
    modules = model.named_modules()
    weights = [module for name, module in modules if isinstance(module, TensorQuantizer) and "weight" in name]
    for quantizer in weights:
        quantizer.num_bits = BITS
    for quantizer in (weights[0], weights[-1]):
        quantizer.num_bits = 8
    calibrate(model, inputs, method="mse", weight_method="max", progress=progress)
    yield f"{BITS} bits, max", model
    calibrate(model, inputs, method="mse", weight_method="mse", progress=progress)
    rounded = copy.deepcopy(model)
    small = [part for batch in inputs for part in torch.split(batch, BATCH)]
    reconstruct(rounded, small, method="adaround", steps=STEPS, seed=seed, progress=progress)
    yield f"{BITS} bits, AdaRound", rounded
    finetune(
        model, batches, epochs=epochs, base_lr=LEARNING_RATE, teacher=net, seed=seed, learn="lsq+",
        progress=progress,
    )  # fmt: skip
    yield f"{BITS} bits, QAT", model

"""Freeze or re-estimate the statistics of BatchNorm in a quantized model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from intact.torch import distributed
from intact.torch.distributed import ProcessGroup
from intact.torch.models.batches import Forward, forward_batch
from intact.torch.private_torch import BatchNorm
from intact.torch.training.collect_statistics import evaluating


def freeze(model: nn.Module) -> None:
    """Make every BatchNorm of `model` use its running statistics and leave them unchanged."""
    for module in _norms_with_statistics(model):
        module.eval()


def reestimate_batchnorm(
    model: nn.Module,
    data: Iterable[Any],
    *,
    forward: Forward | None = None,
    group: ProcessGroup | None = None,
) -> None:
    """Re-estimate the running statistics of every BatchNorm as the mean over all batches.

    Everything else is in eval mode meanwhile, quantizers as they are set; no labels are used.

    Args:
        model: Its BatchNorm modules get new `running_mean` and `running_var`.
        data: Batches, as for `calibrate`; under torchrun this process's share.
        forward: ``forward(model, batch)``, as for `calibrate`.
        group: The processes to average over; None: this one alone.
    """
    norms = _norms_with_statistics(model)
    momenta = [norm.momentum for norm in norms]
    run, batches = forward or forward_batch, 0
    with evaluating(model):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over the batches
            norm.train()
        try:
            for batch in data:
                run(model, batch)
                batches += 1
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
    statistics: list[Tensor] = [t for n in norms for t in (n.running_mean, n.running_var) if t is not None]
    group = group or ProcessGroup()
    batch_count = int(distributed.sum_over(np.array([float(batches)]), group)[0])
    with torch.no_grad():
        distributed.mean_over(statistics, batches, group)
        for norm in norms:
            norm.num_batches_tracked.fill_(batch_count)


def _norms_with_statistics(model: nn.Module) -> list[Any]:
    return [m for m in model.modules() if isinstance(m, BatchNorm) and m.track_running_stats]

"""Support for models whose parameters `torch.distributed.fsdp.fully_shard` splits over processes (FSDP2).

FSDP2 gathers the parameters that it shards in front of a layer's forward, and averages their gradients.
Buffers, such as ranges, and parameters that are added later, such as learned ranges, stay whole in every
process. This module keeps those equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.optim import Optimizer

from intact.errors import QuantValueError
from intact.torch.models.modules import require_module


def is_sharded(model: nn.Module) -> bool:
    """Return whether a part of `model` is sharded over the processes."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    from torch.distributed.fsdp import FSDPModule

    return any(isinstance(module, FSDPModule) for module in model.modules())


def require_whole(model: nn.Module, where: str, fix: str) -> None:
    """Raise unless `model` is a whole module with values.

    Raises:
        QuantValueError: `model` is no module, has no values, or a part of it is sharded over the processes.
    """
    require_module(model, where)
    if is_sharded(model):
        raise QuantValueError(f"{where}: model", "one sharded by fully_shard", "a whole model", fix)


def gather(x: Tensor) -> Tensor:
    """Return `x` as one tensor.

    A sharded tensor is gathered, which all processes must ask for, and copied.
    """
    return x.full_tensor() if is_sharded_tensor(x) else x  # type: ignore[attr-defined]


def is_sharded_tensor(x: Tensor) -> bool:
    """Return whether this process holds only a part of `x`."""
    return hasattr(x, "full_tensor")


def reshard(model: nn.Module) -> None:
    """Free whole parameters that the outermost module keeps after a forward without backward."""
    if is_sharded(model):
        from torch.distributed.fsdp import FSDPModule

        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


@torch.no_grad()
def equalize(tensors: Iterable[Tensor]) -> None:
    """Give every process the first one's values of `tensors`, in place."""
    for x in tensors:
        if not is_sharded_tensor(x):
            dist.broadcast(x.data, src=0)


@torch.no_grad()
def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients of parameters that are not sharded by their means over the processes."""
    size = dist.get_world_size()
    for parameter in parameters:
        if parameter.requires_grad and not is_sharded_tensor(parameter):
            if parameter.grad is None:  # another process may have one
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.div_(size)
            dist.all_reduce(parameter.grad)


def states_of(model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return state dicts of model and optimizer, as a training file keeps them.

    All processes of a sharded model must call it.
    """
    if not is_sharded(model):
        return model.state_dict(), optimizer.state_dict()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_state_dict(model, optimizer, options=options)


def put_states(
    model: nn.Module, optimizer: Optimizer, model_state: dict[str, Any], optimizer_state: dict[str, Any]
) -> None:
    """Load states that `states_of` returned."""
    if not is_sharded(model):
        model.load_state_dict(model_state)
        optimizer.load_state_dict(optimizer_state)
        return
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

    optimizer.zero_grad()  # where there are gradients it does not make room for moments
    set_state_dict(
        model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state,
        options=StateDictOptions(full_state_dict=True),
    )  # fmt: skip

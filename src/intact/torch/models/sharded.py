"""Models whose parameters `torch.distributed.fsdp.fully_shard` deals over the processes (FSDP2).

It looks after the parameters that it has dealt: it makes them whole in front of a layer's forward, and
averages their gradients. Buffers, ranges among them, and parameters that came later, learned ranges, stay
whole in every process: what keeps those equal is here.
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
    """Whether a part of `model` is dealt over the processes."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    from torch.distributed.fsdp import FSDPModule

    return any(isinstance(module, FSDPModule) for module in model.modules())


def require_whole(model: nn.Module, where: str, fix: str) -> None:
    """
    Raises:
        QuantValueError: `model` is no module, has no values, or a part of it is dealt over the processes.
    """
    require_module(model, where)
    if is_sharded(model):
        raise QuantValueError(f"{where}: model", "one sharded by fully_shard", "a whole model", fix)


def whole(x: Tensor) -> Tensor:
    """`x` as one tensor; where it is dealt over processes each of them asks for it, and gets a copy."""
    return x.full_tensor() if is_dealt(x) else x  # type: ignore[attr-defined]


def is_dealt(x: Tensor) -> bool:
    """Whether `x` is a tensor of which this process has a part."""
    return hasattr(x, "full_tensor")


def reshard(model: nn.Module) -> None:
    """Take whole parameters apart, which the outermost module keeps behind a forward without backward."""
    if is_sharded(model):
        from torch.distributed.fsdp import FSDPModule

        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


@torch.no_grad()
def equalize(tensors: Iterable[Tensor]) -> None:
    """Give every process the first one's values of `tensors`, in place."""
    for x in tensors:
        if not is_dealt(x):
            dist.broadcast(x.data, src=0)


@torch.no_grad()
def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients of those that are not dealt by their means over the processes."""
    size = dist.get_world_size()
    for parameter in parameters:
        if parameter.requires_grad and not is_dealt(parameter):
            if parameter.grad is None:  # another process may have one
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.div_(size)
            dist.all_reduce(parameter.grad)


def states_of(model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the file of a training keeps of both; every process asks, where the model is sharded."""
    if not is_sharded(model):
        return model.state_dict(), optimizer.state_dict()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_state_dict(model, optimizer, options=options)


def put_states(
    model: nn.Module, optimizer: Optimizer, found: dict[str, Any], optimizer_found: dict[str, Any]
) -> None:
    """The inverse of `states_of`."""
    if not is_sharded(model):
        model.load_state_dict(found)
        optimizer.load_state_dict(optimizer_found)
        return
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

    optimizer.zero_grad()  # where there are gradients it does not make room for moments
    set_state_dict(
        model, optimizer, model_state_dict=found, optim_state_dict=optimizer_found,
        options=StateDictOptions(full_state_dict=True),
    )  # fmt: skip

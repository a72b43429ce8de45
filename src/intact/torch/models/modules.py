"""Check, unwrap and copy a user's module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize

from intact.errors import QuantValueError
from intact.torch.private_torch import compiled_module, forward_pre_hooks, is_compiled, pytree

_M = TypeVar("_M", bound=nn.Module)

quantized_callbacks: list[Callable[[nn.Module], None]] = []
"""Callbacks that graph mode runs with each model once it has quantizers."""


def require_module(model: object, what: str) -> None:
    """Raise unless `model` is a module whose tensors have values.

    Args:
        model: Any object.
        what: The caller's name, for the message.
    Raises:
        QuantValueError: `model` is no module, or a tensor is on the meta device.
    """
    if not isinstance(model, nn.Module):
        inner = " (its .model is one)" if isinstance(getattr(model, "model", None), nn.Module) else ""
        raise QuantValueError(f"{what}: model", f"a {type(model).__name__}", f"a torch.nn.Module{inner}",
                              "pass the module itself")  # fmt: skip
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_meta:
            raise QuantValueError(
                f"{what}: '{name}'", "a tensor on the meta device", "one with values",
                "load the weights first: model.to_empty(device='cpu'), then model.load_state_dict(...)",
            )  # fmt: skip


def unwrap(model: nn.Module) -> nn.Module:
    """Return the module without the wrappers of torch.compile, DataParallel or DistributedDataParallel."""
    while isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel) or is_compiled(model):
        inner = compiled_module(model) if is_compiled(model) else model.module
        assert isinstance(inner, nn.Module)
        model = inner
    return model


def deep_copy(model: _M) -> _M:
    """Return a deep copy, also of modules that keep tensors with a history, which PyTorch refuses to copy.

    ``torch.nn.utils.weight_norm`` and pruning keep the weight that they compute so, and compute it again in
    each run. Other modules keep their last output. The copy has the values of such tensors.
    """
    attributes = (
        leaf for module in model.modules() for leaf in pytree.tree_leaves(list(vars(module).values()))
    )
    memo = {id(x): x.detach().clone() for x in attributes if isinstance(x, Tensor) and not x.is_leaf}
    return copy.deepcopy(model, memo)


@contextmanager
def compute_weights_once(model: nn.Module) -> Iterator[None]:
    """Compute parametrized weights once, by torch itself, inside the context.

    An exporter decomposes the functions of parametrizations and hooks, and the parts round differently. A
    weight at the edge between two codes would then get another code in the file than in the module.
    """
    with parametrize.cached(), ExitStack() as stack:
        for module in model.modules():
            for name in module.parametrizations if parametrize.is_parametrized(module) else ():  # type: ignore[union-attr]
                getattr(module, name)
            hooks = forward_pre_hooks(module)
            for key, hook in list(hooks.items()):
                if type(hook).__module__.startswith("torch.nn.utils."):  # weight_norm, spectral_norm, pruning
                    hook(module, ())
                    stack.callback(_put_back, hooks, key, hooks.pop(key))
        yield


def _put_back(hooks: Any, key: int, hook: Any) -> None:
    hooks[key] = hook
    hooks.move_to_end(key, last=False)

"""The user's module itself, and copies of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError

_M = TypeVar("_M", bound=nn.Module)

when_quantized: list[Callable[[nn.Module], None]] = []
"""Called with each model that graph mode has given its quantizers."""


def require_module(model: object, what: str) -> None:
    """Refuse what cannot be run: anything but a module, and a module without values.

    Raises:
        QuantValueError: Says what `what` got.
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


def unwrapped(model: nn.Module) -> nn.Module:
    """The module without what torch.compile, DataParallel or DistributedDataParallel put around it."""
    while isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel) or _is_compiled(model):
        inner = model._orig_mod if _is_compiled(model) else model.module
        assert isinstance(inner, nn.Module)
        model = inner
    return model


def _is_compiled(model: nn.Module) -> bool:
    return type(model).__name__ == "OptimizedModule" and hasattr(model, "_orig_mod")


def copied(model: _M) -> _M:
    """A deep copy, of what PyTorch refuses to copy as well: tensors with a history that modules keep.

    ``torch.nn.utils.weight_norm`` and pruning keep the weight that they compute so, and compute it again in
    each run; others keep what they answered last. The copy has their values.
    """
    kept = (leaf for module in model.modules() for leaf in pytree.tree_leaves(list(vars(module).values())))
    memo = {id(x): x.detach().clone() for x in kept if isinstance(x, Tensor) and not x.is_leaf}
    return copy.deepcopy(model, memo)


@contextmanager
def made_weights(model: nn.Module) -> Iterator[None]:
    """While it is open, what parametrizations and hooks make of parameters is made once, by torch itself.

    An exporter takes their functions apart, and the parts round otherwise: a weight at the edge of two codes
    gets another one in the file than in the module.
    """
    with parametrize.cached(), ExitStack() as stack:
        for module in model.modules():
            for name in module.parametrizations if parametrize.is_parametrized(module) else ():  # type: ignore[union-attr]
                getattr(module, name)
            hooks = module._forward_pre_hooks
            for key, hook in list(hooks.items()):
                if type(hook).__module__.startswith("torch.nn.utils."):  # weight_norm, spectral_norm, pruning
                    hook(module, ())
                    stack.callback(_put_back, hooks, key, hooks.pop(key))
        yield


def _put_back(hooks: Any, key: int, hook: Any) -> None:
    hooks[key] = hook
    hooks.move_to_end(key, last=False)

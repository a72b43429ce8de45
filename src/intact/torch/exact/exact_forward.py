"""Make every call of a model run its float steps as the engine does, by hooks."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from intact.torch.exact.exact_mode import exact_functions

__all__ = ["run_exactly"]


class _OpenCalls(threading.local):
    """Holds the contexts of the calls that run in this thread."""

    def __init__(self) -> None:
        self.contexts: list[AbstractContextManager[None]] = []


_open_calls = _OpenCalls()


def run_exactly(model: nn.Module) -> nn.Module:
    """Open `exact_functions` around every call of `model`; return it."""
    if _enter not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(_enter, prepend=True)
        model.register_forward_hook(_leave, always_call=True)
    return model


def _enter(model: nn.Module, _args: Any) -> None:
    if torch.compiler.is_compiling():
        return
    context = exact_functions(model)
    context.__enter__()
    _open_calls.contexts.append(context)


def _leave(_model: nn.Module, _args: Any, _output: Any) -> None:
    if not torch.compiler.is_compiling() and _open_calls.contexts:
        _open_calls.contexts.pop().__exit__(None, None, None)

"""Runs of a model without a trace: they show what calls it makes, and that copies change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from intact.torch.graph_mode.call_observer import Observer
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.trace_records import Untraceable
from intact.torch.models.batches import tensors_in
from intact.torch.operators.packed_sequences import has_packed
from intact.torch.private_torch import pytree

_AGREEMENT = 1e-3
_TRIES = 4
"""Runs in training mode at most, where each leaves out some modules."""


@dataclass(frozen=True)
class Like:
    """A tensor's type and shape."""

    dtype: torch.dtype
    shape: torch.Size


class Surveyor(Observer):
    """Hands every call copies, and keeps what modules answer, one answer for each run of their forward.

    Attributes:
        answers: Path -> answers with a `Like` in place of each tensor; of PyTorch's own modules none.
    """

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__(model, leaves, careful=careful)
        self.answers: dict[str, list[Any]] = {}

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        return x.clone()

    def answered(self, call: ModelCall, output: Any) -> None:
        if not call.function and call.module in self.leaves:
            self.ran(call.module, output)

    def ran(self, path: str, output: Any) -> None:
        if has_packed(output):  # as many rows as only values say: nothing can stand in for that
            if why := self.leaves.get(path):
                raise Untraceable("", f"'{path}' answers a packed sequence, and cannot be traced: {why}")
            self.answers.setdefault(path, []).append(None)
            return
        alike = pytree.tree_map_only(Tensor, lambda x: Like(x.dtype, x.shape), output)
        self.answers.setdefault(path, []).append(alike)


def survey(model: nn.Module, leaves: Mapping[str, str], args: Any, kwargs: Any) -> Surveyor:
    """A run that shows that copies of what calls read change nothing.

    Raises:
        Untraceable: They do.
    """
    devices = _devices(model, args, kwargs)
    with _same_luck(devices):
        own = list(tensors_in(model(*args, **kwargs)))
    if not own:
        raise Untraceable("", "its answer holds no tensor that can be found: answer tensors, tuples or dicts")
    told = any(x.numel() for x in own)  # of a detector that finds nothing, no value can differ
    for careful in range(0 if told else 2, 3):
        surveyor = Surveyor(model, leaves, careful=careful)
        with _same_luck(devices), surveyor.watching():
            theirs = list(tensors_in(model(*args, **kwargs)))
        if len(own) == len(theirs) and all(map(_agree, own, theirs)):
            return surveyor
    raise Untraceable("", "it answers something else the second time: it has state")


def _devices(model: nn.Module, args: Any, kwargs: Any) -> set[torch.device]:
    """Where the model may draw random numbers: where its tensors are."""
    return {x.device for x in (*model.parameters(), *model.buffers(), *tensors_in((args, kwargs)))}


@contextmanager
def _own_luck(devices: Collection[torch.device]) -> Iterator[None]:
    """Random numbers that are drawn inside are nobody else's; of other devices than these none are."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))  # the CPU
        for device in _with_generator(devices):
            stack.enter_context(torch.random.fork_rng(devices=[device.index], device_type=device.type))
        yield


@contextmanager
def _same_luck(devices: Collection[torch.device]) -> Iterator[None]:
    """Models that draw random numbers draw the same ones in every such run."""
    with _own_luck(devices):
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds every GPU
        for device in _with_generator(devices):
            module = torch.get_device_module(device)
            with module.device(device):
                module.manual_seed(0)
        yield


def _with_generator(devices: Collection[torch.device]) -> list[torch.device]:
    """The accelerators that have one each."""
    return [x for x in devices if x.index is not None and _has_generators(x.type)]


def _has_generators(kind: str) -> bool:
    return hasattr(getattr(torch, kind, None), "get_rng_state_all")


def survey_training(
    model: nn.Module, run: Surveyor, visited: Collection[str], args: Any, kwargs: Any
) -> list[Surveyor]:
    """Runs in training mode, of which nothing stays: a few where a run leaves out some of `visited`.

    Empty where there cannot be one with this input.
    """
    found, seen = list[Surveyor](), set[str]()
    with _own_luck(_devices(model, args, kwargs)):  # one for all: else each would leave out the same
        while len(found) < _TRIES and not (found and seen.issuperset(visited)):
            surveyor = _in_training(model, run, args, kwargs)
            if surveyor is None:
                break
            found.append(surveyor)
            seen |= surveyor.visited
    return found


def _in_training(model: nn.Module, run: Surveyor, args: Any, kwargs: Any) -> Surveyor | None:
    surveyor = Surveyor(model, run.leaves, careful=run.careful)
    before = {name: x.clone() for name, x in model.named_buffers()}
    model.train()
    try:
        with surveyor.watching():
            model(*args, **kwargs)
    except Exception:  # batch norm refuses a single value per channel; training with it would as well
        return None
    finally:
        model.eval()
        for name, x in model.named_buffers():
            x.copy_(before[name])
    return surveyor


def _agree(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.double(), b.double()
    finite = a[a.isfinite()]  # masked logits are -inf, and must be so both times
    bound = _AGREEMENT * float(finite.abs().max()) if finite.numel() else 0
    return bool(torch.allclose(a, b, _AGREEMENT, bound, equal_nan=True))

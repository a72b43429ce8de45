"""Run a model without a trace, to list its calls and to prove that copies of their operands change
nothing.
"""

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
"""Most runs in training mode. A run with random depth may leave out modules, so several are made."""


@dataclass(frozen=True)
class TensorLike:
    """A tensor's type and shape."""

    dtype: torch.dtype
    shape: torch.Size


class TrialRun(Observer):
    """Passes copies to every call, and records the outputs of each module's forward runs.

    Attributes:
        outputs_by_path: Path -> outputs, with a `TensorLike` in place of each tensor. PyTorch's own modules
            have none.
    """

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__(model, leaves, careful=careful)
        self.outputs_by_path: dict[str, list[Any]] = {}

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        return x.clone()

    def note_result(self, call: ModelCall, output: Any) -> None:
        if not call.function and call.module in self.leaves:
            self.note_module_result(call.module, output)

    def note_module_result(self, path: str, output: Any) -> None:
        if has_packed(output):  # as many rows as only values say: nothing can stand in for that
            if why := self.leaves.get(path):
                raise Untraceable("", f"'{path}' answers a packed sequence, and cannot be traced: {why}")
            self.outputs_by_path.setdefault(path, []).append(None)
            return
        alike = pytree.tree_map_only(Tensor, lambda x: TensorLike(x.dtype, x.shape), output)
        self.outputs_by_path.setdefault(path, []).append(alike)


def run_trial(model: nn.Module, leaves: Mapping[str, str], args: Any, kwargs: Any) -> TrialRun:
    """Run a model and prove that copies of the calls' operands change nothing.

    Raises:
        Untraceable: They change the outputs.
    """
    devices = _devices(model, args, kwargs)
    with _fixed_seed(devices):
        own_outputs = list(tensors_in(model(*args, **kwargs)))
    if not own_outputs:
        raise Untraceable("", "its answer holds no tensor that can be found: answer tensors, tuples or dicts")
    # A detector that finds nothing has no values that could differ.
    has_values = any(x.numel() for x in own_outputs)
    for careful in range(0 if has_values else 2, 3):
        trial = TrialRun(model, leaves, careful=careful)
        with _fixed_seed(devices), trial.observing():
            outputs = list(tensors_in(model(*args, **kwargs)))
        if len(own_outputs) == len(outputs) and all(map(_agree, own_outputs, outputs)):
            return trial
    raise Untraceable("", "it answers something else the second time: it has state")


def _devices(model: nn.Module, args: Any, kwargs: Any) -> set[torch.device]:
    """Return the devices on which the model may draw random numbers: those of its tensors."""
    return {x.device for x in (*model.parameters(), *model.buffers(), *tensors_in((args, kwargs)))}


@contextmanager
def _restore_random_state(devices: Collection[torch.device]) -> Iterator[None]:
    """Restore the state of random generators of these devices, and of the CPU, behind the context."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))  # the CPU
        for device in _with_generator(devices):
            stack.enter_context(torch.random.fork_rng(devices=[device.index], device_type=device.type))
        yield


@contextmanager
def _fixed_seed(devices: Collection[torch.device]) -> Iterator[None]:
    """Let the model draw the same random numbers in every such context."""
    with _restore_random_state(devices):
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` seeds every GPU
        for device in _with_generator(devices):
            module = torch.get_device_module(device)
            with module.device(device):
                module.manual_seed(0)
        yield


def _with_generator(devices: Collection[torch.device]) -> list[torch.device]:
    """Return the accelerators that have a random generator each."""
    return [x for x in devices if x.index is not None and _has_generators(x.type)]


def _has_generators(kind: str) -> bool:
    return hasattr(getattr(torch, kind, None), "get_rng_state_all")


def run_trials_in_training(
    model: nn.Module, run: TrialRun, visited: Collection[str], args: Any, kwargs: Any
) -> list[TrialRun]:
    """Run the model in training mode and restore its state.

    Return several runs where a run leaves out some of `visited`.

    The list is empty where the model cannot run in training mode with this input.
    """
    trials, visited_so_far = list[TrialRun](), set[str]()
    # One context for all runs, or each would leave out the same modules.
    with _restore_random_state(_devices(model, args, kwargs)):
        while len(trials) < _TRIES and not (trials and visited_so_far.issuperset(visited)):
            trial = _run_in_training(model, run, args, kwargs)
            if trial is None:
                break
            trials.append(trial)
            visited_so_far |= trial.visited
    return trials


def _run_in_training(model: nn.Module, run: TrialRun, args: Any, kwargs: Any) -> TrialRun | None:
    trial = TrialRun(model, run.leaves, careful=run.careful)
    before = {name: x.clone() for name, x in model.named_buffers()}
    model.train()
    try:
        with trial.observing():
            model(*args, **kwargs)
    except Exception:  # batch norm refuses a single value per channel; training with it would as well
        return None
    finally:
        model.eval()
        for name, x in model.named_buffers():
            x.copy_(before[name])
    return trial


def _agree(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.double(), b.double()
    finite = a[a.isfinite()]  # masked logits are -inf, and must be so both times
    bound = _AGREEMENT * float(finite.abs().max()) if finite.numel() else 0
    return bool(torch.allclose(a, b, _AGREEMENT, bound, equal_nan=True))

"""Compare a module with its engine on a few samples, for what reports say about the two."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from intact import graph
from intact.engine import compile as build
from intact.engine.compare import (
    MODULE,
    MOST_PARAMETERS,
    MOST_SAMPLES,
    EngineComparison,
    compare_module,
    summarize_side,
)
from intact.errors import IntactError
from intact.torch.exact import record_torch_steps
from intact.torch.models.array_runner import Runner, as_array
from intact.torch.models.batches import tensors_in
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.operators.recurrent import WholeLayers
from intact.torch.private_torch import pytree, version_of
from intact.torch.qdq.qdq_model import Call, qdq_model
from intact.torch.qdq.run_exporter import evaluating
from intact.torch.tracing.changed_calls import ChangedCalls

__all__ = ["EngineComparison", "LazyComparison", "compare_call", "compare_with_engine"]


def compare_with_engine(
    model: nn.Module, call: Call, *, most_parameters: float = float("inf")
) -> EngineComparison:
    """Compile `model`, run module and engine on one call, and count the differences.

    It costs one compilation and a run of each. Of a batch the first `MOST_SAMPLES` are run, and the batch is
    left open, as `intact.compile` does. Where the model fixes its sizes, the whole batch is run.

    Args:
        model: A module with quantizers or with block weights.
        call: Positional and named arguments, on the module's device.
        most_parameters: Compare no module with more parameters.
    """
    count = sum(x.numel() for x in model.parameters())
    if count > most_parameters:
        return EngineComparison(
            skipped=f"{count:,} parameters take long to compile; `compare` of the result does it all the same"
        )
    errors: list[Exception] = []
    for is_open, part in ((True, _first_samples(call)), (False, call)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `export` and `compile` give them
                with torch.no_grad():
                    written, _ = qdq_model(model, part, dynamic_batch=is_open)
                return compare_call(model, written, part)
        except Exception as error:  # a report says why, whatever a module's own code raises
            errors.append(error)
    chosen = next((error for error in errors[::-1] if isinstance(error, IntactError)), errors[-1])
    return EngineComparison(skipped=" ".join(f"{chosen}".split()) or type(chosen).__name__)


def compare_call(model: nn.Module, written: graph.Model, call: Call) -> EngineComparison:
    """Run `model` and the engine of its graph `written` on one call, and count the differences.

    Raises:
        IntactError: The graph cannot be compiled.
    """
    pairs = graph.read_named_pairs(written)
    graph.own_weights(written)
    engine = build(written, threads=torch.get_num_threads())
    arrays = [as_array(x) for x in tensors_in(call)]
    feeds = {port.name: array for port, array in zip(engine.inputs, arrays, strict=True)}
    with evaluating(model), record_torch_steps() as torch_steps:
        comparison = compare_module(engine, _CallRunner(model, pairs, call), feeds)
    return summarize_side(comparison, "module", MODULE, torch_steps=dict(torch_steps.most_common()))


def _first_samples(call: Call) -> Call:
    """Return the call with the first samples of each tensor that has the batch's size."""
    tensors = [x for x in pytree.tree_leaves(call) if isinstance(x, Tensor) and x.dim()]
    size = tensors[0].shape[0] if tensors else 0

    def cut(x: Any) -> Any:
        return x[:MOST_SAMPLES] if isinstance(x, Tensor) and x.dim() and x.shape[0] == size else x

    args, kwargs = pytree.tree_map(cut, (tuple(call[0]), dict(call[1])))
    return args, kwargs


class _CallRunner(Runner):
    """Runs a module on one call, with arguments of any kind, whatever arrays it is asked for."""

    def __init__(self, model: nn.Module, pairs: Sequence[graph.NamedPair], call: Call) -> None:
        super().__init__(model, pairs)
        self._args, self._kwargs = call

    def __call__(self, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs, in the model's order."""
        args, kwargs = pytree.tree_map_only(Tensor, torch.clone, (self._args, self._kwargs))
        # Packed sequences have all steps, as in a file.
        with torch.no_grad(), ChangedCalls(WholeLayers()):
            return [as_array(x) for x in tensors_in(self._model(*args, **kwargs))]


class LazyComparison:
    """Compares a module with its engine when that is first asked for, and again where the module has changed.

    Args:
        model: With quantizers.
        call: One call of it, of the calibration data.
    """

    def __init__(self, model: nn.Module, call: Call) -> None:
        self._model, self._call = model, call
        self._state: Any = None
        self._result: EngineComparison | None = None

    def __deepcopy__(self, memo: Any) -> LazyComparison:
        """Return this one: copies of a report are about the same module."""
        return self

    def __call__(self) -> EngineComparison:
        """Return the comparison of the module as it is now."""
        state = _state_of(self._model)
        if self._result is None or state != self._state:
            self._state = state
            self._result = compare_with_engine(self._model, self._call, most_parameters=MOST_PARAMETERS)
        return self._result


def _state_of(model: nn.Module) -> tuple[Any, ...]:
    """Return what changes where parameters, buffers or quantizers of a module do."""
    tensors = (*model.named_parameters(), *model.named_buffers())
    return (
        tuple((name, x.data_ptr(), 0 if x.is_inference() else version_of(x)) for name, x in tensors),
        tuple(repr(m) for m in model.modules() if isinstance(m, TensorQuantizer)),
    )

"""Trace a model to an ONNX graph by torch.export; ``intact::Edge`` marks each tensor that a call reads."""

from __future__ import annotations

import linecache
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from intact import graph as onnx_graph
from intact.errors import UnsupportedError
from intact.torch.graph_mode.call_observer import Observer, is_one_call
from intact.torch.graph_mode.input_markers import DOMAIN, mark_input, marker_translation
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.quantized_forward import has_method_as_forward
from intact.torch.graph_mode.recurrent_layers import why_opaque
from intact.torch.graph_mode.trace_records import Edge, Origin, Trace, Untraceable, number_by_site
from intact.torch.graph_mode.trial_runs import TensorLike, TrialRun, run_trial, run_trials_in_training
from intact.torch.models.batches import tensors_in
from intact.torch.private_torch import detect_fake_mode, open_sizes_of_one, pytree
from intact.torch.qdq.run_exporter import FLAT_WEIGHTS, translate
from intact.torch.tracing.concrete_values import concrete_values
from intact.torch.tracing.export_program import export_program, hide_export
from intact.torch.tracing.untranslated_operators import Opaque, find_untranslated, translate_complex
from intact.torch.tracing.user_frames import NOT_THE_USERS
from intact.torch.training.collect_statistics import evaluating

_BEHIND_STOP = "it runs behind the line at which tracing ends"


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Trace:
    """Trace `model` in evaluation mode.

    Submodules that cannot be traced become one call each, inner ones first.

    Nothing is known of what the model's own forward does behind a line that cannot be traced.

    Raises:
        Untraceable: The model's own forward cannot be traced, or there is nothing in front of that line.
        UnsupportedError: The exporter cannot write an operator.
    """
    leaves = {path: reason for path, m in model.named_modules() if (reason := _why_one_call(m))}
    if "" in leaves:
        raise Untraceable("", leaves[""])
    stopped = ""
    with evaluating(model):
        while True:
            run = run_trial(model, leaves, args, kwargs)
            try:
                marker, traced, exporting = _export_with_or_without_flags(
                    model, run, args, kwargs, whole=not stopped
                )
            except Untraceable as error:
                if not leaves.keys() >= error.modules.keys():
                    leaves |= error.modules
                elif error.path or stopped:
                    raise
                else:
                    stopped = error.reason
            else:
                called = {call.module for call in traced.calls if not call.function}
                called -= {path for path in leaves if _returns_nothing(run, path)}
                traced.leaves = {path: reason for path, reason in leaves.items() if path in called}
                training = run_trials_in_training(model, run, marker.visited, args, kwargs)
                traced = number_by_site(traced, marker, run, training)
                if stopped:
                    traced.stopped = stopped
                    traced.leaves |= dict.fromkeys(_untraced_modules(marker, run), _BEHIND_STOP)
                traced.with_open_sizes = partial(
                    _export_open, model, run, args, kwargs,
                    whole=not stopped, exporting=exporting, edges=len(traced.edges),
                )  # fmt: skip
                return traced


def _returns_nothing(run: TrialRun, path: str) -> bool:
    """Return whether a module returns no tensors, as the guards of an exported program do."""
    return path in run.outputs_by_path and all(
        leaf is None for leaf in pytree.tree_leaves(run.outputs_by_path[path])
    )


def _untraced_modules(marker: Observer, trial: Observer) -> list[str]:
    """Return the modules that a run enters and the trace does not, without those inside of one of them."""

    def modules_in(observer: Observer) -> set[str]:
        return observer.visited | {call.module for call in observer.calls if not call.function}

    missed = sorted(modules_in(trial) - modules_in(marker))
    return [path for path in missed if not any(path.startswith(f"{outer}.") for outer in missed)]


def _why_one_call(module: nn.Module) -> str:
    own = is_one_call(module) or not has_method_as_forward(module)
    return why_opaque(module) or (
        "its forward was replaced on the instance" if own and "forward" in vars(module) else ""
    )


# ---- the export ----


class _Marker(Observer):
    """Marks every tensor that a call reads."""

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__(model, leaves, careful=careful)
        self.edges: list[Edge] = []
        named = [*model.named_parameters(), *model.named_buffers()]
        self._sources = {id(x): Origin(name) for name, x in reversed(named)}
        self._alive: list[Tensor] = []

    def source(self, x: Tensor) -> Origin:
        """Return the source of x."""
        self._alive.append(x)  # its id is its own for as long
        return self._sources.setdefault(id(x), Origin(output=len(self._sources)))

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        self.edges.append(Edge(self.source(x), call, operand))
        return mark_input(x, len(self.edges) - 1)

    def note_result(self, call: ModelCall, output: Any) -> None:
        for number, x in enumerate(tensors_in(output)):
            self._alive.append(x)
            self._sources[id(x)] = Origin(call=call, output=number)

    def ends(self) -> list[Tensor]:
        """Return floating-point results of calls that no other call has read, of known sizes.

        Results that were read so far led to a mask, a number, or a tensor whose size depends on values.
        """
        results = {
            self._sources[id(x)]: x for x in self._alive
            if self._sources[id(x)].call is not None and _is_plain(x)
        }  # fmt: skip
        computed_from_results = {source.call for source in results}
        read_results = {edge.source for edge in self.edges if edge.reader in computed_from_results}
        return [x for source, x in results.items() if source not in read_results]


def _is_plain(x: Tensor) -> bool:
    return x.is_floating_point() and x.dim() > 0 and all(isinstance(size, int) for size in x.shape)


def _symbolic_output(read: list[Tensor], like: TensorLike) -> Tensor:
    """Return the output of a module that is one operator on its input."""
    return torch.onnx.ops.symbolic(f"{DOMAIN}::Module", read, dtype=like.dtype, shape=like.shape)


@dataclass
class _TraceState:
    """Holds what `_MarkedModel` works with, in an object, because torch.export restores a module's own lists.

    Attributes:
        trial: The run without a trace.
        whole: Whether the model's own forward is traced to its end.
        exporting: Whether code that asks is told that it is being exported.
        marker: The observer of the trace, once it runs.
        outputs: Origins of the model's outputs.
        failed: Modules that cannot be traced, and were not known to be so -> why.
    """

    trial: TrialRun
    whole: bool = True
    exporting: bool = True
    marker: _Marker | None = None
    outputs: set[Origin] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


class _MarkedModel(nn.Module):
    """Wraps the model, with a marker on every tensor that a call reads, and one operator in place of each
    leaf.
    """

    def __init__(self, model: nn.Module, state: _TraceState) -> None:
        super().__init__()
        self.model, self.state = model, state

    def forward(self, args: Any, kwargs: Any) -> list[Tensor]:
        state = self.state
        marker = state.marker = _Marker(self.model, state.trial.leaves, careful=state.trial.careful)
        until_stop = nullcontext() if state.whole else _return_at_stop(self.model, marker)
        flags = nullcontext() if state.exporting else hide_export()
        with _replace_leaves(self.model, marker, state), until_stop, marker.observing(), flags:
            outputs = list(tensors_in(self.model(*args, **kwargs)))
        _forget_unbacked_sizes(outputs)
        state.outputs = {marker.source(x) for x in outputs}
        return outputs


@contextmanager
def _replace_leaves(model: nn.Module, marker: _Marker, state: _TraceState) -> Iterator[None]:
    """Let leaves return the outputs that they returned before, in the same order, as one operator for each
    tensor.

    A module whose own code turns out to be untraceable does so, too. The trace goes on, and finds the others.
    """
    with ExitStack() as stack:
        for path, outputs in state.trial.outputs_by_path.items():
            if path:
                module = model.get_submodule(path)
                before = vars(module).get("forward")
                remaining = iter(outputs)
                is_leaf = path in state.trial.leaves
                module.forward = (
                    _recorded_forward(remaining)
                    if is_leaf
                    else _forward_or_recorded(module, remaining, path, marker, state)
                )
                stack.callback(_restore_forward, module, before)
        yield


def _recorded_forward(outputs: Iterator[Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return _symbolic_outputs(next(outputs), args, kwargs)

    return forward


def _forward_or_recorded(
    module: nn.Module, outputs: Iterator[Any], path: str, marker: _Marker, state: _TraceState
) -> Callable[..., Any]:
    own = module.forward

    @wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        output = next(outputs, None)
        try:
            with marker.unwinding():
                return own(*args, **kwargs)
        except Exception as error:  # whatever the user's code does with tensors that have no values
            state.failed.setdefault(path, _describe_error(error))
            _forget_unbacked_sizes(list(tensors_in((args, kwargs))))
            return _symbolic_outputs(output, args, kwargs)

    return forward


def _symbolic_outputs(output: Any, args: Any, kwargs: Any) -> Any:
    operands = list(tensors_in((args, kwargs)))
    return pytree.tree_map_only(TensorLike, lambda x: _symbolic_output(operands, x), output)


def _restore_forward(module: nn.Module, forward: Any) -> None:
    del module.forward
    if forward is not None:
        module.forward = forward


@contextmanager
def _return_at_stop(model: nn.Module, marker: _Marker) -> Iterator[None]:
    """Stop the model's forward early and return its results so far, where it cannot go on.

    An error that the caller catches would not do, because torch.fx counts the modules that it is in.
    """
    own, before = model.forward, vars(model).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        try:
            return own(*args, **kwargs)
        except Exception:  # whatever the user's code does with tensors that have no values
            if marker.path or not (results := marker.ends()):
                raise
            return results

    model.forward = forward
    try:
        yield
    finally:
        _restore_forward(model, before)


def _forget_unbacked_sizes(tensors: list[Tensor]) -> None:
    """Drop sizes that depend on values from the trace's list of sizes that must reach an output."""
    mode = detect_fake_mode(tensors)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _export_with_or_without_flags(
    model: nn.Module, trial: TrialRun, args: Any, kwargs: Any, *, whole: bool
) -> tuple[_Marker, Trace, bool]:
    """Trace the code as it runs under export, or else as it runs elsewhere, and return which of both
    it was.
    """
    try:
        return *_export(model, trial, args, kwargs, whole=whole), True
    except Untraceable as error:
        if not whole or trial.leaves:
            raise
        try:
            return *_export(model, trial, args, kwargs, whole=whole, exporting=False), False
        except (Untraceable, UnsupportedError):
            raise error from None


def _export_open(
    model: nn.Module, trial: TrialRun, args: Any, kwargs: Any, *, whole: bool, exporting: bool, edges: int
) -> onnx_graph.Model | None:
    """Trace once more with every size dynamic that the model's code leaves open.

    Return None where torch.export cannot leave sizes open, or where the code makes other calls then.
    """
    try:
        with evaluating(model):
            _, traced = _export(model, trial, args, kwargs, whole=whole, exporting=exporting, open_sizes=True)
    except (Untraceable, UnsupportedError):
        return None
    return traced.model if len(traced.edges) == edges else None


def _export(
    model: nn.Module, trial: TrialRun, args: Any, kwargs: Any, *,
    whole: bool, exporting: bool = True, open_sizes: bool = False,
) -> tuple[_Marker, Trace]:  # fmt: skip
    """Trace the model.

    Args:
        model: What is traced.
        trial: The run without a trace.
        args: Positional arguments.
        kwargs: Named arguments.
        whole: False: where the model's own forward cannot be traced, trace what it does before.
        exporting: Whether code that asks is told that it is being exported.
        open_sizes: Sizes of the input are symbols, except those that the model's code fixes.
    """
    state = _TraceState(trial, whole, exporting)
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # prints whole graphs beside its error
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), concrete_values(model, (args, kwargs)):
            warnings.filterwarnings("ignore", message=FLAT_WEIGHTS)
            call = args, dict(kwargs)
            with _open_sizes(call) if open_sizes else nullcontext() as sizes:
                program = export_program(
                    _MarkedModel(model, state).eval(), call, dynamic_shapes=sizes, strict=False
                )
    except Exception as error:  # whatever the user's code does with tensors that have no values
        raise Untraceable(
            state.marker.path if state.marker else "", _describe_error(error), state.failed
        ) from error
    finally:
        log.setLevel(level)
    assert state.marker is not None
    if state.failed:
        raise Untraceable(*next(iter(state.failed.items())), state.failed)
    exported = _to_onnx(program)
    return state.marker, Trace(exported, state.marker.edges, dict.fromkeys(state.marker.calls), state.outputs)


@contextmanager
def _open_sizes(call: Any) -> Iterator[Any]:
    """Return the dynamic shapes with which torch.export leaves every size open that the code allows, also
    sizes of 1.
    """
    with open_sizes_of_one():
        yield pytree.tree_map(
            lambda x: dict.fromkeys(range(x.dim()), Dim.AUTO) if isinstance(x, Tensor) else None, call
        )


def _to_onnx(program: torch.export.ExportedProgram) -> onnx_graph.Model:
    """Write the program as ONNX.

    What torch's exporter cannot write becomes a node `OPAQUE` of our domain.

    Raises:
        Untraceable: The exporter stops at a call that cannot be such a node, in that module.
        UnsupportedError: It stops, and at no call.
    """
    opaque: dict[Any, Opaque] = {}
    markers = marker_translation()
    while True:
        try:
            with translate_complex():
                model: onnx_graph.Model = translate(
                    program, (), opset=onnx_graph.NATIVE_OPSET, custom_translation_table=markers | opaque
                ).model
        except UnsupportedError as error:
            stuck = find_untranslated(error)
            if stuck is None:
                raise
            kinds = opaque.setdefault(stuck.target, Opaque()).by_kind
            if stuck.complex in kinds:
                path = stuck.module.partition(".")[2]  # from `_MarkedModel` on
                raise Untraceable(path, f"it cannot be exported: {error.got}") from error
            kinds[stuck.complex] = stuck.opaque_writer()
        else:
            return model


def _describe_error(error: Exception) -> str:
    text = " ".join(str(error).split("\n\n")[0].split())
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((*NOT_THE_USERS, "<"))  # "<string>": code that was made
    ]  # fmt: skip
    where = ""
    if frames:
        last = frames[-1]
        line = linecache.getline(last.filename, last.lineno or 0).strip()
        where = f" at {Path(last.filename).name}:{last.lineno}, `{line}`"
    return f"it cannot be traced{where}: {type(error).__name__}: {text[:200]}"

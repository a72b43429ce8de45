"""A model as an ONNX graph, traced by torch.export; ``intact::Edge`` marks each tensor that a call reads."""

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
from intact.torch.graph_mode.input_markers import DOMAIN, edge, edge_translation
from intact.torch.graph_mode.model_calls import ModelCall
from intact.torch.graph_mode.quantized_forward import has_method_as_forward
from intact.torch.graph_mode.recurrent_layers import why_whole
from intact.torch.graph_mode.trace_records import Edge, Origin, Traced, Untraceable, by_site
from intact.torch.graph_mode.trial_runs import Like, Surveyor, survey, survey_training
from intact.torch.models.batches import tensors_in
from intact.torch.operators.grouped_matmul import whole_products
from intact.torch.operators.recurrent import whole_layers
from intact.torch.private_torch import detect_fake_mode, open_sizes_of_one, pytree
from intact.torch.qdq.run_exporter import FLAT_WEIGHTS, translate
from intact.torch.tracing.assertions import skip_assertions
from intact.torch.tracing.concrete_values import concrete_values
from intact.torch.tracing.export_flags import hide_export
from intact.torch.tracing.untranslated_operators import Opaque, find_untranslated, translate_complex
from intact.torch.tracing.user_frames import NOT_THE_USERS, user_frames
from intact.torch.training.collect_statistics import evaluating

_BEHIND = "it runs behind the line at which tracing ends"


def trace(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Traced:
    """Trace `model` in evaluation mode; submodules that cannot be traced are one call each, inner ones first.

    What the model's own forward does behind a line that cannot be traced is not seen.

    Raises:
        Untraceable: The model's own forward cannot be traced, or there is nothing in front of that line.
        UnsupportedError: The exporter cannot write an operator.
    """
    leaves = {path: reason for path, m in model.named_modules() if (reason := _why_whole(m))}
    if "" in leaves:
        raise Untraceable("", leaves[""])
    stopped = ""
    with evaluating(model):
        while True:
            run = survey(model, leaves, args, kwargs)
            try:
                marker, traced, told = _export_either_way(model, run, args, kwargs, whole=not stopped)
            except Untraceable as error:
                if not leaves.keys() >= error.modules.keys():
                    leaves |= error.modules
                elif error.path or stopped:
                    raise
                else:
                    stopped = error.reason
            else:
                called = {call.module for call in traced.calls if not call.function}
                called -= {path for path in leaves if _answers_nothing(run, path)}
                traced.leaves = {path: reason for path, reason in leaves.items() if path in called}
                training = survey_training(model, run, marker.visited, args, kwargs)
                traced = by_site(traced, marker, run, training)
                if stopped:
                    traced.stopped = stopped
                    traced.leaves |= dict.fromkeys(_not_reached(marker, run), _BEHIND)
                traced.with_open_sizes = partial(
                    _export_open, model, run, args, kwargs,
                    whole=not stopped, told=told, edges=len(traced.edges),
                )  # fmt: skip
                return traced


def _answers_nothing(run: Surveyor, path: str) -> bool:
    """Whether a module only checks or keeps what it reads, as the guards of an exported program do."""
    return path in run.answers and all(leaf is None for leaf in pytree.tree_leaves(run.answers[path]))


def _not_reached(marker: Observer, survey: Observer) -> list[str]:
    """The modules that a run enters and the trace does not; those inside of one of them left out."""

    def entered(observer: Observer) -> set[str]:
        return observer.visited | {call.module for call in observer.calls if not call.function}

    missed = sorted(entered(survey) - entered(marker))
    return [path for path in missed if not any(path.startswith(f"{other}.") for other in missed)]


def _why_whole(module: nn.Module) -> str:
    own = is_one_call(module) or not has_method_as_forward(module)
    return why_whole(module) or (
        "its forward was replaced on the instance" if own and "forward" in vars(module) else ""
    )


# ---- the export ----


class _Marker(Observer):
    """Puts an edge on every tensor that a call reads."""

    def __init__(self, model: nn.Module, leaves: Mapping[str, str], *, careful: int) -> None:
        super().__init__(model, leaves, careful=careful)
        self.edges: list[Edge] = []
        named = [*model.named_parameters(), *model.named_buffers()]
        self._sources = {id(x): Origin(name) for name, x in reversed(named)}
        self._alive: list[Tensor] = []

    def source(self, x: Tensor) -> Origin:
        """Where x comes from."""
        self._alive.append(x)  # its id is its own for as long
        return self._sources.setdefault(id(x), Origin(output=len(self._sources)))

    def read(self, call: ModelCall, operand: int, x: Tensor) -> Tensor:
        self.edges.append(Edge(self.source(x), call, operand))
        return edge(x, len(self.edges) - 1)

    def answered(self, call: ModelCall, output: Any) -> None:
        for number, x in enumerate(tensors_in(output)):
            self._alive.append(x)
            self._sources[id(x)] = Origin(call=call, output=number)

    def ends(self) -> list[Tensor]:
        """What calls made that no call has made more of: floats of known sizes that only other things read.

        What is computed of them so far is a mask, a number, or as long as only values say.
        """
        made = {
            self._sources[id(x)]: x for x in self._alive
            if self._sources[id(x)].call is not None and _is_plain(x)
        }  # fmt: skip
        going_on = {source.call for source in made}
        read = {edge.source for edge in self.edges if edge.reader in going_on}
        return [x for source, x in made.items() if source not in read]


def _is_plain(x: Tensor) -> bool:
    return x.is_floating_point() and x.dim() > 0 and all(isinstance(size, int) for size in x.shape)


def _answer_of(read: list[Tensor], like: Like) -> Tensor:
    """What a module that is one operator makes of what it reads."""
    return torch.onnx.ops.symbolic(f"{DOMAIN}::Module", read, dtype=like.dtype, shape=like.shape)


@dataclass
class _Seen:
    """What `_Marked` works with; an object, as torch.export puts a module's lists back to what they were.

    Attributes:
        failed: Modules that cannot be traced, and were not known to be so -> why.
    """

    survey: Surveyor
    whole: bool = True
    told: bool = True
    marker: _Marker | None = None
    answers: set[Origin] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


class _Marked(nn.Module):
    """The model with an edge on every tensor that is read, and one operator in place of each leaf."""

    def __init__(self, model: nn.Module, seen: _Seen) -> None:
        super().__init__()
        self.model, self.seen = model, seen

    def forward(self, args: Any, kwargs: Any) -> list[Tensor]:
        seen = self.seen
        marker = seen.marker = _Marker(self.model, seen.survey.leaves, careful=seen.survey.careful)
        begun = nullcontext() if seen.whole else _until_it_stops(self.model, marker)
        way = nullcontext() if seen.told else hide_export()
        with _standing_in(self.model, marker, seen), begun, marker.watching(), way:
            answers = list(tensors_in(self.model(*args, **kwargs)))
        _forget_unknown_sizes(answers)
        seen.answers = {marker.source(x) for x in answers}
        return answers


@contextmanager
def _standing_in(model: nn.Module, marker: _Marker, seen: _Seen) -> Iterator[None]:
    """Let leaves answer what they answered before, in the same order, by one operator for each tensor.

    So does a module whose own code turns out to be untraceable: the trace goes on, and finds the others.
    """
    with ExitStack() as stack:
        for path, answers in seen.survey.answers.items():
            if path:
                module = model.get_submodule(path)
                before = vars(module).get("forward")
                again = iter(answers)
                known = path in seen.survey.leaves
                module.forward = _stand_in(again) if known else _traced_or(module, again, path, marker, seen)
                stack.callback(_put_back, module, before)
        yield


def _stand_in(answers: Iterator[Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return _symbols(next(answers), args, kwargs)

    return forward


def _traced_or(
    module: nn.Module, answers: Iterator[Any], path: str, marker: _Marker, seen: _Seen
) -> Callable[..., Any]:
    own = module.forward

    @wraps(own)
    def forward(*args: Any, **kwargs: Any) -> Any:
        answer = next(answers, None)
        try:
            with marker.unwinding():
                return own(*args, **kwargs)
        except Exception as error:  # whatever the user's code does with tensors that have no values
            seen.failed.setdefault(path, _said(error))
            _forget_unknown_sizes(list(tensors_in((args, kwargs))))
            return _symbols(answer, args, kwargs)

    return forward


def _symbols(answer: Any, args: Any, kwargs: Any) -> Any:
    read = list(tensors_in((args, kwargs)))
    return pytree.tree_map_only(Like, lambda x: _answer_of(read, x), answer)


def _put_back(module: nn.Module, forward: Any) -> None:
    del module.forward
    if forward is not None:
        module.forward = forward


@contextmanager
def _until_it_stops(model: nn.Module, marker: _Marker) -> Iterator[None]:
    """Let the model's own forward answer what it has made so far, where it cannot go on.

    Not by an error that the caller catches: torch.fx counts the modules that it is in.
    """
    own, before = model.forward, vars(model).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        try:
            return own(*args, **kwargs)
        except Exception:  # whatever the user's code does with tensors that have no values
            if marker.path or not (answers := marker.ends()):
                raise
            return answers

    model.forward = forward
    try:
        yield
    finally:
        _put_back(model, before)


def _forget_unknown_sizes(made: list[Tensor]) -> None:
    """A trace owes torch.export no tensor of a size that only values decide: it may not reach an answer."""
    mode = detect_fake_mode(made)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _export_either_way(
    model: nn.Module, survey: Surveyor, args: Any, kwargs: Any, *, whole: bool
) -> tuple[_Marker, Traced, bool]:
    """The trace of the way that the code goes while it is exported, or of the way that it goes elsewhere.

    And whether it is the former.
    """
    try:
        return *_export(model, survey, args, kwargs, whole=whole), True
    except Untraceable as error:
        if not whole or survey.leaves:
            raise
        try:
            return *_export(model, survey, args, kwargs, whole=whole, told=False), False
        except (Untraceable, UnsupportedError):
            raise error from None


def _export_open(
    model: nn.Module, survey: Surveyor, args: Any, kwargs: Any, *, whole: bool, told: bool, edges: int
) -> onnx_graph.Model | None:
    """The same trace with every size open that the model's code leaves open.

    None where torch.export cannot leave sizes open, or where the code makes other calls then.
    """
    try:
        with evaluating(model):
            _, traced = _export(model, survey, args, kwargs, whole=whole, told=told, open_sizes=True)
    except (Untraceable, UnsupportedError):
        return None
    return traced.model if len(traced.edges) == edges else None


def _export(
    model: nn.Module, survey: Surveyor, args: Any, kwargs: Any, *,
    whole: bool, told: bool = True, open_sizes: bool = False,
) -> tuple[_Marker, Traced]:  # fmt: skip
    """The trace.

    Args:
        model, survey, args, kwargs: What is traced, how, and with what.
        whole: False: where the model's own forward cannot be traced, what it does before is.
        told: Whether code that asks is told that it is being exported.
        open_sizes: Sizes of the input are symbols, but for those that the model's code fixes.
    """
    seen = _Seen(survey, whole, told)
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")  # prints whole graphs beside its error
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(), whole_layers(), whole_products(), skip_assertions(),
            user_frames(), concrete_values(model, (args, kwargs)),
        ):  # fmt: skip
            warnings.filterwarnings("ignore", message=FLAT_WEIGHTS)
            call = args, dict(kwargs)
            with _open_sizes(call) if open_sizes else nullcontext() as sizes:
                program = torch.export.export(
                    _Marked(model, seen).eval(), call, dynamic_shapes=sizes, strict=False
                )
    except Exception as error:  # whatever the user's code does with tensors that have no values
        raise Untraceable(seen.marker.path if seen.marker else "", _said(error), seen.failed) from error
    finally:
        log.setLevel(level)
    assert seen.marker is not None
    if seen.failed:
        raise Untraceable(*next(iter(seen.failed.items())), seen.failed)
    exported = _written(program)
    return seen.marker, Traced(exported, seen.marker.edges, dict.fromkeys(seen.marker.calls), seen.answers)


@contextmanager
def _open_sizes(call: Any) -> Iterator[Any]:
    """What torch.export takes for sizes that are open as far as the code lets them, those of 1 too."""
    with open_sizes_of_one():
        yield pytree.tree_map(
            lambda x: dict.fromkeys(range(x.dim()), Dim.AUTO) if isinstance(x, Tensor) else None, call
        )


def _written(program: torch.export.ExportedProgram) -> onnx_graph.Model:
    """The program as ONNX; what torch's exporter cannot write is one node of ours, `OPAQUE`.

    Raises:
        Untraceable: The exporter stops at a call that cannot be such a node, in that module.
        UnsupportedError: It stops, and at no call.
    """
    opaque: dict[Any, Opaque] = {}
    edges = edge_translation()
    while True:
        try:
            with translate_complex():
                made: onnx_graph.Model = translate(
                    program, (), opset=onnx_graph.NATIVE_OPSET, custom_translation_table=edges | opaque
                ).model
        except UnsupportedError as error:
            stuck = find_untranslated(error)
            if stuck is None:
                raise
            kinds = opaque.setdefault(stuck.target, Opaque()).by_kind
            if stuck.complex in kinds:
                path = stuck.module.partition(".")[2]  # from `_Marked` on
                raise Untraceable(path, f"it cannot be exported: {error.got}") from error
            kinds[stuck.complex] = stuck.opaque_writer()
        else:
            return made


def _said(error: Exception) -> str:
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

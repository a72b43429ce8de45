"""Record what a trace shows: calls, what they read, and which of them every run makes alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from intact import graph as onnx_graph
from intact.torch.graph_mode.call_observer import Observer
from intact.torch.graph_mode.model_calls import CallKind, ModelCall


class Untraceable(Exception):
    """Raised where the forward of the module at `path` cannot be traced, with the reason.

    Attributes:
        modules: Every module inside of the model that was found untraceable -> why.
    """

    def __init__(self, path: str, reason: str, modules: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{path or 'the model'}: {reason}")
        self.path, self.reason = path, reason
        self.modules = {**(modules or {}), **({path: reason} if path else {})}


@dataclass(frozen=True)
class Origin:
    """Source of a tensor: a parameter, or an output of a call.

    Attributes:
        parameter: Path of the parameter or buffer that it is.
        call: The call that made it.
        output: Its position among the tensors that the call returned; for other tensors a unique number.
    """

    parameter: str = ""
    call: ModelCall | None = None
    output: int = 0


@dataclass(frozen=True)
class Edge:
    """A tensor that a call reads.

    Attributes:
        source: What the tensor is.
        reader: The call.
        operand: Its position among the tensors in the call's arguments.
    """

    source: Origin
    reader: ModelCall
    operand: int


@dataclass
class Trace:
    """Holds the result of a trace.

    Attributes:
        model: The ONNX graph, with input markers.
        edges: The edges by their number.
        calls: Every call, in order.
        outputs: Origins of the model's outputs.
        leaves: Path of each module that is one call although it has layers inside -> why.
        unsteady: Module, function and call site -> when another number of such calls is made.
        stopped: Why the model's own forward is traced up to a line, and not behind it; "" where it is whole.
        with_open_sizes: Traces once more, with a symbol for every size that the model's code leaves open. It
            returns the ONNX graph, with the same edges; None where that cannot be.
    """

    model: onnx_graph.Model
    edges: list[Edge]
    calls: dict[ModelCall, None]
    outputs: set[Origin]
    leaves: dict[str, str] = field(default_factory=dict)
    unsteady: dict[CallKind, str] = field(default_factory=dict)
    stopped: str = ""
    with_open_sizes: Callable[[], onnx_graph.Model | None] = lambda: None


# ---- calls that another run makes, or does not make ----


def number_by_site(traced: Trace, exported: Observer, run: Observer, training: Sequence[Observer]) -> Trace:
    """Return `traced` with call sites in the names of functions that another run calls at other sites, too.

    Otherwise a mask that is only added under export would shift the numbers of all additions, and the
    residual's would be another one.
    """
    unsteady_kinds = _unsteady(exported, run, training, {}).keys()
    names = {observer: _names_by_site(observer, unsteady_kinds) for observer in (exported, run, *training)}
    renamed = names[exported]

    def origin(source: Origin) -> Origin:
        return replace(source, call=renamed[source.call]) if source.call is not None else source

    edges = [Edge(origin(edge.source), renamed[edge.reader], edge.operand) for edge in traced.edges]
    return replace(
        traced, edges=edges, calls=dict.fromkeys(renamed.values()), outputs=set(map(origin, traced.outputs)),
        unsteady=_unsteady(exported, run, training, names),
    )  # fmt: skip


def _names_by_site(observer: Observer, apart: Collection[CallKind]) -> dict[ModelCall, ModelCall]:
    """Return the calls of a run under new names: those of functions in `apart` are counted by call site."""
    counts: Counter[CallKind] = Counter()
    new_names = dict[ModelCall, ModelCall]()
    for call, site in observer.calls.items():
        if call.function and call.kind in apart:
            kind = call.module, call.function, site
            new_names[call] = ModelCall(call.module, call.function, counts[kind], site)
            counts[kind] += 1
        else:
            new_names[call] = call
    return new_names


def _unsteady(
    exported: Observer, run: Observer, training: Sequence[Observer],
    names: Mapping[Observer, Mapping[ModelCall, ModelCall]],
) -> dict[CallKind, str]:  # fmt: skip
    """Return the kinds of calls whose numbers mean different calls in different runs, and in which run."""
    unsteady: dict[CallKind, str] = {}
    runs = [*((observer, "in training mode") for observer in training), (run, "where it is not exported")]
    for observer, when in runs:
        pair = (exported, observer)
        ours, theirs = (Counter(names.get(o, {}).get(c, c).kind for c in o.calls) for o in pair)
        shared = exported.visited & observer.visited
        unsteady |= {kind: when for kind in ours if kind[0] in shared and ours[kind] != theirs[kind]}
    return unsteady

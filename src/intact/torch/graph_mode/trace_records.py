"""What a trace says: calls, what they read, and which of them every run makes alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from intact import graph as onnx_graph
from intact.torch.graph_mode.call_observer import Observer
from intact.torch.graph_mode.model_calls import Kind, ModelCall


class Untraceable(Exception):
    """The forward of the module at `path` cannot be traced; `reason` says why.

    Attributes:
        modules: Every module inside of the model that was found to be so -> why.
    """

    def __init__(self, path: str, reason: str, others: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{path or 'the model'}: {reason}")
        self.path, self.reason = path, reason
        self.modules = {**(others or {}), **({path: reason} if path else {})}


@dataclass(frozen=True)
class Origin:
    """Where a tensor comes from.

    Attributes:
        parameter: Path of the parameter or buffer that it is.
        call: The call that made it.
        output: How many tensors are in front of it in the call's answer; else a number for each tensor.
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
        operand: How many tensors are in front of it among the call's arguments.
    """

    source: Origin
    reader: ModelCall
    operand: int


@dataclass
class Traced:
    """What tracing found.

    Attributes:
        model: The ONNX graph, with edges.
        edges: The edges by their number.
        calls: Every call, in order.
        answers: Tensors that the model answers.
        leaves: Path of each module that is one call although it has layers inside -> why.
        unsteady: Module, function and site -> when another number of such calls is made.
        stopped: Why the model's own forward is traced up to a line, and not behind it; "" where it is whole.
        with_open_sizes: Traces once more, with a symbol for every size that the model's code leaves open: the
            ONNX graph, with the same edges; None where that cannot be.
    """

    model: onnx_graph.Model
    edges: list[Edge]
    calls: dict[ModelCall, None]
    answers: set[Origin]
    leaves: dict[str, str] = field(default_factory=dict)
    unsteady: dict[Kind, str] = field(default_factory=dict)
    stopped: str = ""
    with_open_sizes: Callable[[], onnx_graph.Model | None] = lambda: None


# ---- calls that another run makes, or does not make ----


def by_site(traced: Traced, exported: Observer, run: Observer, training: Sequence[Observer]) -> Traced:
    """`traced` with the places of calls in their names, for functions that another run calls elsewhere, too.

    A mask that is only added in an export is another sum than the residual's, whichever is the first one.
    """
    apart = _unsteady(exported, run, training, {}).keys()
    names = {observer: _named(observer, apart) for observer in (exported, run, *training)}
    renamed = names[exported]

    def origin(source: Origin) -> Origin:
        return replace(source, call=renamed[source.call]) if source.call is not None else source

    edges = [Edge(origin(edge.source), renamed[edge.reader], edge.operand) for edge in traced.edges]
    return replace(
        traced, edges=edges, calls=dict.fromkeys(renamed.values()), answers=set(map(origin, traced.answers)),
        unsteady=_unsteady(exported, run, training, names),
    )  # fmt: skip


def _named(observer: Observer, apart: Collection[Kind]) -> dict[ModelCall, ModelCall]:
    """The calls of a run, those of the functions in `apart` counted for each place."""
    made: Counter[Kind] = Counter()
    found = dict[ModelCall, ModelCall]()
    for call, site in observer.calls.items():
        if call.function and call.kind in apart:
            kind = call.module, call.function, site
            found[call] = ModelCall(call.module, call.function, made[kind], site)
            made[kind] += 1
        else:
            found[call] = call
    return found


def _unsteady(
    exported: Observer, run: Observer, training: Sequence[Observer],
    names: Mapping[Observer, Mapping[ModelCall, ModelCall]],
) -> dict[Kind, str]:  # fmt: skip
    """Where numbers of calls mean different calls, which have these names."""
    found: dict[Kind, str] = {}
    said = [*((one, "in training mode") for one in training), (run, "where it is not exported")]
    for observer, when in said:
        pair = (exported, observer)
        ours, theirs = (Counter(names.get(o, {}).get(c, c).kind for c in o.calls) for o in pair)
        shared = exported.visited & observer.visited
        found |= {kind: when for kind in ours if kind[0] in shared and ours[kind] != theirs[kind]}
    return found

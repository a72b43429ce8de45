"""Plan the arena: an offset for every tensor for as long as a step reads it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from intact.engine.cpu.binding import round_up
from intact.engine.cpu.layout import Layout
from intact.engine.cpu.micro_batches import MicroBatches
from intact.engine.plan import Plan
from intact.engine.steps import Epilogue, Step
from intact.engine.steps.base.wiring import reads, writes
from intact.kernels import SLACK


@dataclass
class Span:
    """Memory that is taken from one step to another, both included."""

    nbytes: int
    begin: int
    end: int


@dataclass(frozen=True)
class Memory:
    """Where everything lies.

    Attributes:
        offsets: Of tensors, by name: in the arena; of inner tensors of micro-batches, in a thread's memory.
        occupied: (offset, bytes) of what lies in the arena.
        private: For each of the micro-batches, offset and bytes of the first thread's memory.
        nbytes: Of the arena.
    """

    offsets: dict[str, int]
    occupied: set[tuple[int, int]]
    private: tuple[tuple[int, int], ...]
    nbytes: int


def plan_memory(
    plan: Plan, layout: Layout, repeated: Sequence[MicroBatches] = (), *, reuse: bool = True
) -> Memory:
    """A place for all tensors that lie in the arena.

    Args:
        plan: The plan.
        layout: How its tensors lie.
        repeated: Steps that run a few images at a time.
        reuse: Let tensors that are never alive together have the same memory.
    """
    owners, spans = _spans(plan, layout, repeated, reuse)
    offsets: dict[str, int] = {}
    each: list[tuple[str, int]] = []
    for index, steps in enumerate(repeated):
        own = {name: spans.pop(name) for name in list(spans) if name in steps.inner}
        places, nbytes = place_spans(own)
        offsets.update(places)
        each.append((f"\0{index}", nbytes))
        _outlast(steps, spans)
        spans[f"\0{index}"] = Span(nbytes * steps.threads, steps.begin, steps.end - 1)
    places, size = place_spans(spans)
    offsets.update(places)
    occupied = {(places[name], span.nbytes) for name, span in spans.items()}
    private = tuple((places[name], nbytes) for name, nbytes in each)
    return Memory({name: offsets[owner] for name, owner in owners.items()}, occupied, private, size)


def place_spans(spans: dict[str, Span]) -> tuple[dict[str, int], int]:
    """The largest first, each as low as it fits; offsets are aligned and SLACK lies behind everything."""
    # A few large tensors decide how large the arena is; small ones fit into the gaps that those leave. The
    # best packing takes a search; this takes a walk, and every machine finds the same.
    offsets: dict[str, int] = {}
    placed: list[tuple[int, int, Span]] = []
    for name, span in sorted(spans.items(), key=lambda item: -item[1].nbytes):
        size = round_up(span.nbytes + SLACK)
        offset = 0
        for begin, end, other in placed:  # by offset
            if other.begin > span.end or other.end < span.begin:
                continue
            if begin - offset >= size:
                break
            offset = max(offset, end)
        offsets[name] = offset
        insort(placed, (offset, offset + size, span), key=itemgetter(0))
    return offsets, max((end for _, end, _ in placed), default=0)


def _spans(
    plan: Plan, layout: Layout, repeated: Sequence[MicroBatches], reuse: bool
) -> tuple[dict[str, str], dict[str, Span]]:
    """Which tensor's memory a tensor has, and when that memory is taken."""
    cut = {name for r in repeated for step in plan.steps[r.begin : r.end] for name in writes(step)}
    cut.difference_update(*(steps.inner for steps in repeated))
    last = len(plan.steps)
    outside = {n for n in (*plan.inputs, *plan.outputs) if n not in layout.staged}
    dies = _last_reads(plan, layout.aliases, last)
    owners: dict[str, str] = {}
    spans: dict[str, Span] = {}
    for name in plan.inputs:
        if name not in outside:
            owners[name] = name
            # Copied in before the first step, so that nothing of that step may lie there.
            spans[name] = Span(layout.frames[name].nbytes, -1, dies.get(name, -1) if reuse else last)
    for index, step in enumerate(plan.steps):
        for name in writes(step):
            root = layout.aliases.get(name, name)
            if root in outside:
                continue
            end = dies.get(root, index) if reuse else last
            # Parts of a concatenation are written straight into the whole, long before its own step: its
            # memory is taken from the first of them on.
            if root not in owners and root != name:
                owners[root], spans[root] = root, Span(layout.frames[root].nbytes, index, end)
            if root == name and name not in owners:
                # Images of a tensor that is cut share halos, which the next time reads.
                over = reuse and name not in cut
                owner = _overwritten(step, name, index, layout, spans, owners) if over else name
                owners[name] = owner
                if owner == name:
                    spans[name] = Span(layout.frames[name].nbytes, index, end)
                spans[owner].end = max(spans[owner].end, end)
            else:
                owners[name] = owners[root]
                spans[owners[root]].end = max(spans[owners[root]].end, end)
    return owners, spans


def _outlast(steps: MicroBatches, spans: dict[str, Span]) -> None:
    """What comes or goes among repeated steps, and is not made anew each time, is there all the while."""
    for name, span in spans.items():
        if name in steps.inner:
            continue
        if steps.begin <= span.begin < steps.end:
            span.begin = steps.begin
        if steps.begin <= span.end < steps.end:
            span.end = steps.end - 1


def _last_reads(plan: Plan, aliases: dict[str, str], last: int) -> dict[str, int]:
    """The last step that reads a tensor's memory; outputs are read behind all steps."""
    dies: dict[str, int] = {}
    for index, step in enumerate(plan.steps):
        for name in reads(step):
            dies[aliases.get(name, name)] = index
    for name in plan.outputs:
        dies[aliases.get(name, name)] = last
    return dies


def _overwritten(
    step: Step, y: str, index: int, layout: Layout, spans: dict[str, Span], owners: dict[str, str]
) -> str:
    """The owner of the memory that y can take over from what the step reads; y where there is none."""
    # A step that may write over an input reads each element of it before it writes the one at that place: x
    # has to lie exactly as y does. What a step reads twice, it might read in another way too, and too late.
    used = [owners.get(name) for name in reads(step)]
    for x in _overwritable(step):
        owner = owners.get(x)
        dead = owner is not None and spans[owner].end == index and used.count(owner) == 1
        if owner is not None and dead and layout.frames[x] == layout.frames[y]:
            return owner
    return y


def _overwritable(step: Step) -> Iterable[str]:
    epilogue: Epilogue | None = getattr(step, "epilogue", None)
    for field in step.traits.in_place:
        yield epilogue.residual if field == "residual" and epilogue is not None else getattr(step, field)

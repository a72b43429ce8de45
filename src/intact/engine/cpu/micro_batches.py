"""Choose steps that run a few images of a batch at a time, so that intermediates stay in the cache.

A batch's activations leave the cache next to the core, where those of one image would stay in it. Steps that
treat images apart (`Traits.by_image`), one behind the other, are therefore repeated for a few images each
time, as if the batch were smaller. Threads share the times, so that each goes its way alone, and what only
these steps use needs memory for a few images of each thread. It pays while an image has more bytes than the
weights, which come anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from intact.engine.cpu.binding import Binding, Place, dtype_of
from intact.engine.cpu.layout import Layout
from intact.engine.cpu.prepared_plan import PreparedPlan
from intact.engine.plan import Plan
from intact.engine.shapes import peek
from intact.engine.steps import Shape, Step
from intact.engine.steps.base.wiring import constants, reads, writes
from intact.kernels import ARENA

NEAR_BYTES = 1 << 20
"""Of activations that stay next to each core: a server's second cache has 1 to 2 MB."""


@dataclass(frozen=True)
class MicroBatches:
    """Steps [begin, end) of a plan, run for `images` images at a time, `times` times.

    Attributes:
        threads: That share the times.
        inner: Tensors that only they use: each time overwrites them, in memory of the thread's own.
    """

    begin: int
    end: int
    images: int
    times: int
    threads: int
    inner: frozenset[str]

    def sizes(self, shape: Shape) -> Shape:
        """Return the sizes of one micro-batch of a tensor that the steps use."""
        return self.images, *shape[1:]

    def cut(self, binding: Binding, layout: Layout) -> None:
        """Let the binding be about the images of one time."""
        used = {name for name in _used(binding.plan.steps[self.begin : self.end]) if name in layout.frames}
        windows = {name: self._window(binding, layout, name) for name in used - self.inner}
        binding.cut({name: self.sizes(binding.shape(name)) for name in used}, windows)

    def _window(self, binding: Binding, layout: Layout, name: str) -> Place:
        """A place that moves on each time."""
        place, frame = binding.place(name), layout.frames[name]
        whole = layout.frames[layout.aliases.get(name, name)].nbytes
        start = place.offset - frame.first if place.block == ARENA else 0
        block = binding.window(place.block, start, whole, self.images * frame.strides[0], self.times)
        return replace(place, block=block, offset=place.offset - start)

    def fit(self, plan: Plan, layout: Layout) -> bool:
        """Whether all that they use may be cut where images end."""
        for name in _used(plan.steps[self.begin : self.end]):
            if name not in layout.frames:
                continue
            alias = {x for x, root in layout.aliases.items() if name in (x, root)}
            apart = alias | {layout.aliases.get(name, name)}
            strides = layout.frames[name].strides
            if strides[0] < max(strides) or len({other in self.inner for other in apart}) > 1:
                return False
        return True


def micro_batches(
    prepared: PreparedPlan, shapes: Mapping[str, Shape], threads: int
) -> tuple[MicroBatches, ...]:
    """Choose micro-batches where they pay, in the order of the steps.

    Args:
        prepared: The plan.
        shapes: Of its tensors.
        threads: Cores that share the work.
    """
    plan, apart = prepared.fused, prepared.treats_images_apart
    candidates, begin = [], 0
    while begin < len(plan.steps):
        end = begin
        while end < len(plan.steps) and apart[end] and _pays(plan, shapes, begin, end):
            end += 1
        if end - begin > 1:
            candidates.append(_cut(plan, shapes, begin, end, threads))
        begin = max(end, begin + 1)
    return tuple(candidate for candidate in candidates if candidate.times > 1)


def _pays(plan: Plan, shapes: Mapping[str, Shape], begin: int, index: int) -> bool:
    """Whether a step treats images apart, as many as the step at `begin`, and has less weights than an image
    has bytes."""
    step, batch = plan.steps[index], _batch(plan, shapes, plan.steps[begin])
    if batch < 2 or _batch(plan, shapes, step) != batch:
        return False
    return _weights(plan, step) <= _image(plan, shapes, step)


def _batch(plan: Plan, shapes: Mapping[str, Shape], step: Step) -> int:
    """How many images a step that treats them apart is about; 0 where they are not as many everywhere."""
    used = [name for name in _used([step]) if name in plan.tensors]
    counts = {0 if 0 in (shape := shapes[name]) else shape[0] for name in used}
    return counts.pop() if len(counts) == 1 else 0


def _used(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        yield from (*reads(step), *writes(step))


def _image(plan: Plan, shapes: Mapping[str, Shape], step: Step) -> int:
    """Bytes of one image in all that a step reads and makes."""
    tensors = [name for name in _used([step]) if name in plan.tensors]
    return sum(prod(shapes[name][1:]) * np.dtype(dtype_of(plan.tensors[name])).itemsize for name in tensors)


def _weights(plan: Plan, step: Step) -> int:
    return sum(peek(plan, name).nbytes for name in constants(step))


def _cut(plan: Plan, shapes: Mapping[str, Shape], begin: int, end: int, threads: int) -> MicroBatches:
    """As many images at a time as stay near the cores, in equal parts."""
    steps = plan.steps[begin:end]
    batch = _batch(plan, shapes, steps[0])
    near = NEAR_BYTES // max(1, *(_image(plan, shapes, step) for step in steps))
    fitting = [n for n in range(1, batch + 1) if batch % n == 0 and n <= max(1, near)]
    images = max((n for n in fitting if _even(batch // n, threads)), default=batch)
    outside = {*plan.inputs, *plan.outputs, *_used([*plan.steps[:begin], *plan.steps[end:]])}
    outputs = {name for step in steps for name in writes(step)}
    return MicroBatches(begin, end, images, batch // images, threads, frozenset(outputs - outside))


def _even(times: int, threads: int) -> bool:
    """Whether threads are busy for at least three quarters of the time."""
    return 4 * times >= 3 * threads * -(-times // threads)

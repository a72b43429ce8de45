"""Constant padding."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move, part_of, zero_of
from intact.engine.steps import Pad
from intact.kernels import NativeStep, View, moves


@binds(Pad)
def bind_pad(step: Pad, binding: Binding) -> list[NativeStep]:
    """What it fills with, then x in its place. Bytes fill all of y, numbers its rim."""
    x, y = binding.view(step.x), binding.view(step.y)
    starts = {axis: before for axis, (before, _) in enumerate(step.pads)}
    target = part_of(y, starts, x.sizes)
    return [*_fill(step, binding, x, y), *move(binding, step.x, x, step.y, target)]


def _fill(step: Pad, binding: Binding, x: View, y: View) -> list[NativeStep]:
    codes = binding.tensor(step.y).codes
    if codes is not None:
        byte = int(binding.array(step.fill)[0]) + codes.offset if step.fill else zero_of(codes)
        return [moves.fill(y, byte)]
    if not step.fill:
        return [moves.fill(y, 0)]
    value = binding.constant(step.fill)
    return [
        moves.copy(value.part(value.offset, part.sizes, [0] * len(part.sizes)), part, binding.kernels)
        for part in _rim(step, x, y)
    ]


def _rim(step: Pad, x: View, y: View) -> list[View]:
    """The parts of y around x: along each axis what lies before and behind, within x along those before."""
    parts = []
    for axis, (before, after) in enumerate(step.pads):
        inner = {a: step.pads[a][0] for a in range(axis)}
        for start, count in ((0, before), (before + x.sizes[axis], after)):
            if count:
                shape = (*x.sizes[:axis], count, *y.sizes[axis + 1 :])
                parts.append(part_of(y, {**inner, axis: start}, shape))
    return parts

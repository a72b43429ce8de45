"""Planes of volumes with their neighbours in depth beside them."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.cpu.steps.base.views import move, zero_of
from intact.engine.steps import StackPlanes
from intact.kernels import NativeStep, View, moves


@binds(StackPlanes)
def bind_stack_planes(step: StackPlanes, binding: Binding) -> list[NativeStep]:
    """A copy for each plane of the window, and one of the nearest plane, or real 0, where there is none."""
    x, y, codes = binding.view(step.x), binding.view(step.y), binding.tensor(step.y).codes
    volumes, height = x.sizes[0] // step.depth, y.strides[2]
    hop, by_row = (height, step.kernel * height) if step.rows else (x.sizes[1] * y.strides[1], height)
    steps: list[NativeStep] = []

    def under(tap: int, begin: int, end: int) -> View:
        """What windows have of a plane: [volumes, windows, channels, height, width]."""
        first = y.offset + begin * y.strides[0] + tap * hop
        strides = (step.places * y.strides[0], y.strides[0], y.strides[1], by_row, y.strides[3])
        return y.part(first, (volumes, end - begin, *x.sizes[1:]), strides)

    def copy(to: View, plane: int, hop: int) -> list[NativeStep]:
        """Planes of each volume, `hop` from one window to the next."""
        strides = (step.depth * x.strides[0], hop * x.strides[0], *x.strides[1:])
        planes = x.part(x.offset + plane * x.strides[0], to.sizes, strides)
        return move(binding, step.x, planes, step.y, to)

    for tap in range(step.kernel):
        windows, plane = step.planes(tap)
        for begin, end, nearest in ((0, windows.start, 0), (windows.stop, step.places, step.depth - 1)):
            if begin < end and step.repeats:
                steps += copy(under(tap, begin, end), nearest, 0)
            elif begin < end:
                steps.append(moves.fill(under(tap, begin, end), 0 if codes is None else zero_of(codes)))
        if windows:
            steps += copy(under(tap, windows.start, windows.stop), plane, step.stride)
    return steps

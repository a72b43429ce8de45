"""The step that stacks planes of volumes with their neighbours in depth, so that windows have two axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pair
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class StackPlanes(Step):
    """Volumes [n * depth, c, h, w], plane by plane, as images [n * places, kernel * c, h, w]: for each place
    of a window over the depth the planes under it, their channels behind each other (N61).

    Attributes:
        kernel, stride, dilation, pads: Of the window, pads as (before, behind). There real 0 is read, or the
            nearest plane where it `repeats`.
        rows: Rows instead: [n * places, c, h * kernel, w], the first one of each plane, then the second.
    """

    kind = "stack_planes"
    x: Read
    y: Write
    depth: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pads: Pair = (0, 0)
    rows: bool = False
    repeats: bool = False

    rules = """
        ranks(4, x, y)
        0 < depth <= 2 ** 16 and 0 < kernel <= 2 ** 16 | a depth and a kernel above 0
        0 < stride <= 2 ** 24 and 0 < dilation <= 2 ** 24 | a stride and a dilation above 0
        0 <= min(pads) and max(pads) <= 2 ** 16 | pads of 0 or more
        count = (depth + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1
        count > 0 | a window that fits
        one_dtype(x, y)
        one_grid(x, y)
        fits x: x[0] % depth == 0 | volumes of so many planes
        image = [x[1], x[2] * kernel, x[3]] if rows else [x[1] * kernel, x[2], x[3]]
        sizes y: [x[0] // depth * count, *image]
    """

    @property
    def places(self) -> int:
        """Return the number of windows over the depth."""
        rest = self.depth + sum(self.pads) - (self.kernel - 1) * self.dilation - 1
        return rest // self.stride + 1

    def planes(self, tap: int) -> tuple[range, int]:
        """Return the windows for which plane `tap` exists, and its number for the first of them."""
        first = tap * self.dilation - self.pads[0]
        begin = min(max(0, -(first // self.stride)), self.places)
        end = max(begin, min(self.places, (self.depth - 1 - first) // self.stride + 1))
        return range(begin, end), first + begin * self.stride

    def _image(self, channels: int, height: int, width: int) -> Shape:
        if self.rows:
            return channels, height * self.kernel, width
        return channels * self.kernel, height, width

    def evaluate(self, run: Run) -> None:
        x, grid = run.array(self.x), run.grid(self.x)
        count, channels, height, width = x.shape
        volumes = x.reshape(count // self.depth, self.depth, channels, height, width)
        output_shape = (len(volumes), self.places, self.kernel, *x.shape[1:])
        y = np.full(output_shape, 0 if grid is None else grid.zero_point, x.dtype)
        for tap in range(self.kernel):
            windows, plane = self.planes(tap)
            if self.repeats:
                y[:, : windows.start, tap] = volumes[:, :1]
                y[:, windows.stop :, tap] = volumes[:, -1:]
            last = plane + (len(windows) - 1) * self.stride + 1
            if windows:
                y[:, windows.start : windows.stop, tap] = volumes[:, plane : last : self.stride]
        y = y.transpose(0, 1, 3, 4, 2, 5) if self.rows else y
        run.bind(self.y, y.reshape(len(volumes) * self.places, *self._image(channels, height, width)))

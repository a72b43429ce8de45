"""The step that stacks planes of volumes with their neighbours in depth, so that windows have two axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import MOST_HOP, MOST_WIDTH, Pair
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

    def check(self, checker: Checker) -> None:
        checker.that(checker.rank(self.x, self.y) == (4, 4), f"'{self.x}', '{self.y}'", "planes: rank 4")
        sizes = self.depth, self.kernel
        checker.that(all(0 < n <= MOST_WIDTH for n in sizes), sizes, "a depth and a kernel above 0")
        hops = self.stride, self.dilation
        checker.that(all(0 < n <= MOST_HOP for n in hops), hops, "a stride and a dilation above 0")
        checker.that(all(0 <= n <= MOST_WIDTH for n in self.pads), self.pads, "pads of 0 or more")
        checker.that(self.places > 0, f"depth {self.depth}", "a window that fits")
        checker.one_dtype(self.x, self.y)
        checker.one_grid(self.x, self.y)

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

    def output_shape(self, sizes: Sizes) -> Shape:
        count, channels, height, width = sizes.of(self.x)
        if count % self.depth:
            raise mismatch(self.x, f"{count} planes", f"volumes of {self.depth}")
        return count // self.depth * self.places, *self._image(channels, height, width)

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

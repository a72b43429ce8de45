"""Runs one native step on arrays that lie as a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from intact.kernels.program import NativeStep, Program, View

GUARD = 0xA5


class Runner:
    """Blocks for one step. Everything around an output is filled with GUARD and must stay so."""

    def __init__(self, threads: int = 1) -> None:
        self.program = Program(threads)
        self._inputs: list[np.ndarray] = []
        self._outputs: list[np.ndarray] = []
        self._results: list[Callable[[], np.ndarray]] = []

    def constant(self, array: np.ndarray) -> View:
        array = np.ascontiguousarray(array)
        return View(self.program.constant(array), 0, array.dtype.name, array.shape, array.strides)

    def input(
        self,
        array: np.ndarray,
        order: Sequence[int] | None = None,
        halo: tuple[int, int, int, int] = (0, 0, 0, 0),
        fill: int = GUARD,
        slack: int = 0,
        gap: int = 0,
        holds: tuple[int, int] = (0, 255),
    ) -> View:
        """A view of `array` whose memory has the axes in `order`; an image (n, h, w, c) may have a halo."""
        buffer, offset, strides = _lay_out(array.shape, array.itemsize, order, halo, gap, slack, fill)
        _window(buffer, offset, array.dtype, array.shape, strides)[...] = array
        self._inputs.append(buffer)
        block = self.program.input(buffer.nbytes)
        return View(block, offset, array.dtype.name, array.shape, strides, halo, holds)

    def output(
        self,
        shape: tuple[int, ...],
        dtype: type = np.uint8,
        order: Sequence[int] | None = None,
        gap: int = 0,
        halo: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> View:
        itemsize = np.dtype(dtype).itemsize
        buffer, offset, strides = _lay_out(shape, itemsize, order, halo, gap, 0, GUARD)
        self._outputs.append(buffer)
        self._results.append(lambda: _window(buffer, offset, np.dtype(dtype), shape, strides).copy())
        block = self.program.output(buffer.nbytes)
        return View(block, offset, np.dtype(dtype).name, shape, strides, halo)

    def run(self, *steps: NativeStep) -> np.ndarray:
        """Run the steps and return the first output."""
        for step in steps:
            self.program.add(step)
        self.program.run(self._inputs, self._outputs)
        return self._results[0]()

    def result(self, index: int) -> np.ndarray:
        """Return an output of the last run."""
        return self._results[index]()

    def only_wrote(self, view: View) -> bool:
        """Return whether every byte of the first output's block outside `view` is still GUARD."""
        rest = self.buffer.copy()
        dtype = np.dtype(f"u{view.itemsize}")
        _window(rest, view.offset, dtype, tuple(view.sizes), tuple(view.strides)).fill(
            int.from_bytes([GUARD] * view.itemsize, "little")
        )
        return bool((rest == GUARD).all())

    @property
    def buffer(self) -> np.ndarray:
        """All bytes of the first output's block."""
        return self._outputs[0]


def _lay_out(
    shape: tuple[int, ...],
    itemsize: int,
    order: Sequence[int] | None,
    halo: tuple[int, int, int, int],
    gap: int,
    slack: int,
    fill: int,
) -> tuple[np.ndarray, int, tuple[int, ...]]:
    """A buffer, the place of element 0 in it, and strides; `gap` elements lie between neighbours of the
    axis that varies fastest but one."""
    top, left, bottom, right = halo
    order = tuple(range(len(shape))) if order is None else tuple(order)
    strides = [0] * len(shape)
    step = itemsize
    for position, axis in enumerate(reversed(order)):
        strides[axis] = step
        size = shape[axis]
        if len(shape) == 4:
            size += top + bottom if axis == 1 else left + right if axis == 2 else 0
        step *= size
        if position == 0:
            step += gap * itemsize
    first = top * strides[1] + left * strides[2] if len(shape) == 4 else 0
    buffer = np.full(step + slack, fill, np.uint8)
    return buffer, first, tuple(strides)


def _window(
    buffer: np.ndarray, offset: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    return np.ndarray(shape, dtype, buffer, offset, strides)


@pytest.fixture(scope="session")
def runner() -> type[Runner]:
    """The class: a test makes one for each run."""
    return Runner

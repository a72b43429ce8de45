"""What a function that makes native steps sees, and the registry of those functions.

One function for each kind of step, in the file of its name in `steps`:

    @binds(Conv)
    def bind_conv(step: Conv, binding: Binding) -> list[NativeStep]:
        return [gemm.conv(binding.image(step.x), binding.image(step.y), ...)]
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.prepared_plan import PreparedPlan
from intact.engine.kernel_choices import FormChoice, FormChooser
from intact.engine.shapes import peek
from intact.engine.steps import Codes, Halo, Shape, Step, Tensor
from intact.kernels import ARENA, SLACK, NativeStep, Program, View

NO_HALO: Halo = (0, 0, 0, 0)
ALIGNMENT = 64

Packed = MutableMapping[tuple[str, str], NDArray[Any]]
"""Weights as a kernel wants them, by (constant, kernel): kept for all shapes, and in plan files."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies.

    Attributes:
        block: Number of the block.
        offset: Bytes from its start to element 0.
        strides: Bytes, in ONNX's order of axes.
        halo: Only images (channels last) have one. Its bytes hold the zero point.
    """

    block: int
    offset: int
    strides: tuple[int, ...]
    halo: Halo = NO_HALO


class Binding:
    """A plan with shapes and places.

    Attributes:
        prepared, plan: What is bound.
        shapes: Sizes of every tensor, in ONNX's order.
        places: Where every tensor lies.
        kernels: The chosen kernel of each family.
        chooser: Decides where a layer has several forms.
        values: What arithmetic with sizes made, by tensor.
    """

    def __init__(
        self,
        prepared: PreparedPlan,
        shapes: dict[str, Shape],
        places: dict[str, Place],
        arena: int,
        program: Program,
        kernels: dict[str, str],
        packed: Packed,
        chooser: FormChooser,
        values: dict[str, NDArray[np.generic]],
    ) -> None:
        self.prepared, self.plan = prepared, prepared.fused
        self.shapes, self.places, self.kernels = shapes, places, kernels
        self._program, self._packed = program, packed
        self.chooser, self.values = chooser, values
        self._sizes: dict[str, Shape] = {}
        self._windows: dict[str, Place] = {}
        self._chosen: list[tuple[NativeStep, FormChoice]] = []
        self._constants: dict[str, View] = {}
        self._views: dict[str, View] = {}
        self._planned = self._top = self._most = arena

    @property
    def threads(self) -> int:
        """That will run a step."""
        return 1 if self._sizes else self._program.thread_pool.threads

    def tensor(self, name: str) -> Tensor:
        """The plan's record of a tensor."""
        return self.plan.tensors[name]

    def codes(self, name: str) -> Codes:
        """The grid of a tensor of codes."""
        codes = self.plan.tensors[name].codes
        assert codes is not None, f"{name} holds no codes"
        return codes

    def grid(self, name: str) -> Codes | None:
        """The grid of a tensor of codes; None for others and for constants."""
        return self.plan.tensors[name].codes if name in self.plan.tensors else None

    def shape(self, name: str) -> Shape:
        """Sizes of a tensor, in ONNX's order: of what the step that is bound is about."""
        return self._sizes.get(name) or self.shapes[name]

    def place(self, name: str) -> Place:
        """Where that lies."""
        return self._windows.get(name) or self.places[name]

    def cut(self, sizes: dict[str, Shape], windows: dict[str, Place]) -> None:
        """Let the steps that are bound from now on be about parts of tensors, each on one thread.

        Args:
            sizes: Of the parts; all other tensors are whole again.
            windows: Where those lie that do not lie by themselves.
        """
        self._sizes, self._windows = sizes, windows
        self._views.clear()

    @property
    def has_temporary(self) -> bool:
        """Whether steps may ask for `temporary` memory: those about parts of tensors may not."""
        return not self._sizes

    def is_cut(self, name: str) -> bool:
        """Whether steps are about a part of a tensor that lies whole."""
        return name in self._windows

    def view(self, name: str) -> View:
        """A tensor, or a constant that stands for one, with its axes in ONNX's order, however its bytes
        lie; without its halo."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._view(name)
        return view

    def _view(self, name: str) -> View:
        if name not in self.places:
            return self.constant(name)
        place, (dtype, holds) = self.place(name), self._memory_of(name)
        return View(place.block, place.offset, dtype, self.shape(name), place.strides, holds=holds)

    def _memory_of(self, name: str) -> tuple[str, tuple[int, int]]:
        """The dtype of a tensor's elements in memory, and which bytes can occur there."""

        def make() -> tuple[str, tuple[int, int]]:
            return dtype_of(self.tensor(name)), bytes_of(self.tensor(name))

        return self.prepared.keep(("memory", name), make)

    def image(self, name: str) -> View:
        """A tensor of rank 4 as (n, h, w, c), with its halo. Channels are neighbours where a step's
        binder asked for images."""
        place, shape = self.place(name), self.shape(name)
        return View(
            place.block,
            place.offset,
            dtype_of(self.tensor(name)),
            channels_last(shape),
            channels_last(place.strides),
            place.halo,
            bytes_of(self.tensor(name)),
        )

    def array(self, name: str) -> NDArray[Any]:
        """A constant of the plan."""
        return self.plan.constants[name]

    def weight(self, name: str) -> NDArray[Any]:
        """Return a weight without reading it from the plan file yet, for its shape or `pack_constant`."""
        return peek(self.plan, name)

    def constant(self, name: str) -> View:
        """A constant of the plan, dense, as native steps read it."""
        if name not in self._constants:
            self._constants[name] = self.hold(self.plan.constants[name])
        return self._constants[name]

    def hold(self, array: NDArray[Any]) -> View:
        """An array made now, dense, as native steps read it."""
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).reshape(array.shape)
        block, dtype = self._program.constant(array), _name_of(array.dtype)
        return View(block, 0, dtype, array.shape, dense_strides(array.shape, array.itemsize))

    def is_packed(self, constant: str, kernel: str) -> bool:
        """Whether `packed` has this already."""
        return (constant, kernel) in self._packed

    def pack_constant(self, constant: str, kernel: str, pack: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """A constant in the form that `kernel` wants; `pack` makes it when nobody has yet."""
        key = (constant, kernel)
        if key not in self._packed:
            self.array(constant)  # compares it with its checksum
            self._packed[key] = pack()
        return self._packed[key]

    def note(self, step: NativeStep, choice: FormChoice) -> NativeStep:
        """Remember why a step has the form that it has; returns it."""
        self._chosen.append((step, choice))
        return step

    def choices(self, steps: Sequence[NativeStep]) -> dict[int, FormChoice]:
        """What was chosen for those of `steps` that have several forms, by their place."""
        place = {id(step): index for index, step in enumerate(steps)}
        return {place[id(step)]: choice for step, choice in self._chosen if id(step) in place}

    def same_memory(self, x: View, y: View) -> bool:
        """Whether two views of one shape and dtype are the same bytes: there is nothing to copy then."""
        return (x.block, x.offset) == (y.block, y.offset) and all(
            size == 1 or a == b for size, a, b in zip(x.sizes, x.strides, y.strides, strict=True)
        )

    def window(self, block: int, offset: int, nbytes: int, stride: int, times: int) -> int:
        """A block that is a part of another, as `Program.window` says."""
        return self._program.window(block, offset, nbytes, stride, times)

    def temporary(self, dtype: str, sizes: Shape) -> View:
        """Memory between the native steps of one step of the plan: threads share it."""
        assert self.has_temporary, "no step that treats images apart has any"
        offset, nbytes = self._top, prod(sizes) * np.dtype(dtype).itemsize
        self._program.tensor(offset, nbytes)
        self._top = round_up(offset + nbytes + SLACK)
        self._most = max(self._most, self._top)
        return dense_view(ARENA, offset, dtype, sizes)

    @property
    def arena(self) -> int:
        """Bytes of the arena, temporary memory so far included."""
        return self._most

    def native_steps(self, step: Step) -> list[NativeStep]:
        """What runs for this step. Steps of one plan share their temporary memory."""
        self._top = self._planned
        return BINDERS[type(step)](step, self)


Bind = Callable[[Any, Binding], list[NativeStep]]
BindT = TypeVar("BindT", bound=Bind)
BINDERS: dict[type[Step], Bind] = {}
"""How the steps of each kind become native."""


def binds(kind: type[Step]) -> Callable[[BindT], BindT]:
    """Register a function that makes the steps of a kind native."""

    def register(bind: BindT) -> BindT:
        BINDERS[kind] = bind
        return bind

    return register


def channels_last(axes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(n, c, h, w) as (n, h, w, c)."""
    n, c, h, w = axes
    return n, h, w, c


def dense_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """Strides of row-major memory without gaps, in bytes."""
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dense_view(block: int, offset: int, dtype: str, shape: Shape) -> View:
    """Row-major memory without gaps."""
    return View(block, offset, dtype, shape, dense_strides(shape, np.dtype(dtype).itemsize))


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """NumPy works out the name each time that it is asked."""
    return dtype.name


def dtype_of(tensor: Tensor) -> str:
    """The dtype of a tensor's elements in memory: codes are bytes."""
    return "uint8" if tensor.codes is not None else tensor.stored_dtype


def bytes_of(tensor: Tensor) -> tuple[int, int]:
    """Ends of the bytes in a tensor's memory, its halo included: what kernels' proofs rest on."""
    if tensor.codes is None:
        return 0, 255
    low, high = tensor.codes.stored_range
    return low + tensor.codes.offset, high + tensor.codes.offset


def round_up(nbytes: int) -> int:
    """The next place where a tensor may start."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

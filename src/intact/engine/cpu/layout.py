"""The order in which a tensor's bytes lie, and its halo.

Images, tensors of rank 4 that a convolution or a pool touches, lie channels last; what is computed from
them element by element too, so that no step turns them round. Everything else is row-major. Inputs and
outputs of the plan, and of ONNX Runtime's subgraphs, are row-major whatever touches them: where that
contradicts, `staged` names them, and they are copied.

Reshapes and transposes move nothing where their elements lie right already, or may lie as they do; what is
only concatenated is written into its part of the whole, and what is sliced for that is read where it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from intact.engine.cpu.binding import NO_HALO, dense_strides
from intact.engine.cpu.prepared_plan import PreparedPlan
from intact.engine.plan import Plan
from intact.engine.steps import Concat, Halo, Reshape, Shape, Slice, Step, Transpose
from intact.engine.steps.base.wiring import reads, writes


@dataclass(frozen=True)
class Frame:
    """How a tensor lies in memory of its own.

    Attributes:
        strides: Bytes, in ONNX's order of axes.
        first: Bytes from the start to element 0: the halo before it.
        nbytes: All of it.
        halo: As in `Place`.
    """

    strides: tuple[int, ...]
    first: int
    nbytes: int
    halo: Halo = NO_HALO


@dataclass(frozen=True)
class Layout:
    """The frames of all tensors.

    Attributes:
        frames: By name.
        aliases: Tensors that are another's memory under another shape, or a part of it, and whose.
        staged: Inputs and outputs of the plan that lie in the arena, in a frame of their own, besides.
    """

    frames: dict[str, Frame]
    aliases: dict[str, str]
    staged: frozenset[str]


def lay_out(prepared: PreparedPlan, shapes: dict[str, Shape]) -> Layout:
    """Choose how every tensor lies."""
    plan = prepared.fused
    outer = frozenset((*plan.inputs, *plan.outputs))
    images = prepared.keep(("layout", "images"), lambda: _images(plan, outer))
    halos = prepared.keep(("layout", "halos"), lambda: _halos(plan))
    frames = {}
    for name, shape in shapes.items():
        itemsize = prepared.itemsizes[name]
        if name in images:
            frames[name] = image_frame(shape, itemsize, halos.get(name, NO_HALO))
        else:
            frames[name] = Frame(dense_strides(shape, itemsize), 0, prod(shape) * itemsize)
    both = set(plan.inputs) & set(plan.outputs)
    # A caller's array is row-major and ends where it ends. Images lie in another order, and kernels read a
    # little beyond codes (SLACK): both are copied, and lie in the arena meanwhile.
    staged = {n for n in outer if n in images or n in both or plan.tensors[n].codes is not None}
    aliases = Aliases(prepared, shapes, frames, images | outer).find(outer - staged)
    return Layout(frames, aliases, frozenset(staged))


def image_frame(shape: Shape, itemsize: int, halo: Halo) -> Frame:
    """Channels last. Neighbouring rows share the halo between them, and neighbouring images theirs."""
    # All bytes of a halo are the zero point, so that what lies right of one row can be what lies left of the
    # next: one border between two rows instead of two. At 7 x 7 pixels that is a fifth of the memory.
    n, c, h, w = shape
    top, left, bottom, right = halo
    pixel = c * itemsize
    row = (w + max(left, right)) * pixel
    image = (h + max(top, bottom)) * row
    first = top * row + left * pixel
    last = first + (n - 1) * image + (h - 1 + bottom) * row + (w + right) * pixel
    pixels = n and h + top + bottom and w + left + right  # without any of its own it has a halo to be read
    return Frame((image, itemsize, row, pixel), first, last if pixels and c else 0, halo)


def _images(plan: Plan, outer: frozenset[str]) -> set[str]:
    """What lies channels last: what steps ask for, then what can follow without a contradiction."""
    rank4 = {name for name, tensor in plan.tensors.items() if len(tensor.shape) == 4}
    images: set[str] = set()
    fixed = set(outer)
    for step in plan.steps:
        if not step.native:
            fixed.update(reads(step), writes(step))
        elif step.traits.images:
            images.update(rank4.intersection((*reads(step), *writes(step))))
    # An element-wise step takes any order that all its tensors have. Where one of them is an image the
    # others had better be, else somebody turns them round. That goes with the steps and against them: an
    # Add takes its other input along, and that one what it was made from; hence a fixed point, not one
    # walk.
    followers = [set(_tensors(step)) & rank4 for step in plan.steps if step.traits.follows]
    grown = True
    while grown:
        grown = False
        for names in followers:
            new = names - images - fixed
            if new and names & images:
                images |= new
                grown = True
    return images


def _tensors(step: Step) -> Iterable[str]:
    return (*reads(step), *writes(step))


def _halos(plan: Plan) -> dict[str, Halo]:
    """The largest that any reader wants, side by side."""
    halos: dict[str, Halo] = {}
    for step in plan.steps:
        for name, halo in step.halo(plan.constants).items():
            top, left, bottom, right = map(max, halo, halos.get(name, NO_HALO))
            halos[name] = (top, left, bottom, right)
    return halos


def _same_strides(shape: Shape, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two sets of strides lead to the same places: those of single positions lead nowhere."""
    return all(size == 1 or m == n for size, m, n in zip(shape, a, b, strict=True))


def same_strides_under(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """The strides of a tensor under another shape that has other axes of size 1; None for other shapes."""
    if [size for size in shape if size != 1] != [size for size in wanted if size != 1]:
        return None
    left = iter([stride for size, stride in zip(shape, strides, strict=True) if size != 1])
    return tuple(0 if size == 1 else next(left) for size in wanted)


class Aliases:
    """Finds tensors that can be others' memory, so that steps which only move them need not run. Frames of
    tensors that may lie in any order are changed, so that there are more of them.

    Args:
        prepared, shapes: The plan, and the sizes of its tensors.
        frames: Their frames.
        fixed: Tensors whose frames stay as they are.
    """

    def __init__(
        self,
        prepared: PreparedPlan,
        shapes: dict[str, Shape],
        frames: dict[str, Frame],
        fixed: Collection[str],
    ) -> None:
        self._plan, self._shapes, self._frames, self._fixed = prepared.fused, shapes, frames, fixed
        self._itemsizes = prepared.itemsizes
        self._readers, self._makers = prepared.readers, prepared.makers
        self._found: dict[str, str] = {}

    def find(self, direct: Collection[str]) -> dict[str, str]:
        """Tensors that are another's memory, and whose.

        Args:
            direct: Inputs and outputs of the plan that steps read and write in the caller's arrays.
        """
        outer = {*self._plan.inputs, *self._plan.outputs}
        for step in self._plan.steps:
            if not isinstance(step, Reshape | Transpose):
                continue
            x, y = self._frames[step.x], self._frames[step.y]
            # An image with a halo is not dense: under another shape its borders would be elements.
            if x.halo != NO_HALO or y.halo != NO_HALO or not self._same_bytes(step.x, step.y):
                continue
            if step.y in outer:
                if step.y in direct and isinstance(step, Reshape) and step.x not in outer:
                    self._ends(step)
            elif step.x in outer and step.x not in direct:
                continue
            elif self._stays(step) or self._follows(step) if isinstance(step, Reshape) else self._turns(step):
                self._found[step.y] = self._found.get(step.x, step.x)
        for step in self._parts(outer):
            self._takes_part(step)
        for step in self._plan.steps:
            if isinstance(step, Concat) and step.y not in outer and step.y not in self._found:
                self._join(step, outer)
        return self._found

    def _parts(self, outer: Collection[str]) -> list[Slice]:
        """Slices that only concatenations read, or further such slices, in order: space to depth is those."""
        slices: list[Slice] = []
        for step in reversed(self._plan.steps):
            if not isinstance(step, Slice) or step.y in outer or step.y in self._found:
                continue
            readers = self._readers.get(step.y, [])
            joined = all(isinstance(reader, Concat) or reader in slices for reader in readers)
            if readers and joined and self._same_bytes(step.x, step.y):
                slices.append(step)
        return slices[::-1]

    def _takes_part(self, step: Slice) -> None:
        """y is every so many elements of x, in x's memory."""
        x = self._frames[step.x]
        first = x.first
        if prod(self._shapes[step.y]):
            first += sum(start * stride for start, stride in zip(step.starts, x.strides, strict=True))
        strides = tuple(hop * stride for hop, stride in zip(step.steps, x.strides, strict=True))
        self._frames[step.y] = Frame(strides, first, self._frames[step.y].nbytes)
        self._found[step.y] = self._found.get(step.x, step.x)

    def _join(self, step: Concat, outer: Collection[str]) -> None:
        """Inputs that nobody else reads are written where the concatenation wants them."""
        # Another reader might want the input dense, or with a halo; and an input that is an alias, or has
        # some, would take others along.
        y, start = self._frames[step.y], 0
        axis = step.axis % len(y.strides)
        for x in step.xs:
            alone = self._readers.get(x) == [step] and x not in outer
            whole = x not in self._found and x not in self._found.values()
            maker = self._makers.get(x)
            # What writes images writes parts of images alone.
            image = len(y.strides) == 4 and step.y in self._fixed
            parts = maker is not None and maker.traits.writes_parts and (image or not maker.traits.images)
            if alone and whole and parts and self._same_bytes(x, step.y):
                first = y.first + start * y.strides[axis]
                self._frames[x] = replace(self._frames[x], strides=y.strides, first=first)
                self._found[x] = step.y
            start += self._shapes[x][axis] if x in self._shapes else self._plan.constants[x].shape[axis]

    def _ends(self, step: Reshape) -> None:
        """What becomes an output of the plan is made in its memory, with all that shares it."""
        maker = self._makers.get(step.x)
        if step.x in self._found or maker is None or not maker.native or not self._stays(step):
            return
        shared = [name for name, root in self._found.items() if root == step.x]
        self._found.update(dict.fromkeys([*shared, step.x], step.y))

    def _stays(self, step: Reshape) -> bool:
        """Whether both sides are row-major."""
        return self._is_dense(step.x) and self._is_dense(step.y)

    def _follows(self, step: Reshape) -> bool:
        """Whether y, which is x but for axes of size 1, can lie as x does."""
        x, y = self._frames[step.x], self._frames[step.y]
        strides = same_strides_under(self._shapes[step.x], x.strides, self._shapes[step.y])
        if strides is None:
            return False
        if _same_strides(self._shapes[step.y], strides, y.strides):
            return True
        if not self._is_free(step.y) or not self._readers.get(step.y):
            return False
        self._frames[step.y] = replace(y, strides=strides)
        return True

    def _turns(self, step: Transpose) -> bool:
        """Whether y lies as x does with its axes in another order, or one of the two can be made to."""
        # First as both lie; then y follows x, which its readers have to take; last x follows y, which its
        # maker has to write, and x's other readers to take.
        x, y = self._frames[step.x], self._frames[step.y]
        moved = tuple(x.strides[axis] for axis in step.perm)
        if _same_strides(self._shapes[step.y], moved, y.strides):
            return True
        if self._is_free(step.y) and self._readers.get(step.y):
            self._frames[step.y] = replace(y, strides=moved)
            return True
        maker = self._makers.get(step.x)
        made_here = step.x not in self._found and maker is not None and maker.traits.strided
        if made_here and self._is_free(step.x):
            back = sorted(range(len(step.perm)), key=lambda axis: step.perm[axis])
            self._frames[step.x] = replace(x, strides=tuple(y.strides[axis] for axis in back))
            return True
        return False

    def _is_free(self, name: str) -> bool:
        """Whether all readers take a tensor as it lies."""
        return name not in self._fixed and all(map(self._takes_any, self._readers.get(name, ())))

    def _takes_any(self, step: Step) -> bool:
        """Whether a step reads tensors with any strides at no cost: so one that only drops axes of size 1."""
        if isinstance(step, Reshape):
            x = self._shapes[step.x]
            return same_strides_under(x, (0,) * len(x), self._shapes[step.y]) is not None
        return step.traits.strided

    def _is_dense(self, name: str) -> bool:
        dense = dense_strides(self._shapes[name], self._itemsizes[name])
        return _same_strides(self._shapes[name], self._frames[name].strides, dense)

    def _same_bytes(self, x: str, y: str) -> bool:
        """Whether what means a number in one tensor means it in the other."""
        a, b = self._plan.tensors[x].codes, self._plan.tensors[y].codes
        if a is None or b is None:
            return a is b
        return (a.scale, a.zero_point, a.offset) == (b.scale, b.zero_point, b.offset)

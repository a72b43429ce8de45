"""Answer a step's questions about sizes, once those of the plan's inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from intact.engine.steps.base.dims import value_of
from intact.engine.steps.base.tensors import Shape, Tensor
from intact.errors import QuantValueError


class Sizes:
    """The sizes that are known so far, in ONNX's order of axes.

    Args:
        tensors: Of the plan.
        constant: The sizes of a constant.
        loose: Tensors whose sizes may differ from what the plan says.

    Attributes:
        shapes: Of tensors.
        dims: The sizes that named dimensions turned out to have.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        constant: Callable[[str], Shape],
        loose: frozenset[str] = frozenset(),
    ) -> None:
        self._tensors, self._constant, self._loose = tensors, constant, loose
        self.shapes: dict[str, Shape] = {}
        self.dims: dict[str, int] = {}

    def of(self, name: str) -> Shape:
        """Return a tensor's sizes, or a constant's."""
        return self.shapes[name] if name in self.shapes else self._constant(name)

    def rank(self, name: str) -> int:
        """Return the rank of a tensor, or of a constant."""
        return len(self._tensors[name].shape if name in self._tensors else self._constant(name))

    def dtype(self, name: str) -> str:
        """Return a tensor's dtype."""
        return self._tensors[name].dtype

    def partial_shape(self, name: str) -> tuple[int | None, ...]:
        """Return a tensor's shape by the plan; None where a named dimension is not known yet."""
        return self._tensors[name].partial_shape(self.dims)

    def complete_shapes(self, names: tuple[str, ...]) -> dict[str, Shape] | None:
        """Return the sizes of tensors, if the plan knows them all."""
        shapes: dict[str, Shape] = {}
        for name in names:
            shape = tuple(d for d in self.partial_shape(name) if d is not None)
            if len(shape) != len(self._tensors[name].shape):
                return None
            shapes[name] = shape
        return shapes

    def bind(self, name: str, shape: Shape) -> None:
        """Store a tensor's sizes, and learn those of its named dimensions.

        Raises:
            QuantValueError: They contradict what the plan says, or what is known.
        """
        wanted = self._tensors[name].shape
        if len(wanted) != len(shape):
            raise mismatch(name, f"{len(shape)} dimensions {shape}", f"{len(wanted)} dimensions {wanted}")
        for axis, (dim, size) in enumerate(zip(wanted, shape, strict=True)):
            want = resolve_size(dim, size, self.dims) if isinstance(dim, str) else dim
            if want != size and name not in self._loose:
                dim_text = f" ('{dim}')" if isinstance(dim, str) else ""
                raise mismatch(name, f"size {size} in dimension {axis}{dim_text}", f"{want}")
        self.shapes[name] = shape


def resolve_size(dim: str, size: int, sizes: dict[str, int]) -> int:
    """Resolve a free size: from known ones, else as `size`, which is then recorded."""
    want = value_of(dim, sizes)
    if want is None:
        want = sizes[dim] = size
    return want


def mismatch(name: str, got: str, want: str) -> QuantValueError:
    """Return the error for a tensor whose sizes do not fit."""
    return QuantValueError(
        f"tensor '{name}'", got, want, "give inputs of the shapes that the model was made for"
    )


def broadcast(name: str, a: Shape, b: Shape) -> Shape:
    """Broadcast the sizes of two tensors, `name` being the second.

    Source: ONNX, multidirectional broadcasting.
    """
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for axis, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and 1 not in (m, n):
            raise mismatch(name, f"size {n} in dimension {axis - rank} from the end", f"{m} or 1")
    return tuple(m if n == 1 else n for m, n in zip(a, b, strict=True))


def product_shape(sizes: Sizes, a: str, b: str) -> Shape:
    """Return the sizes of the product of [..., i, k] by [..., k, j], leading axes broadcast.

    Raises:
        QuantValueError: They do not go together; names b.
    """
    left, right = sizes.of(a), sizes.of(b)
    if left[-1] != right[-2]:
        raise mismatch(b, f"{right[-2]} rows", f"{left[-1]}, the columns of '{a}'")
    return *broadcast(b, left[:-2], right[:-2]), left[-2], right[-1]

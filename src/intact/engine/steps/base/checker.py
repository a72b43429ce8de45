"""Check the tensors and constants that a step names, when a plan is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from intact.engine.steps.base.tensors import Codes, Tensor
from intact.engine.steps.base.wiring import Const, fields_of
from intact.errors import FileFormatError

Arrays = Mapping[str, tuple[str, tuple[int, ...]]]
"""dtype and shape of constants, by name: to ask for the arrays themselves would read them."""


class Checker:
    """Checks one step against the tensors and constants around it.

    Args:
        where: The step, in words, for errors.
        tensors, arrays: Of the plan.
    """

    def __init__(self, where: str, tensors: Mapping[str, Tensor], arrays: Arrays) -> None:
        self.where, self._tensors, self._arrays = where, tensors, arrays

    def that(self, holds: bool, got: object, want: str) -> None:
        """Refuse the step unless this holds."""
        if not holds:
            raise wrong(self.where, str(got), want)

    def record(self, record: object) -> None:
        """Check the fields of a step or epilogue: names present, constants of declared dtype and rank,
        finite numbers."""
        for name, value in vars(record).items():
            self.that(not isinstance(value, float) or isfinite(value), f"{name} {value}", "a finite number")
        for field in fields_of(record):
            for name in field.names(record):
                self.that(bool(name) or field.optional, f"no name in {field.name}", "one")
                if name and isinstance(field.role, Const):
                    self._constant(name, field.role)

    def _constant(self, name: str, role: Const) -> None:
        dtype, shape = self._arrays.get(name, ("nothing", ()))
        fits = dtype == role.dtype and len(shape) == role.rank
        self.that(fits, f"'{name}' {dtype} {shape}", f"{role.dtype} of rank {role.rank}")

    def sizes(self, constant: str) -> tuple[int, ...]:
        """Return the sizes of a constant that a field declares."""
        return self._arrays[constant][1]

    def constant(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return dtype and sizes of a constant in a tensor's place; anything else is refused."""
        self.that(name not in self._tensors, f"tensor '{name}'", "a constant")
        return self._arrays[name]

    def rank(self, *names: str) -> tuple[int, ...]:
        """Return the rank of tensors, or of constants in their places."""
        return tuple(
            len(self._tensors[name].shape if name in self._tensors else self._arrays[name][1])
            for name in names
        )

    def dtype(self, name: str) -> str:
        """Return the dtype of a tensor, or of a constant in its place."""
        return self._tensors[name].dtype if name in self._tensors else self._arrays[name][0]

    def grid(self, name: str) -> Codes | None:
        """Return the grid of a tensor of codes; None for others and for constants."""
        return self._tensors[name].codes if name in self._tensors else None

    def codes(self, *names: str) -> None:
        """Check that these tensors hold codes."""
        for name in names:
            self.that(self.grid(name) is not None, f"floats in '{name}'", "codes")

    def floats(self, *names: str) -> None:
        """Check that these tensors hold float32."""
        for name in names:
            self.that(self.dtype(name) == "float32", f"{self.dtype(name)} in '{name}'", "float32")

    def one_dtype(self, *names: str) -> None:
        """Check that these tensors hold numbers of one type, or codes all."""
        dtypes = [self.dtype(name) for name in names]
        self.that(len(set(dtypes)) == 1, f"{', '.join(dtypes)} in {', '.join(names)}", "one dtype")

    def one_rank(self, *names: str) -> None:
        """Check that these tensors have one rank, and it is not 0."""
        ranks = self.rank(*names)
        self.that(min(ranks) == max(ranks) > 0, ranks, "one rank for all")

    def one_grid(self, a: str, b: str) -> None:
        """Check that these tensors hold codes of one grid, or none."""
        self.that(self.grid(a) == self.grid(b), f"'{a}', '{b}'", "one grid")

    def types(self, names: Sequence[str], dtypes: Sequence[str]) -> None:
        """Check that these tensors are each of one of these dtypes."""
        one_of = "one of " if len(dtypes) > 2 else ""
        for name in names:
            dtype = self.dtype(name)
            self.that(dtype in dtypes, f"{dtype} in '{name}'", one_of + " or ".join(dtypes))

    def ranks(self, rank: int, *names: str) -> None:
        """Check that these tensors have this rank."""
        ranks = self.rank(*names)
        self.that(set(ranks) <= {rank}, f"ranks {ranks} of {', '.join(names)}", f"rank {rank}")

    def per_axis(self, x: str, y: str, *lists: Sequence[Any]) -> None:
        """Check that these tensors have one rank, and these lists an entry for each axis."""
        ranks = (*self.rank(x, y), *(len(entries) for entries in lists))
        self.that(len(set(ranks)) == 1, ranks, "one rank for both, and an entry for each axis")


def wrong(where: str, got: str, want: str) -> FileFormatError:
    """Return the error for a plan that no lowering would write."""
    return FileFormatError(where, f"{got:.200}", want, "build the plan from the model again")

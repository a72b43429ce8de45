"""Roles of the fields in a step's record: tensors read, tensors written, constants.

A field of names is annotated with what they are::

    x: Read                       # a tensor that the step computes with
    a: Operand                    # a tensor, or a constant in its place
    y: Write                      # a tensor that it makes
    weight: Annotated[str, Const("int8", 4)]

A field whose default is "" may be left out. From these annotations follow the order of execution, renaming,
lifetimes in memory, checks of files and the page of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, get_type_hints


@dataclass(frozen=True)
class Reads:
    """Of a field: names of tensors that are computed with.

    Attributes:
        constant: A constant may stand in place of one.
    """

    constant: bool = False


@dataclass(frozen=True)
class Writes:
    """Of a field: names of tensors that are made."""


@dataclass(frozen=True)
class Const:
    """Of a field: names of constants.

    Attributes:
        dtype: A NumPy dtype's name.
        rank: Number of axes.
        optional: "" says that there is none, even where the field has no default.
    """

    dtype: str
    rank: int
    optional: bool = False


Role = Reads | Writes | Const
Read = Annotated[str, Reads()]
Operand = Annotated[str, Reads(constant=True)]
Write = Annotated[str, Writes()]


@dataclass(frozen=True)
class Field:
    """A field of names.

    Attributes:
        name: Of the field.
        role: What its names are.
        optional: It may be "".
    """

    name: str
    role: Role
    optional: bool

    def names(self, record: object) -> tuple[str, ...]:
        """Return the names in a record's field, empty ones included."""
        value = getattr(record, self.name)
        return value if isinstance(value, tuple) else (value,)


def fields_of(record: object) -> tuple[Field, ...]:
    """Return the fields of names of a record, in order; not those of records within it."""
    kind: Any = type(record)
    return fields_of_kind(kind)


@cache
def fields_of_kind(kind: Any) -> tuple[Field, ...]:
    """Return the fields of names of a kind of record."""
    hints = get_type_hints(kind, include_extras=True)
    wired = []
    for entry in fields(kind):
        roles = [role for role in getattr(hints[entry.name], "__metadata__", ()) if isinstance(role, Role)]
        if roles:
            optional = entry.default == "" or (isinstance(roles[0], Const) and roles[0].optional)
            wired.append(Field(entry.name, roles[0], optional))
    return tuple(wired)


def names_with_roles(record: object) -> tuple[tuple[str, Role], ...]:
    """Return all names of a record and of the records within it, with their roles."""
    return _names_of(record).all


def reads(record: object) -> tuple[str, ...]:
    """Return the tensors that a step reads, and constants in the place of one."""
    cached: _Names | None = record.__dict__.get(_KEPT)
    return (cached or _names_of(record)).reads


def writes(record: object) -> tuple[str, ...]:
    """Return the tensors that a step writes."""
    cached: _Names | None = record.__dict__.get(_KEPT)
    return (cached or _names_of(record)).writes


def constants(record: object) -> tuple[str, ...]:
    """Return the constants that a step names as such."""
    return _names_of(record).constants


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of one record, by role."""

    all: tuple[tuple[str, Role], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    constants: tuple[str, ...]


_KEPT = "_names"


def _names_of(record: object) -> _Names:
    """Return a record's names, cached in the record: it never changes, and binding asks for them many
    times."""
    cached: _Names | None = record.__dict__.get(_KEPT)
    if cached is None:
        pairs = [(name, entry.role) for entry in fields_of(record) for name in entry.names(record) if name]
        for part in _parts_of(record):
            pairs.extend(names_with_roles(getattr(record, part)))
        by_role = (tuple(n for n, role in pairs if isinstance(role, kind)) for kind in (Reads, Writes, Const))
        cached = record.__dict__[_KEPT] = _Names(tuple(pairs), *by_role)
    return cached


def rename_tensors(record: Any, names: Mapping[str, str]) -> Any:
    """Copy a record with its tensors and constants renamed, where `names` has them; else return it itself."""
    if names.keys().isdisjoint(name for name, _ in names_with_roles(record)):
        return record
    changes: dict[str, Any] = {}
    for entry in fields_of(record):
        value = getattr(record, entry.name)
        new = tuple(names.get(v, v) for v in entry.names(record))
        changes[entry.name] = new if isinstance(value, tuple) else new[0]
    for part in _parts_of(record):
        changes[part] = rename_tensors(getattr(record, part), names)
    return replace(record, **changes)


def _parts_of(record: object) -> tuple[str, ...]:
    """Return the fields of a record that are records with names of their own, but no steps."""
    kind: Any = type(record)
    return _parts_of_kind(kind)


@cache
def _parts_of_kind(kind: Any) -> tuple[str, ...]:
    hints = get_type_hints(kind)
    return tuple(
        entry.name for entry in fields(kind)
        if is_dataclass(hints[entry.name]) and not hasattr(hints[entry.name], "kind")
    )  # fmt: skip

"""Part sizes of one input that share a name."""

from __future__ import annotations

from collections.abc import Iterator

from intact.graph import Model, Note, Value, set_shape


def part_repeated_names(model: Model) -> list[Note]:
    """Give each free size of an input a name of its own, where the file calls several of them alike.

    Before: ``x [n, 3, "?", "?"]``.  After: ``x [n, 3, "?", "?.3"]``.

    Exporters write "?" for whatever they do not know. Sizes that are equal in all runs lose nothing: what
    takes both checks them when it runs. Inner tensors forget such names; inference tells them again.
    """
    repeated = {name for value in model.graph.inputs for name in _repeats(value)}
    if not repeated:
        return []
    occupied = {name for value in model.graph.inputs for name in _names(value) if name is not None}
    for value in model.graph.inputs:
        seen = set[str]()
        sizes: list[int | str | None] = []
        for axis, (size, name) in enumerate(zip(value.shape or (), _names(value), strict=True)):
            if name in seen and name is not None:
                while name in occupied:
                    name = f"{name}.{axis}"
                occupied.add(name)
            seen.add(name or "")
            sizes.append(size if isinstance(size, int) else name)
        if value.shape is not None:
            set_shape(value, sizes)
    for node in model.graph:
        for value in node.outputs:
            names = _names(value)
            if value.shape is not None and not repeated.isdisjoint(names):
                both = zip(value.shape, names, strict=True)
                sizes = [size if isinstance(size, int) else name for size, name in both]
                set_shape(value, [None if size in repeated else size for size in sizes])
    return [Note("", f"sizes that are called alike are free apart: {', '.join(sorted(repeated))}")]


def _names(value: Value) -> list[str | None]:
    return [None if isinstance(size, int) else size.value for size in value.shape or ()]


def _repeats(value: Value) -> Iterator[str]:
    names = [name for name in _names(value) if name is not None]
    yield from {name for name in names if names.count(name) > 1}

"""No module of the package imports itself through others: when it loads, later, or for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.source_trees import tree_of

SOURCES = Path(__file__).parents[1] / "src"
PENDING: frozenset[frozenset[str]] = frozenset()
"""Circles that are still to be untied; it only ever gets shorter."""

FRONT_DOOR = "intact"
"""Its functions import what they dispatch to, below which it is not imported (`import intact.x` loads it)."""


def modules(root: Path) -> dict[str, Path]:
    """Every module and package under `root` by its name; an extension module counts by its stub."""
    result = {}
    for path in [*root.rglob("*.pyi"), *root.rglob("*.py")]:
        parts = path.relative_to(root).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def imports_of(name: str, path: Path, expected: Mapping[str, Path]) -> Iterator[str]:
    """Return the imports of a module: at its top, in functions, and for type checkers alone."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in expected else base


def graph(root: Path) -> dict[str, set[str]]:
    expected = modules(root)
    return {
        name: {other for other in imports_of(name, path, expected) if other in expected and other != name}
        for name, path in expected.items()
    }


def circles(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules that all reach each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            circle, stack[at:] = frozenset(stack[at:]), []
            if len(circle) > 1:
                result.add(circle)

    for name in sorted(edges):
        if name not in index:
            visit(name)
    return result


def test_no_module_imports_itself_through_others() -> None:
    result = circles(graph(SOURCES))
    assert sorted(map(sorted, result - PENDING)) == []
    assert sorted(map(sorted, PENDING - result)) == [], "these are untied: take them off the list"


def test_what_lies_below_the_front_door_does_not_go_through_it() -> None:
    users = {name for name, rest in graph(SOURCES).items() if FRONT_DOOR in rest}
    assert {name for name in users if not name.startswith("intact.cli")} <= {"intact.__main__"}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("import p.b", "from p.a import x"),
        ("from p import b", "def f():\n    from p import a"),
        ("from .b import y", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a"),
    ],
    ids=["plain", "in a function", "for types"],
)
def test_a_circle_is_found(tmp_path: Path, a: str, b: str) -> None:
    (tmp_path / "p").mkdir()
    for name, text in {"__init__": "", "a": a, "b": b, "c": "from p import a"}.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert circles(graph(tmp_path)) == {frozenset({"p.a", "p.b"})}


def test_what_another_room_has_is_taken_from_a_package() -> None:
    """A room's modules are its own: others import what the ``__init__`` of one of its packages gives."""
    deep = {
        f"{path.relative_to(SOURCES)}: {node.module}"
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("intact.")
        if node.module.count(".") > 1
        if node.module.split(".")[1] != path.relative_to(SOURCES).parts[1]
        if not SOURCES.joinpath(*node.module.split("."), "__init__.py").exists()
    }
    assert deep == set()

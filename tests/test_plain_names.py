"""Functions are no participles and variables no fillers, in the rooms that were gone through."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intact"

ROOMS = {"calib", "cli", "ptq", "report", "standins", "tuning"}
"""Rooms that keep the rules, the modules at the top of the package beside them; the list only ever grows."""

FILLERS = {"found", "one", "made", "said", "known", "who", "has", "between", "told", "kept", "others"}
IRREGULAR = {"told", "said", "made", "found", "kept", "known", "shown", "taken", "given", "written", "drawn"}

USERS = {
    "Calibration.merge: others", "added", "described", "expected_error", "expected_sqnr", "ranked",
    "streamed",
}  # fmt: skip
"""Names that users write, and that therefore stay."""

ADJECTIVES = {"added_time", "weighted_error"}
"""Participles in front of the noun that the function returns."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if len(module.parts) == 1 or module.parts[0] in ROOMS:
            yield str(module), ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield (class and name, function), nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}{node.name}", node
        yield from functions(node, f"{node.name}." if isinstance(node, ast.ClassDef) else owner)


def is_participle(name: str) -> bool:
    word = name.strip("_").partition("_")[0]
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 4 and word not in {"embed", "speed"})


def fillers(function: ast.AST) -> set[str]:
    """Return the filler names that a function binds."""
    names = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return (names | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}) & FILLERS


def test_functions_are_verbs_or_nouns() -> None:
    assert [
        f"{module}: {name}"
        for module, tree in modules()
        for name, node in functions(tree)
        if is_participle(node.name) and node.name not in USERS | ADJECTIVES
    ] == []


def test_variables_say_what_they_hold() -> None:
    assert [
        f"{module}: {name}: {filler}"
        for module, tree in modules()
        for name, node in functions(tree)
        for filler in fillers(node)
        if f"{name}: {filler}" not in USERS
    ] == []


def test_participles_and_fillers_are_found() -> None:
    tree = ast.parse("def _told(one):\n    made = one\n    return [found for found in made]\n")
    ((name, node),) = functions(tree)
    assert is_participle(name) and fillers(node) == {"one", "made", "found"}
    assert not is_participle("speed_up") and not is_participle("embed")

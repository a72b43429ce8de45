"""Public definitions have docstrings that begin with a verb, or name a thing, and name the errors raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.source_trees import tree_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intact"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

COMPLETE = {"calib", "cli", "ptq", "report", "standins", "tuning"}
"""Rooms in which nothing public lacks a docstring; the list only ever grows."""

ELSEWHERE = ("graph/ops/", "trt/base/enums.py")
"""Records of ONNX's operators and TensorRT's enumerations: they mean what the documentation of these says."""

PRESENT = 0.95
"""The part of all public definitions that has one, those of a base class included."""


def is_public(node: ast.AST) -> bool:
    return isinstance(node, Definition) and not node.name.startswith("_")


def is_overload(node: Definition) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Return (path in the package, tree) of every module."""
    return [(str(path.relative_to(PACKAGE)), tree_of(path)) for path in sorted(PACKAGE.rglob("*.py"))]


def classes() -> dict[str, list[ast.ClassDef]]:
    """Return the classes of the package by name."""
    named: dict[str, list[ast.ClassDef]] = {}
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(node)
    return named


def is_inherited(method: str, owner: ast.ClassDef, class_table: dict[str, list[ast.ClassDef]]) -> bool:
    """Return whether a base of `owner` in this package documents `method`."""
    waiting, visited = [owner], set[str]()
    while waiting:
        for base in waiting.pop().bases:
            name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
            if name in visited:
                continue
            visited.add(name)
            for candidate in class_table.get(name, []):
                waiting.append(candidate)
                for node in candidate.body:
                    if isinstance(node, Definition) and node.name == method and ast.get_docstring(node):
                        return True
    return False


def public_definitions() -> Iterator[tuple[str, Definition, ast.ClassDef | None]]:
    """Yield (module, definition, its class) of everything public."""
    for module, tree in modules():
        for node in () if module.startswith(ELSEWHERE) else tree.body:
            if not isinstance(node, Definition) or not is_public(node) or is_overload(node):
                continue
            yield module, node, None
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, Definition) and is_public(inner) and not is_overload(inner):
                        yield module, inner, node


def missing() -> tuple[list[str], int]:
    """Return the public definitions without a docstring, and the number of all."""
    class_table, names, count = classes(), list[str](), 0
    for module, node, owner in public_definitions():
        count += 1
        inherited = owner is not None and is_inherited(node.name, owner, class_table)
        if ast.get_docstring(node) is None and not inherited:
            names.append(f"{module}: {owner.name + '.' if owner else ''}{node.name}")
    return names, count


def test_public_definitions_have_docstrings() -> None:
    names, count = missing()
    assert len(names) <= (1 - PRESENT) * count, names
    assert [name for name in names if "/" not in name or name.partition("/")[0] in COMPLETE] == []


def raises(node: Definition) -> bool:
    return any(isinstance(inner, ast.Raise) and inner.exc is not None for inner in ast.walk(node))


def names_errors(node: Definition) -> bool:
    """Return whether a docstring has "Raises", says "Raise" or "Refuse", or refers to another docstring."""
    text = ast.get_docstring(node) or ""
    return any(word in text for word in ("Raise", "raise", "rror", "efuse", "As for", "as for"))


def test_docstrings_of_public_functions_name_the_errors_that_they_raise() -> None:
    """Verbs of the command line are left out: their docstrings are the help, and errors are their output."""
    silent = [
        f"{module}: {node.name}"
        for module, node, _ in public_definitions()
        if module.partition("/")[0] in COMPLETE and not module.startswith("cli/verbs/")
        if isinstance(node, ast.FunctionDef) and raises(node) and not names_errors(node)
    ]
    assert silent == []


def test_a_public_function_that_raises_silently_is_found() -> None:
    silent, loud = (
        ast.parse(f'def f():\n    """{text}"""\n    raise ValueError("x")').body[0]
        for text in ("Return.", "Raises:\n        ValueError: Always.")
    )
    assert isinstance(silent, ast.FunctionDef) and raises(silent) and not names_errors(silent)
    assert isinstance(loud, ast.FunctionDef) and names_errors(loud)


NO_VERBS = {
    "A", "All", "Along", "An", "Another", "Any", "Anything", "As", "At", "Before", "Both", "By", "Each",
    "Every", "Everything", "Few", "For", "From", "How", "In", "It", "Its", "No", "None", "Nothing",
    "Of", "On", "One", "Other", "Output", "Some", "That", "The", "There", "These", "They", "This", "To",
    "Two", "Under", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why", "With",
    "Without", "Yes",
}  # fmt: skip
"""Words with which no imperative begins; a plural noun is recognized by its end."""

APART = ("cli/app.py",)
"""The command line's own help, whose first line is the program's."""

ROOMS = ("src", "tests", "benchmarks", "examples")

QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"}
"""Words with which no docstring begins: it names a thing, or says what a function does."""


def is_imperative(docstring: str) -> bool:
    """Return whether the first word may be a verb in the imperative, as in "Return the sizes"."""
    word = docstring.split()[0].rstrip(",:;.")
    plural = word.endswith("s") and not word.endswith("ss")
    return re.fullmatch(r"[A-Z][A-Za-z-]+", word) is not None and word not in NO_VERBS and not plural


def is_property(node: Definition) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str, ast.AST]]:
    """Yield (line, docstring, its owner) of a module, its definitions and its attributes."""
    for node in ast.walk(tree):
        if isinstance(node, Definition | ast.Module) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text, node
        body = getattr(node, "body", None)
        for target, line in pairwise(body if isinstance(body, list) else ()):
            if isinstance(target, ast.Assign | ast.AnnAssign) and isinstance(line, ast.Expr):
                value = line.value.value if isinstance(line.value, ast.Constant) else None
                if isinstance(value, str):
                    yield line.lineno, value, target


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """Properties may be noun phrases, as PEP 257 has them."""
    wrong = [
        f"{module}:{line}: {text.splitlines()[0]}"
        for module, tree in modules()
        if not module.startswith(APART)
        for line, text, node in docstrings(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not is_property(node) and not is_imperative(text)
    ]
    assert wrong == []


def test_no_docstring_begins_with_a_question_word() -> None:
    apart = tuple(f"src/intact/{module}" for module in APART)
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    wrong = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path in paths
        if not str(path.relative_to(ROOT)).startswith(apart)
        for line, text, _ in docstrings(tree_of(path))
        if text.split()[0] in QUESTIONS
    ]
    assert len(paths) > len(ROOMS) and wrong == []


def test_a_noun_phrase_in_place_of_a_verb_is_found() -> None:
    assert not any(map(is_imperative, ("The sizes.", "Sizes of x.", "`x` as float32.", "Whether it is.")))
    assert all(
        map(is_imperative, ("Return the sizes.", "Pass it on.", "Fake-quantize x.", "Compute ``x + 1``."))
    )

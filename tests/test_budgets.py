"""Files that are read without scrolling twice, functions without scrolling."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_trees import tree_of

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES, WIDTH, MODULES = 500, 60, 110, 20
PYTHON = ("src", "tests", "benchmarks", "examples")
CPP_SUFFIXES = {".cc", ".h", ".inc"}


def source_files() -> Iterator[Path]:
    for room in PYTHON:
        yield from sorted((ROOT / room).rglob("*.py"))
    yield from sorted(p for p in (ROOT / "csrc").rglob("*") if p.suffix in CPP_SUFFIXES)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and number of lines of code of every function, its docstring not counted."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            prose = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
            yield node.name, node.end_lineno - node.lineno + 1 - prose


def test_no_file_is_longer_than_the_budget() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in source_files()}
    assert len(lengths) > 10, "the walk finds the sources"
    assert {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > FILE_LINES} == {}


def test_no_function_is_longer_than_the_budget() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{name}": lines
        for path in source_files()
        if path.suffix == ".py"
        for name, lines in functions(path)
        if lines > FUNCTION_LINES
    }
    assert long == {}


def test_no_line_of_the_native_code_is_too_wide() -> None:
    """ruff holds the width of Python; nothing else holds it for C++."""
    wide = {
        f"{path.relative_to(ROOT)}:{number}": len(line)
        for path in source_files()
        if path.suffix in CPP_SUFFIXES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDTH
    }
    assert wide == {}


@pytest.mark.parametrize("room", ["csrc"])
def test_native_sources_are_ascii(room: str) -> None:
    bad = [
        str(p.relative_to(ROOT))
        for p in source_files()
        if p.is_relative_to(ROOT / room)
        if not p.read_bytes().isascii()
    ]
    assert bad == []


def test_no_room_holds_more_modules_than_one_can_look_over() -> None:
    rooms = {path.parent for path in (ROOT / "src").rglob("*.py")}
    crowds = {str(room.relative_to(ROOT)): len(list(room.glob("*.py"))) for room in rooms}
    assert {room: modules for room, modules in crowds.items() if modules > MODULES} == {}


LINES = {
    "benchmarks": 15_700,
    "csrc": 44_200,
    "include": 500,
    "tests": 101_150,
    "src/intact/calib": 2_450,
    "src/intact/checksums": 100,
    "src/intact/cli": 5_500,
    "src/intact/engine": 21_700,
    "src/intact/formats": 4_100,
    "src/intact/graph": 19_700,
    "src/intact/kernels": 1_400,
    "src/intact/lm": 19_800,
    "src/intact/numerics": 5_700,
    "src/intact/ort": 4_800,
    "src/intact/placement": 3_450,
    "src/intact/processes": 450,
    "src/intact/ptq": 17_060,
    "src/intact/report": 1_100,
    "src/intact/standins": 200,
    "src/intact/torch": 24_550,
    "src/intact/trt": 15_550,
    "src/intact/tuning": 1_500,
    "src/intact": 2_350,
}  # fmt: skip
"""The most lines of each room. A change that adds a capability raises its rooms, and its commit says why."""

SLACK = 500
"""Lines below its budget that a room may stay: what has become smaller gets a smaller budget."""


def count_lines(room: str) -> int:
    """Count lines of sources in a room, without rooms with a budget of their own and copies of headers."""
    inner = [ROOT / other for other in (*LINES, "src/intact/include") if other.startswith(f"{room}/")]
    paths = [path for path in (ROOT / room).rglob("*") if path.suffix in {".py", *CPP_SUFFIXES, ".c", ".hpp"}]
    ours = [path for path in paths if not any(path.is_relative_to(folder) for folder in inner)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ours)


@pytest.mark.parametrize("room", LINES)
def test_rooms_stay_within_their_budgets_of_lines(room: str) -> None:
    assert LINES[room] - SLACK <= count_lines(room) <= LINES[room]

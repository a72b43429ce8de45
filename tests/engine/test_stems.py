"""A kind of step has one name everywhere, and an operator's rules stand in one row and one file."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from intact.engine.lower.rules.table import LAYERS, RULES
from intact.engine.steps import KINDS, Step
from intact.graph import ops
from intact.kernels import native_kinds

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "src/intact/engine"
ROOMS = ("calls", "elements", "moves", "products", "reductions")
"""The rooms of the kinds, by what they do; the same in every folder."""

FILES_BY_KIND: dict[str, set[str]] = {
    "src/intact/engine/steps": set(),
    "csrc/engine/kinds": {"call", "onnx"},  # Python and ONNX Runtime run these
}
"""Folder -> the kinds that have no file of their name in it or below."""

OF_MANY_OPERATORS = {"binary", "block_gather", "elementwise", "fold", "function", "pool", "reduce"}
"""Kinds whose rules serve many operators, beside those that an operator has of its own."""


def home(kind: type[Step]) -> tuple[str, str]:
    """The room and the file of a kind."""
    room, stem = kind.__module__.split(".")[-2:]
    return room, stem


def files(folder: str, *rooms: str) -> set[tuple[str, str]]:
    """Room and stem of every file in the rooms of a folder."""
    paths = (path for room in rooms for path in (ENGINE / folder / room).glob("*.py"))
    return {(path.parent.name, path.stem) for path in paths if path.stem != "__init__"}


def rooms_of_rules() -> list[str]:
    return sorted(path.parent.name for path in (ENGINE / "lower/rules").glob("*/__init__.py"))


def snake(op_type: str) -> str:
    """``ReduceLogSumExp``: reduce_log_sum_exp; ``RMSNormalization``: rms_normalization; ``LRN``: lrn."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", op_type).lower()


def modules_of_rules() -> Iterator[tuple[str, str, ast.Module]]:
    for room, stem in sorted(files("lower/rules", *rooms_of_rules())):
        path = ENGINE / "lower/rules" / room / f"{stem}.py"
        yield room, stem, ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_a_home_of_its_name(name: str) -> None:
    room, stem = home(KINDS[name])
    assert stem == name and room in ROOMS


def test_homes_hold_one_kind_each() -> None:
    assert files("steps", *ROOMS) == {home(kind) for kind in KINDS.values()}
    assert len({home(kind) for kind in KINDS.values()}) == len(KINDS)


def test_native_code_has_every_native_kind() -> None:
    assert set(native_kinds()) == {name for name, kind in KINDS.items() if kind.native}


@pytest.mark.parametrize("folder", FILES_BY_KIND)
def test_a_folder_names_files_by_kinds(folder: str) -> None:
    """Wherever else kinds have files, but for those that need none there."""
    stems = {path.stem for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".h", ".cc")}
    assert KINDS.keys() - stems == FILES_BY_KIND[folder]


def test_files_of_rules_are_named_by_a_kind_or_an_operator() -> None:
    """Beside a room's `step_chains`: operators without a kind, each of which becomes a few steps."""
    operators, wrong = {snake(op_type) for op_type in RULES}, []
    for room, stem in sorted(files("lower/rules", *rooms_of_rules())):
        if stem in KINDS:
            wrong += [f"{room}/{stem}: not the room of the kind"] if room != home(KINDS[stem])[0] else []
        elif stem not in operators and stem != "step_chains":
            wrong.append(f"{room}/{stem}: neither a kind nor an operator")
    assert wrong == []


def test_what_rules_write_has_a_file_of_rules_of_its_name() -> None:
    """A kind that any rule writes is written by the file of its name, too."""
    names = {kind.__name__: kind.kind for kind in KINDS.values()}
    written: dict[str, set[str]] = {}
    for _, stem, tree in modules_of_rules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                written.setdefault(names[node.func.id], set()).add(stem)
    assert {kind: sorted(stems) for kind, stems in written.items() if kind not in stems} == {}
    assert len(written) > 30


@pytest.mark.parametrize("op_type", RULES)
def test_the_rules_of_an_operator_stand_in_one_file(op_type: str) -> None:
    """Beside those of kinds that serve many operators."""
    rules = LAYERS[op_type] if op_type in LAYERS else RULES[op_type]
    stems = {rule.__module__.split(".")[-1] for rule in rules}
    assert rules and len(stems - OF_MANY_OPERATORS) <= 1


def test_the_table_is_the_only_one() -> None:
    """No file of rules has another table from operators to rules, whose order nobody would see."""
    steps = [
        f"{stem}.{name}"
        for room, stem, _ in modules_of_rules()
        for name, value in vars(importlib.import_module(f"intact.engine.lower.rules.{room}.{stem}")).items()
        if isinstance(value, dict) and value and ("", next(iter(value))) in ops.BOOK
        and all(map(callable, value.values()))
    ]  # fmt: skip
    assert steps == []


def test_every_operator_of_the_table_has_a_record() -> None:
    assert sorted(op_type for op_type in RULES if ("", op_type) not in ops.BOOK) == []


def test_lowering_reads_attributes_through_records_alone() -> None:
    steps = [
        path.relative_to(ENGINE).as_posix()
        for path in sorted(ENGINE.rglob("*.py"))
        if "graph.ops.attributes" in path.read_text(encoding="utf-8")
    ]
    assert steps == []

"""Names say one thing each, and are those of the field: no class name twice, no word that was ours."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TWICE = {"Clip"}
"""Class names that two rooms still share; it only ever gets shorter."""

OURS = {"cannot", "crew", "ending", "extent", "judge", "motion", "sheet", "stretch", "team"}
"""Words that engineers of other engines would look up: epilogue, plan builder, no match, range, ... now."""

FILES = {"planes", "reals", "sums"}
"""The same, as names of files: what these hold, nobody guesses."""

WORDS_LEFT: set[tuple[str, str]] = set()
FILES_LEFT: set[str] = set()
"""Where they still stand; both only ever get shorter."""

SUFFIXES = {".py", ".pyi", ".cc", ".h", ".inc"}
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def sources() -> Iterator[Path]:
    for room in ("src", "csrc"):
        yield from sorted(path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES)


def identifiers(path: Path) -> set[str]:
    """The names that a file of code uses: no comments, no text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix not in {".py", ".pyi"}:
        return set(re.findall(r"[A-Za-z_]\w*", COMMENT_OR_TEXT.sub(" ", text)))
    result: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "name", "attr", "arg", "asname", "module"):
            value = getattr(node, field, None)
            result |= set(value.split(".")) if isinstance(value, str) else set()
    return result


def words(identifier: str) -> set[str]:
    """``kTeamSize`` and ``team_size``: {"team", "size"}; the plural counts as the word."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    return {part.lower() for part in parts} | {part.lower().removesuffix("s") for part in parts}


def test_no_public_class_name_occurs_twice() -> None:
    """But for the book's records, which are called as ONNX's operators and read as ``ops.Conv``."""
    places = defaultdict(list)
    for path in sources():
        if path.suffix == ".py" and path.parent.name != "ops":
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in TWICE} == {}
    assert TWICE - twice.keys() == set(), "these occur once: take them off the list"


def test_no_identifier_is_a_word_that_was_ours() -> None:
    result = {
        (word, str(path.parent.relative_to(ROOT))): f"{identifier} in {path.relative_to(ROOT)}"
        for path in sources()
        for identifier in {*identifiers(path), path.stem}
        for word in words(identifier) & OURS
    }
    assert {key: where for key, where in result.items() if key not in WORDS_LEFT} == {}
    assert WORDS_LEFT - result.keys() == set(), "these are gone: take them off the list"


def test_no_file_is_named_by_a_word_that_was_ours() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in sources()
        if set(re.split(r"[_./]", path.stem)) & OURS or path.stem in FILES
    }
    assert named - FILES_LEFT == set()
    assert FILES_LEFT - named == set(), "these are gone: take them off the list"


def test_words_are_found_wherever_they_stand() -> None:
    assert words("kTeamSize") & OURS == words("crew_teams") & OURS - {"crew"} == {"team"}
    assert words("CANNOT") & OURS == {"cannot"}
    assert words("steam") & OURS == words("extend") & OURS == set()

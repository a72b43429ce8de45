"""Names say one thing each and are those of the field.

No class name occurs twice, no word is one that only this project used, no function is named by a participle,
and no variable by a filler word.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.source_trees import text_of, tree_of

ROOT = Path(__file__).parents[1]
TWICE = {"Clip"}
"""Class names that two rooms still share; it only ever gets shorter."""

OURS = {"cannot", "crew", "ending", "extent", "judge", "motion", "sheet", "stretch", "team"}
"""Words that engineers of other engines would look up: epilogue, plan builder, no match, range, ... now."""

FILES = {"planes", "reals", "sums"}
"""The same, as names of files: what these hold, nobody guesses."""

FILLERS = {
    "asked", "between", "found", "given", "has", "held", "kept", "known", "laid", "made", "one",
    "others", "said", "taken", "told", "who",
}  # fmt: skip
"""Variables, arguments and fields that do not say what they hold."""

IRREGULAR = {
    "asked", "begun", "bound", "broken", "brought", "built", "chosen", "done", "drawn", "found",
    "given", "gone", "grown", "held", "hidden", "kept", "known", "laid", "left", "lost", "made",
    "meant", "met", "said", "seen", "sent", "shown", "spent", "split", "spoken", "stood", "taken",
    "thrown", "told", "worn", "written",
}  # fmt: skip
"""Participles that do not end in "ed"; "split" is a verb as well and needs a noun behind it."""

ENDS_IN_ED = {"embed", "feed", "need", "seed", "speed"}
"""Words that end so and are no participles."""

ADJECTIVES = {
    "aliased", "allowed", "asserted", "cached", "calibrated", "compiled", "computed", "corrected",
    "decoded", "enabled", "exported", "fixed", "fused", "grouped", "hidden", "installed", "inverted",
    "learned", "masked", "mixed", "nested", "packed", "padded", "permuted", "promoted", "quantized",
    "recorded", "rectified", "required", "reversed", "saved", "shared", "split", "squared", "stored",
    "supported", "traced", "unsigned", "untraced", "untrusted", "weighted",
}  # fmt: skip
"""Participles that the field uses as adjectives: fine in front of a noun, as in ``quantized_weights``."""

LINKS = {
    "as", "at", "away", "back", "behind", "by", "down", "for", "from", "in", "into", "like", "of",
    "off", "on", "or", "out", "over", "to", "up", "with",
}  # fmt: skip
"""Words that are no nouns: ``quantized_by_peer`` is a participle all the same."""

OTHERS_NAMES = {
    "added", "aliased", "cudaMallocManaged", "described", "elapsed_time", "expected_error",
    "expected_sqnr", "met",
    "pagelocked_empty", "pagelocked_zeros", "ranked", "scaled_e4m3", "streamed",
    "unfused_tensors_debug_state", "unsigned",
}  # fmt: skip
"""Names that are not ours to choose: of packages that INTact stands in for, and of our published API."""

SUFFIXES = {".py", ".pyi", ".cc", ".h", ".inc"}
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def sources() -> Iterator[Path]:
    for room in ("src", "csrc"):
        yield from sorted(path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES)


def identifiers(path: Path) -> set[str]:
    """The names that a file of code uses: no comments, no text."""
    text = text_of(path)
    if path.suffix not in {".py", ".pyi"}:
        return set(re.findall(r"[A-Za-z_]\w*", COMMENT_OR_TEXT.sub(" ", text)))
    result: set[str] = set()
    for node in ast.walk(tree_of(path)):
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
            for node in tree_of(path).body:
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
    assert result == {}


def test_no_file_is_named_by_a_word_that_was_ours() -> None:
    named = {
        str(path.relative_to(ROOT))
        for path in sources()
        if set(re.split(r"[_./]", path.stem)) & OURS or path.stem in FILES
    }
    assert named == set()


def test_words_are_found_wherever_they_stand() -> None:
    assert words("kTeamSize") & OURS == words("crew_teams") & OURS - {"crew"} == {"team"}
    assert words("CANNOT") & OURS == {"cannot"}
    assert words("steam") & OURS == words("extend") & OURS == set()


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Path and syntax tree of each Python file."""
    for folder in ("src", "tests", "benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), tree_of(path)


def is_participle(function: str) -> bool:
    """Return whether a function's name begins with a past participle that is no adjective of the noun
    behind it."""
    first, *rest = function.strip("_").split("_")
    ends = first.endswith("ed") and len(first) > 4 and first not in ENDS_IN_ED
    if not ends and first not in IRREGULAR:
        return False
    return (bool(rest) or first != "split") and not (first in ADJECTIVES and rest and rest[0] not in LINKS)


def filler_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Variables, fields and arguments of a module that are in `FILLERS`, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in FILLERS:
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in FILLERS:
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg) and node.arg in FILLERS:
            yield node.arg, node.lineno


def test_no_function_is_named_by_a_past_participle() -> None:
    assert [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_participle(node.name) and node.name not in OTHERS_NAMES
    ] == []


def test_no_variable_is_a_filler_word() -> None:
    assert [f"{path}:{line} {name}" for path, tree in modules() for name, line in filler_names(tree)] == []


def test_participles_are_told_from_verbs_and_noun_phrases() -> None:
    wrong = {"_told", "quantized", "laid_out_like", "quantized_by_peer", "known_of", "resized_image"}
    right = {
        "quantized_weights",
        "embed",
        "seed_all",
        "split",
        "split_axis",
        "quantize",
        "test_sizes",
        "is_fixed",
    }
    assert {name for name in wrong | right if is_participle(name)} == wrong


def test_filler_names_are_found_in_every_kind_of_assignment() -> None:
    code = """
def f(found, *, one=1, **others):
    made = [known for known in found]
    for kept, (told, x) in made:
        with x as held:
            x.made = (said := held)
class C:
    given: int
"""
    assert {name for name, _ in filler_names(ast.parse(code))} == {
        "found", "given", "held", "kept", "known", "made", "one", "others", "said", "told"
    }  # fmt: skip

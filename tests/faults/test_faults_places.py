"""There is one way to write a file: what the other tests of this folder let fail is all that can."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "intact"
WRITING = {"write_text", "write_bytes", "savez", "savez_compressed", "tofile", "save_file", "symlink_to",
           "hardlink_to", "NamedTemporaryFile", "mkstemp"}  # fmt: skip
ALLOWED = {
    # In a TemporaryDirectory of its own, from bytes that are in memory: nothing of the user's is at stake.
    "processes/untrusted.py": {"write_bytes"},
    "trt/building/calibrators.py": {"write_bytes"},
    "trt/migration/record_run.py": {"savez", "write_bytes"},
    "cli/trtexec_run.py": {"write_bytes"},  # in place, into a file that another program holds open
    "trt/running/runtime.py": {"write_bytes"},
}


def direct_writes(tree: ast.AST) -> set[str]:
    """Find code that writes files past `intact.atomic`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {node.func.attr for node in calls if isinstance(node.func, ast.Attribute)}
    names |= {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    writing = names & WRITING
    for call in calls:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        texts = [a.value for a in (*call.args, *(k.value for k in call.keywords))
                 if isinstance(a, ast.Constant) and isinstance(a.value, str)]  # fmt: skip
        # A member of an archive is opened for writing as well: `packed.open("y.npy", "w")`, of two texts.
        if name == "open" and any(set(t) <= set("rwaxbt+") and set(t) & set("wax+") for t in texts):
            of_an_archive = ast.unparse(call.func) == "packed.open"
            writing |= set() if of_an_archive else {"open"}
    return writing


@pytest.mark.parametrize("text", ["open(p, 'w')", "p.open('xb')", "p.open(mode='r+')", "p.write_text(t)"])
def test_what_writes_is_found(text: str) -> None:
    assert direct_writes(ast.parse(text))


def test_everything_that_is_written_goes_through_atomic() -> None:
    past = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        text = path.read_text(encoding="utf-8")
        if name != "atomic.py" and any(word in text for word in ("open(", *WRITING)):
            past[name] = direct_writes(ast.parse(text))
    assert {name: names for name, names in past.items() if names} == ALLOWED

"""Commands in documents do not rot: verbs and options are those of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from intact.cli import app

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
COMMANDS = sorted({
    line
    for path in DOCUMENTS
    for language, block in BLOCK.findall(path.read_text(encoding="utf-8"))
    for line in block.splitlines()
    if not language and line.startswith("intact ")
})  # fmt: skip


def test_the_documents_show_every_verb_for_files() -> None:
    shown = {shlex.split(command, comments=True)[1] for command in COMMANDS}
    verbs = {"quantize", "calibrate", "explain", "check", "strip", "cache", "build", "run", "bench", "verify"}
    assert verbs <= shown


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documents_exists(run, command: str) -> None:
    _, verb, *words = shlex.split(command, comments=True)
    path = [verb, words.pop(0)] if verb in app.GROUPS else [verb]
    status, shown, _ = run(*path, "--help")
    assert status == 0
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert options <= set(re.findall(r"(?<![\w-])--?[a-z][a-zA-Z0-9-]*", shown))

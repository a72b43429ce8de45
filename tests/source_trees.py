"""The syntax trees of the sources, read once for all tests on how they are written."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def text_of(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which nobody may change."""
    return ast.parse(text_of(path))

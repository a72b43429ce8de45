"""The text of a script, with replacements by place, and the patch that they make."""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from intact.errors import FileFormatError

_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class Replacement:
    """Holds one change of a script.

    Attributes:
        start, end: Bytes of the old text, from and up to.
        text: The new text; "" takes the old one out.
        line: Where it stands, from 1.
        reason: In words, for the page.
    """

    start: int
    end: int
    text: str
    line: int
    reason: str


@dataclass(frozen=True)
class SourceText:
    """Holds the bytes of a Python file and its syntax tree.

    Attributes:
        data: The file as it is.
        tree: Its syntax tree; places count bytes of UTF-8.
        encoding: Of the file.
        starts: Where each line begins.
    """

    data: bytes
    tree: ast.Module
    encoding: str
    starts: Sequence[int]

    @classmethod
    def parse(cls, data: bytes, name: str) -> SourceText:
        """Parse a file.

        Raises:
            FileFormatError: It is no Python 3; names the line.
        """
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
            text = data.decode(encoding)
            utf8 = text.encode()
            tree = ast.parse(text.removeprefix("\ufeff").replace("\x0c", " "))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise FileFormatError(
                f"file '{name}'{line}", f"'{error!s:.120}'", "a script of Python 3",
                "convert it first: Python itself does not run it",
            ) from error  # fmt: skip
        bom = 3 if utf8.startswith(b"\xef\xbb\xbf") else 0
        starts = [bom, *(match.end() for match in _LINE_END.finditer(utf8))]
        return cls(utf8, tree, encoding, starts)

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line and a column of the syntax tree."""
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node of the syntax tree begins and ends."""
        places: tuple[int, int, int, int] = (
            node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        )  # fmt: skip
        return self.offset(*places[:2]), self.offset(*places[2:])

    def text_of(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def lines_of(self, node: ast.AST) -> tuple[int, int]:
        """Return from where to where the whole lines of a statement reach, its decorators included.

        A statement that shares its line with others reaches only as far as itself.
        """
        start, end = self.span(node)
        decorators = getattr(node, "decorator_list", [])
        if decorators:
            start = min(start, *(self.span(d)[0] for d in decorators))
            start = self.data.rfind(b"@", 0, start)
        first = self.data.rfind(b"\n", 0, start) + 1
        last = self.data.find(b"\n", end)
        last = len(self.data) if last < 0 else last + 1
        before, behind = self.data[first:start], self.data[end:last].strip()
        if before.strip() or (behind and not behind.startswith(b"#")):
            return start, end
        return first, last

    def apply(self, replacements: Iterable[Replacement]) -> bytes:
        """Return the file with `replacements`; those inside of another one are left out."""
        parts, place = list[bytes](), 0
        for item in outermost(replacements):
            parts += [self.data[place : item.start], item.text.encode()]
            place = item.end
        text = b"".join((*parts, self.data[place:])).decode()
        return text.encode(self.encoding)


def outermost(replacements: Iterable[Replacement]) -> list[Replacement]:
    """Return those that lie in no other one, in order."""
    ordered = sorted(replacements, key=lambda item: (item.start, -item.end))
    chosen = list[Replacement]()
    for item in ordered:
        if not chosen or item.start >= chosen[-1].end:
            chosen.append(item)
    return chosen


def write_patch(old: bytes, new: bytes, name: str) -> str:
    """Return the patch from `old` to `new` as ``patch -p1`` and ``git apply`` take it; "" where equal."""
    if old == new:
        return ""
    sides = [io.BytesIO(data).readlines() for data in (old, new)]
    before, after = ([line.decode("utf-8", "surrogateescape") for line in side] for side in sides)
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )

r"""Regular expressions of JSON schemas, for a grammar.

ECMA 262, Python's `re` and Rust's regex read ``\w``, ``\s``, ``.`` and others differently. A translated
expression matches only what all of them do, so that whoever checks the text agrees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NARROW = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\n\r\x0B\x0C"}
"""Characters that a class has in every dialect."""

_WIDE = {
    "d": r"\p{Nd}", "w": r"\p{L}\p{M}\p{N}\p{Pc}\x{200C}\x{200D}",
    "s": r"\p{Z}\t\n\r\x0B\x0C\x1C-\x1F\x{85}\x{FEFF}",
}  # fmt: skip
"""Characters that a class has in any dialect."""

_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]{1,5}(?:,(?:[0-9]{1,5})?)?\}")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_][A-Za-z0-9_]*>)?(?!\?)")
_UNICODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|c([A-Za-z]))")
_PROPERTY = re.compile(r"\\[pP]\{[A-Za-z_=]{1,60}\}")
_META = frozenset(r"\.+*?()|[]{}^$#&-~")
_MOST = 4096  # characters


@dataclass(frozen=True)
class Pattern:
    """A translated expression.

    Attributes:
        text: In Rust's dialect; it is sought anywhere in a string, as the original is.
        has_one_meaning: All dialects match the same strings.
    """

    text: str
    has_one_meaning: bool


def translate_pattern(pattern: str) -> Pattern:
    """Return an expression that matches what every dialect does.

    Raises:
        ValueError: Dialects disagree about what it is, or no grammar can follow it: lookarounds, references
            to groups, boundaries of words.
    """
    if len(pattern) > _MOST:
        raise ValueError(f"has more than {_MOST} characters")
    reader = _Reader(pattern)
    return Pattern(reader.read(), reader.has_one_meaning)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern, self._at = pattern, 0
        self.has_one_meaning = True

    def read(self) -> str:
        """Translate all of it."""
        pieces, depth, can_repeat = list[str](), 0, False
        while self._at < len(self._pattern):
            letter = self._pattern[self._at]
            if quantifier := _QUANTIFIER.match(self._pattern, self._at):
                if not can_repeat:
                    raise ValueError(f"repeats nothing at {self._at}")
                pieces.append(self._quantifier(quantifier.group()))
                can_repeat = False
                continue
            can_repeat = letter not in "^$|("
            if letter == "(":
                pieces.append(self._group())
                depth += 1
            elif letter == "[":
                pieces.append(self._class())
            elif letter == "\\":
                pieces.append(self._escape())
            else:
                self._at += 1
                depth -= letter == ")"
                self.has_one_meaning &= letter != "."
                pieces.append(_DOT if letter == "." else letter if letter in "^$|)" else _literal(letter))
            if depth < 0:
                raise ValueError("closes a group that is not open")
        if depth:
            raise ValueError("leaves a group open")
        return "".join(pieces)

    def _quantifier(self, text: str) -> str:
        """Read a count; a lazy one matches the same strings."""
        self._at += len(text)
        follows = self._pattern[self._at : self._at + 1]
        if follows == "?":
            self._at += 1
        elif follows == "+" or _QUANTIFIER.match(self._pattern, self._at):
            raise ValueError("has a count behind a count")
        numbers = [int(number) for number in re.findall("[0-9]+", text)]
        if len(numbers) == 2 and numbers[0] > numbers[1]:
            raise ValueError(f"has the count {text}")
        return text

    def _group(self) -> str:
        match = _GROUP.match(self._pattern, self._at)
        if match is None:
            raise ValueError("has a lookaround or flags")
        self._at = match.end()
        return "(?:"

    def _escape(self) -> str:
        """Read an escape outside of classes."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter and letter in "dwsDWS":
            self._at += 2
            self.has_one_meaning = False
            return f"[{_NARROW[letter]}]" if letter.islower() else f"[^{_WIDE[letter.lower()]}]"
        if match := _PROPERTY.match(self._pattern, self._at):
            self._at = match.end()
            self.has_one_meaning = False
            return match.group()
        return _literal(self._character())

    def _character(self) -> str:
        """Read an escape that is one character."""
        if match := _UNICODE.match(self._pattern, self._at):
            self._at = match.end()
            if control := match.group(3):
                return chr(ord(control.upper()) - 64)
            return self._pair(int(match.group(1) or match.group(2), 16))
        letter = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter == "0" and not self._pattern[self._at : self._at + 1].isdigit():
            return "\0"
        if not letter or not letter.isascii() or letter.isalnum():
            raise ValueError(f"has \\{letter}, which no grammar follows or dialects read differently")
        return letter

    def _pair(self, code: int) -> str:
        """Return a character, of two halves where the first one is half of a surrogate pair."""
        if 0xD800 <= code < 0xDC00 and (match := _UNICODE.match(self._pattern, self._at)) and match.group(2):
            low = int(match.group(2), 16)
            if 0xDC00 <= low < 0xE000:
                self._at = match.end()
                return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)
        if 0xD800 <= code < 0xE000:
            raise ValueError("has half of a surrogate pair")
        return chr(code)

    def _class(self) -> str:
        """Read a class; those of escapes are narrow in it, and wide where it is negated."""
        self._at += 1
        is_negated = self._pattern.startswith("^", self._at)
        self._at += is_negated
        if self._pattern.startswith("]", self._at):
            raise ValueError("has an empty class, which dialects read differently")
        pieces = list[str]()
        while not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise ValueError("leaves a class open")
            pieces.append(self._class_item(is_negated))
        self._at += 1
        return f"[{'^' * is_negated}{''.join(pieces)}]"

    def _class_item(self, is_negated: bool) -> str:
        escape = self._pattern[self._at : self._at + 2]
        if len(escape) == 2 and escape[0] == "\\" and escape[1] in "dwsDWS":
            self._at += 2
            self.has_one_meaning = False
            letters = (_NARROW if is_negated != escape[1].islower() else _WIDE)[escape[1].lower()]
            return letters if escape[1].islower() else f"[^{letters}]"
        if match := _PROPERTY.match(self._pattern, self._at):
            self._at = match.end()
            self.has_one_meaning = False
            return match.group()
        first = self._class_character()
        if not re.match(r"-[^\]]", self._pattern[self._at :]):
            return _literal(first)
        if re.match(r"-\\[dwsDWSpP]", self._pattern[self._at :]):
            raise ValueError("has a range that ends in a class")
        self._at += 1
        last = self._class_character()
        if last < first:
            raise ValueError(f"has the range {first}-{last}")
        return f"{_literal(first)}-{_literal(last)}"

    def _class_character(self) -> str:
        letter = self._pattern[self._at]
        if letter != "\\":
            self._at += 1
            return letter
        if self._pattern.startswith("\\b", self._at):
            self._at += 2
            return "\b"
        return self._character()


def _literal(letter: str) -> str:
    if letter in _META:
        return f"\\{letter}"
    return letter if letter.isprintable() and letter != "/" else f"\\x{{{ord(letter):X}}}"

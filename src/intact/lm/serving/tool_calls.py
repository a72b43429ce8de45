"""Calls of tools in the text that a model answers: in well-known forms, or forced by a JSON schema.

What a model says is hostile input. Whatever it is, it is text or a call that every client can read, and never
an error: a call has the name of a tool, and arguments that are one object of strict JSON.

Forms: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` of Hermes, Qwen and SmolLM3, also several;
and an answer that is nothing but such an object or a list of them, as of Llama 3 (``parameters``) and
Mistral.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from intact.lm.serving.strict_json import parse_strict

_BEGIN, _END = "<tool_call>", "</tool_call>"
_PREFIXES = ("<|python_tag|>", "[TOOL_CALLS]")
_STRING_OR_END = re.compile(rf'"(?:[^"\\]|\\.)*+"|"|{_END}', re.DOTALL)
"""A JSON string, one that is still open, or the mark behind a call."""
_WHOLE = ("{", "[", *_PREFIXES)
"""Beginnings of answers that may be nothing but calls."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        index: Its number in the answer.
        name: Of the function.
        arguments: JSON of an object.
        id: By which its result is sent back.
    """

    index: int
    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex}")


class ToolCallStream:
    """Splits an answer that comes in pieces into text and calls. What may become a call waits.

    Args:
        names: Functions that may be called; anything else is text.
        most: Calls of an answer; behind the last one it is full, and further text is dropped.

    Attributes:
        count: Calls so far.
    """

    def __init__(self, names: Collection[str], most: int | None = None) -> None:
        self._names, self._most, self.count = frozenset(names), most, 0
        self._pending, self._is_begin = "", True
        self._is_behind_call = False  # then what parts calls is no text

    @property
    def is_full(self) -> bool:
        """Return whether no further call may come."""
        return self._most is not None and self.count >= self._most

    def push(self, piece: str) -> tuple[str, tuple[ToolCall, ...]]:
        """Add a piece; return text and calls that are certain by now."""
        self._pending += piece
        self._drop_blanks()
        if self._is_begin and self._may_be_whole():
            return "", ()
        self._is_begin = self._is_begin and not self._pending.strip()
        return self._split(is_last=False)

    def finish(self) -> tuple[str, tuple[ToolCall, ...]]:
        """Return what waited."""
        if self.is_full:
            return "", ()
        stripped = self._pending.strip()
        for prefix in (*_PREFIXES, _BEGIN):  # the end of the last one may be missing
            stripped = stripped.removeprefix(prefix).strip()
        if calls := self._parse(stripped.removesuffix(_END)):
            self._pending = ""
            return "", calls
        return self._split(is_last=True)

    def _split(self, is_last: bool) -> tuple[str, tuple[ToolCall, ...]]:
        """Take text and marked calls from what waits: all of it where nothing follows."""
        text, calls = "", tuple[ToolCall, ...]()
        while not self.is_full and (begin := self._pending.find(_BEGIN)) >= 0:
            end = _find_end(self._pending, begin + len(_BEGIN), is_last)
            text += self._pending[:begin]
            self._pending = self._pending[begin:]
            if end is None:
                if not is_last:
                    return text, calls
                break
            inner, behind = self._pending[len(_BEGIN) : end - begin], self._pending[end - begin + len(_END) :]
            parsed = self._parse(inner)
            text += "" if parsed else self._pending[: end - begin + len(_END)]
            calls += parsed
            self._pending, self._is_behind_call = behind, bool(parsed)
            self._drop_blanks()
        if self.is_full:
            self._pending = ""
        certain = len(self._pending) - (0 if is_last else _overlap(self._pending, _BEGIN))
        text, self._pending = text + self._pending[:certain], self._pending[certain:]
        return text, calls

    def _drop_blanks(self) -> None:
        if self._is_behind_call:
            self._pending = self._pending.lstrip()
            self._is_behind_call = not self._pending

    def _may_be_whole(self) -> bool:
        """Return whether all of the text so far may be nothing but calls."""
        text = self._pending.lstrip()
        return not text or any(text.startswith(part) or part.startswith(text) for part in _WHOLE)

    def _parse(self, text: str) -> tuple[ToolCall, ...]:
        """Return the calls that a text is, all or none; of too many the first ones."""
        try:
            value = parse_strict(text)
        except ValueError:
            return ()
        calls = list[ToolCall]()
        for record in value if isinstance(value, list) else [value]:
            call = self._call(record, self.count + len(calls))
            if call is None:
                return ()
            calls.append(call)
        if self._most is not None:
            calls = calls[: self._most - self.count]
        self.count += len(calls)
        return tuple(calls)

    def _call(self, record: Any, number: int) -> ToolCall | None:
        """Return the call that a JSON value is; None: it is none of a tool that the request has."""
        name = record.get("name") if isinstance(record, dict) else None
        if not isinstance(name, str) or name not in self._names or {"arguments", "parameters"} <= set(record):
            return None
        arguments = record.get("arguments", record.get("parameters"))
        if isinstance(arguments, str):
            try:
                arguments = parse_strict(arguments or "{}")
            except ValueError:
                return None
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return None
        return ToolCall(number, name, json.dumps(arguments, ensure_ascii=False, allow_nan=False))


def _find_end(text: str, begin: int, is_last: bool) -> int | None:
    """Return where the mark behind a call stands, one inside a JSON string is none.

    Behind a string that never closes (`is_last`: nothing follows) there is no JSON: then any mark is one.
    """
    first = text.find(_END, begin)
    if first < 0:
        return None
    for match in _STRING_OR_END.finditer(text, begin):
        if match.group() == _END:
            return match.start()
        if match.group() == '"':
            return first if is_last else None
    return first if is_last else None


def _overlap(text: str, word: str) -> int:
    """Return how many characters of the end of a text the word begins with."""
    most = min(len(text), len(word) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(word[:count])), 0)

"""Calls of tools in the text that a model answers: in well-known forms, or forced by a JSON schema.

Forms: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` of Hermes, Qwen and SmolLM3, also several;
and an answer that is nothing but such an object or a list of them, as of Llama 3 (``parameters``) and
Mistral.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

_BEGIN, _END = "<tool_call>", "</tool_call>"
_PREFIXES = ("<|python_tag|>", "[TOOL_CALLS]")
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Of calls that must come: where any blanks may stand, small models write nothing else."""

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

    Attributes:
        count: Calls so far.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names, self.count = frozenset(names), 0
        self._pending, self._is_begin = "", True
        self._is_behind_call = False  # then what parts calls is no text

    def push(self, piece: str) -> tuple[str, tuple[ToolCall, ...]]:
        """Add a piece; return text and calls that are certain by now."""
        self._pending += piece
        self._drop_blanks()
        if self._is_begin and self._may_be_whole():
            return "", ()
        self._is_begin = self._is_begin and not self._pending.strip()
        text, calls = "", tuple[ToolCall, ...]()
        while (begin := self._pending.find(_BEGIN)) >= 0:
            end = self._pending.find(_END, begin)
            text += self._pending[:begin]
            self._pending = self._pending[begin:]
            if end < 0:
                return text, calls
            inner, behind = self._pending[len(_BEGIN) : end - begin], self._pending[end - begin + len(_END) :]
            parsed = self._parse(inner)
            text += "" if parsed else self._pending[: end - begin + len(_END)]
            calls += parsed
            self._pending, self._is_behind_call = behind, bool(parsed)
            self._drop_blanks()
        certain = len(self._pending) - _overlap(self._pending, _BEGIN)
        text, self._pending = text + self._pending[:certain], self._pending[certain:]
        return text, calls

    def finish(self) -> tuple[str, tuple[ToolCall, ...]]:
        """Return what waited."""
        text, self._pending = self._pending, ""
        stripped = text.strip()
        for prefix in (*_PREFIXES, _BEGIN):  # the end of the last one may be missing
            stripped = stripped.removeprefix(prefix).strip()
        calls = self._parse(stripped.removesuffix(_END))
        return ("", calls) if calls else (text, ())

    def _drop_blanks(self) -> None:
        if self._is_behind_call:
            self._pending = self._pending.lstrip()
            self._is_behind_call = not self._pending

    def _may_be_whole(self) -> bool:
        """Return whether all of the text so far may be nothing but calls."""
        text = self._pending.lstrip()
        return not text or any(text.startswith(part) or part.startswith(text) for part in _WHOLE)

    def _parse(self, text: str) -> tuple[ToolCall, ...]:
        """Return the calls that a text is, all or none."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return ()
        calls = list[ToolCall]()
        for record in value if isinstance(value, list) else [value]:
            call = self._call(record, len(calls))
            if call is None:
                return ()
            calls.append(call)
        self.count += len(calls)
        return tuple(calls)

    def _call(self, record: Any, number: int) -> ToolCall | None:
        if not isinstance(record, dict) or record.get("name") not in self._names:
            return None
        arguments = record.get("arguments", record.get("parameters", {}))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return None
        if not isinstance(arguments, dict):
            return None
        return ToolCall(self.count + number, record["name"], json.dumps(arguments, ensure_ascii=False))


def call_schema(tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON schema of a call of any of these tools, as a request has them."""
    calls = []
    for tool in tools:
        function = tool["function"]
        properties = {"name": {"const": function["name"]}, "arguments": function["parameters"]}
        calls.append({
            "type": "object", "properties": properties, "required": ["name", "arguments"],
            "additionalProperties": False,
        })  # fmt: skip
    return (calls[0] if len(calls) == 1 else {"anyOf": calls}) | {"x-guidance": _SPACING}


def _overlap(text: str, word: str) -> int:
    """Return how many characters of the end of a text the word begins with."""
    most = min(len(text), len(word) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(word[:count])), 0)

"""The bytes of a token, which may be parts of a character."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
Reader = Callable[[str], bytes]


def byte_reader(decoder: Any) -> Reader | None:
    """Return what turns a token as the vocabulary writes it into its bytes behind other tokens.

    Args:
        decoder: Of a `tokenizers.Tokenizer`.
    Returns:
        None: the decoder puts tokens together in another way than one behind the other.
    """
    if decoder is None:
        return None
    record = json.loads(decoder.__getstate__())
    if record["type"] == "ByteLevel":
        letters = byte_letters()
        return lambda token: _from_letters(token, letters)
    steps = record["decoders"] if record["type"] == "Sequence" else [record]
    kinds = [step["type"] for step in steps]
    if "ByteFallback" not in kinds or not set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip"}:
        return None
    changes = [_replacement(step) for step in steps if step["type"] == "Replace"]
    if None in changes or any(step.get("stop") for step in steps):
        return None
    return lambda token: _with_fallback(token, [change for change in changes if change is not None])


def byte_letters() -> dict[str, int]:
    """Return the bytes that the letters of GPT-2 stand for: printable ones themselves, the rest U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + at): byte for at, byte in enumerate(unprintable)
    }


def _from_letters(token: str, letters: Mapping[str, int]) -> bytes:
    if not all(letter in letters for letter in token):
        return token.encode()
    return bytes(letters[letter] for letter in token)


def _replacement(step: Mapping[str, Any]) -> tuple[str, str] | None:
    pattern = step["pattern"].get("String")
    return None if pattern is None else (pattern, step["content"])


def _with_fallback(token: str, changes: list[tuple[str, str]]) -> bytes:
    if byte := _BYTE.fullmatch(token):
        return bytes([int(byte[1], 16)])
    for old, new in changes:
        token = token.replace(old, new)
    return token.encode()

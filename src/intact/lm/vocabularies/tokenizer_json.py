"""Checks that the package tokenizers uses each field of a tokenizer.json, or refuses it by name."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from intact.errors import FileFormatError, UnsupportedError

FILE = "tokenizer.json"
_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")
_PRECOMPILED = "Precompiled"
_NOT_COMPARED = ("version", "truncation", "padding")
"""`truncation` and `padding` are switched off: they would change prompts."""
_OLD_FIELDS = {"Metaspace": ("add_prefix_space", "str_rep")}
"""Fields of older files that other fields repeat."""


def check_contents(text: str, read: Callable[[str], str]) -> None:
    """Refuse fields that have no effect, and those that draw lots.

    What the package reads, it writes again: a field that does not come back was not read.

    Args:
        text: The contents.
        read: Returns the contents of a tokenizer that is built from some, and tries it.
    Raises:
        UnsupportedError: A field is not used; the error names it.
        FileFormatError: A part is not understood; the error names it.
    """
    contents = _parse(text)
    if not isinstance(contents, Mapping) or not isinstance(contents.get("model"), Mapping):
        raise FileFormatError(FILE, "no object with a model", "a tokenizer", "download it again")
    for key, value in contents.items():
        if key not in (*_NOT_COMPARED, *_PARTS, "model"):
            raise _refusal(key, value, "the parts of a tokenizer")
    if contents["model"].get("dropout"):
        raise _refusal("model.dropout", contents["model"]["dropout"], "null: tokens are not drawn by lot")
    try:
        back = json.loads(read(text))
    except FileFormatError as error:
        raise _blame(contents, read, error) from error
    for key, value in contents.items():
        if key not in _NOT_COMPARED:
            _compare(key, value, back.get(key))


def check_sizes(text: str) -> None:
    """Refuse tables of characters that claim to be longer than they are: the package reserves that memory.

    Raises:
        FileFormatError: There is one.
    """
    if _PRECOMPILED in text:
        for table in _charsmaps(_parse(text)):
            try:
                data = base64.b64decode(table, validate=True)
            except (TypeError, ValueError):
                continue  # the package says so
            if int.from_bytes(data[:4], "little") > len(data) - 4:
                raise FileFormatError(
                    FILE, f"normalizer.precompiled_charsmap of {len(data)} bytes", "as many as it says",
                    "download it again",
                )  # fmt: skip


def _charsmaps(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping) and value.get("type") == _PRECOMPILED:
        yield value.get("precompiled_charsmap")
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _charsmaps(inner)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(FILE, f"'{str(error)[:100]}'", "JSON", "download it again") from error


def _blame(
    contents: Mapping[str, Any], read: Callable[[str], str], error: FileFormatError
) -> FileFormatError:
    """Return the error for contents that are not read, with the name of the part that is at fault."""
    for part in _PARTS:
        without = {**contents, part: [] if part == "added_tokens" else None}
        if contents.get(part):
            try:
                read(json.dumps(without))
            except FileFormatError:
                continue
            return FileFormatError(
                f"{FILE}, {part}", error.got, "what the package tokenizers reads", error.fix
            )
    return FileFormatError(f"{FILE}, model", error.got, "what the package tokenizers reads", error.fix)


def _compare(name: str, value: Any, back: Any) -> None:
    """Refuse what did not come back."""
    if name == "added_tokens" and isinstance(value, list):
        value, back = _by_content(value), _by_content(back)
    if name == "model.merges" and isinstance(value, list):
        value = [_pair(merge) for merge in value]
    if value == back or value is None:
        return
    if isinstance(value, Mapping) and isinstance(back, Mapping):
        for key, inner in value.items():
            if key not in _OLD_FIELDS.get(back.get("type", ""), ()):
                _compare(f"{name}.{key}", inner, back.get(key))
        return
    if isinstance(value, list) and isinstance(back, list) and len(value) == len(back):
        for place, (inner, other) in enumerate(zip(value, back, strict=True)):
            _compare(f"{name}.{place}", inner, other)
        return
    if isinstance(value, float) and isinstance(back, float) and abs(value - back) <= 1e-12 * abs(back):
        return
    raise _refusal(name, value, f"{back!r:.60}, as the package tokenizers reads it")


def _by_content(tokens: list[Any]) -> dict[str, Any]:
    return {
        str(token["content"]): token for token in tokens if isinstance(token, Mapping) and "content" in token
    }


def _pair(merge: Any) -> Any:
    """Return a merge as a list, which older files write as a text with a blank."""
    return merge.split(" ", 1) if isinstance(merge, str) else merge


def _refusal(name: str, value: Any, want: str) -> UnsupportedError:
    return UnsupportedError(FILE, f"{name} = {value!r:.80}", want, "remove the field, or take another model")

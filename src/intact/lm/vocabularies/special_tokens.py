"""The tokens that begin a text, end an answer, and stand behind a text, as a model's files say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intact.formats.metadata_fields import MetadataFields

GENERATION, CONFIG, TOKENIZER = "generation_config.json", "config.json", "tokenizer_config.json"


@dataclass(frozen=True)
class SpecialTokens:
    """Holds the tokens that a tokenizer adds to a text, and those at which an answer ends.

    Attributes:
        begin: Stands in front of each text; None: nothing does.
        ends: End an answer, in ascending order.
        appended: Stand behind each text, as of embedding models.
    """

    begin: int | None = None
    ends: tuple[int, ...] = ()
    appended: tuple[int, ...] = ()


def folder_end_tokens(
    config: MetadataFields,
    generation: MetadataFields | None,
    tokenizer: MetadataFields | None,
    vocabulary: Mapping[str, int],
) -> tuple[int, ...]:
    """Return the tokens that end an answer of a model in a Hugging Face folder.

    Those of generation_config.json are what transformers ends at; without them it is those of config.json. The
    end token of the tokenizer counts beside them, because chats are written with it.

    Args:
        config, generation, tokenizer: Of config.json, generation_config.json and tokenizer_config.json, which
            have ``eos_token_id``, a number or a list, and ``eos_token``, a text or an object; None: no file.
        vocabulary: Numbers of tokens by text. Empty: it is not known, and numbers are not compared with it.
    Raises:
        FileFormatError: A number or a text is of another kind, or beyond the vocabulary.
    """
    most = max(vocabulary.values(), default=2**31 - 1)
    ends = set(_numbers(config, most))
    if generation is not None and "eos_token_id" in generation:
        ends = set(_numbers(generation, most))
    if tokenizer is not None and (text := _text(tokenizer, "eos_token")) is not None:
        ends |= {vocabulary[text]} & set(vocabulary.values()) if text in vocabulary else set()
    return tuple(sorted(ends))


def _numbers(fields: MetadataFields, most: int) -> list[int]:
    """Return the numbers of ``eos_token_id``."""
    key = "eos_token_id"
    if not isinstance(value := fields.take(key), list):
        return [] if value is None else [fields.integer(key, most=most)]
    if not all(type(number) is int and 0 <= number <= most for number in value):
        raise fields.error(key, f"numbers from 0 to {most}")
    return list(value)


def _text(fields: MetadataFields, key: str) -> str | None:
    """Return the text of a special token, which is one, or the content of an object."""
    value: Any = fields.take(key)
    if isinstance(value, Mapping):
        value = value.get("content")
    if value is not None and not isinstance(value, str):
        raise fields.error(key, "a text")
    return value


def template_processing(
    begin: Sequence[tuple[str, int]], appended: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """Return the post-processor of a tokenizer.json that puts tokens around each text.

    Args:
        begin, appended: Texts and numbers of the tokens in front and behind.
    """

    def around(name: str, kind: int) -> list[dict[str, Any]]:
        sequence = {"Sequence": {"id": name, "type_id": kind}}
        front, back = (
            [{"SpecialToken": {"id": text, "type_id": kind}} for text, _ in tokens]
            for tokens in (begin, appended)
        )
        return [*front, sequence, *back]

    return {
        "type": "TemplateProcessing", "single": around("A", 0), "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            text: {"id": text, "ids": [number], "tokens": [text]} for text, number in [*begin, *appended]
        },
    }  # fmt: skip

"""The post-processor of a tokenizer.json that puts tokens around each text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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

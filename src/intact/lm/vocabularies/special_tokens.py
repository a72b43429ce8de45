"""Tokens around a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens around a text.

    Attributes:
        begin: In front of each text; None: none is.
        ends: Each of them ends an answer.
        appended: Behind each text, as the tokenizer's own post-processing puts them.
        end_texts: Texts of tokens that end an answer as well; the tokenizer knows their numbers.
    """

    begin: int | None = None
    ends: tuple[int, ...] = ()
    appended: tuple[int, ...] = ()
    end_texts: tuple[str, ...] = ()

"""Joins characters to pieces by score where no list of merges says the order.

The package tokenizers joins pairs in the order of a list. That is the order of scores where all scores differ
and each character of a piece is a token. Other vocabularies are encoded here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

SCORES = "piece_scores"
"""Field of a tokenizer.json that only INTact reads: the score of each token, by number."""
_BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
_HEAD = f'{{"{SCORES}":'


def split_scores(text: str) -> tuple[str, list[float] | None]:
    """Return a tokenizer.json without its scores, and these; None where it has none."""
    if not text.startswith(_HEAD):
        return text, None
    contents = json.loads(text)
    return json.dumps({key: value for key, value in contents.items() if key != SCORES}), contents[SCORES]


def with_scores(text: str, scores: Sequence[float]) -> str:
    """Return a tokenizer.json with scores, which `split_scores` takes out again."""
    return f"{_HEAD} {json.dumps(list(scores))}, {text.lstrip()[1:]}"


def has_order_of_merges(tokens: Sequence[str], scores: Sequence[float], numbers: Mapping[str, int]) -> bool:
    """Return whether a list of merges joins as the scores do.

    Args:
        tokens, scores: Of the vocabulary, by number.
        numbers: Number of each token.
    """
    joined = []
    for token, score in zip(tokens, scores, strict=True):
        if len(token) > 1:
            for head, tail in ((token[:1], token[1:]), (token[:-1], token[-1:])):
                can_join = all(part in numbers or len(part) == 1 for part in (head, tail))
                if can_join and not {head, tail} <= numbers.keys():
                    return False
            if any(token[:cut] in numbers and token[cut:] in numbers for cut in range(1, len(token))):
                joined.append(score)
    return len(set(joined)) == len(joined)


class PieceEncoder:
    """Encodes text as llama.cpp does with pieces that have scores.

    Args:
        contents: Of a tokenizer.json without scores (`sentencepiece_tokenizer`).
        scores: Of each token, by number.
    """

    def __init__(self, contents: Mapping[str, Any], scores: Sequence[float]) -> None:
        self._numbers: Mapping[str, int] = contents["model"]["vocab"]
        self._scores = scores
        whole = sorted(contents["added_tokens"], key=lambda token: -len(token["content"].encode()))
        self._whole = [(token["content"], token["id"], token["rstrip"]) for token in whole]
        has_prefix = any(step["type"] == "Prepend" for step in contents["normalizer"]["normalizers"])
        self._prefix = _BLANK if has_prefix else ""
        self._unknown = self._numbers.get(contents["model"]["unk_token"])

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without any around it."""
        fragments: list[str | int] = [text] if text else []
        for content, number, strips in self._whole:
            if content in text:
                fragments = [
                    part for fragment in fragments for part in _cut(fragment, content, number, strips)
                ]
        tokens: list[int] = []
        for fragment in fragments:
            if isinstance(fragment, int):
                tokens.append(fragment)
            else:
                tokens += self._join(self._prefix + fragment.replace(" ", _BLANK))
        return tokens

    def _join(self, text: str) -> list[int]:
        """Join the neighbours whose piece has the highest score, of equal ones the leftmost."""
        parts, count = list(text), len(text)
        following, before = list(range(1, count + 1)), list(range(-1, count - 1))
        pairs = [pair for left in range(count - 1) if (pair := self._pair(parts, left, left + 1))]
        heapify(pairs)
        while pairs:
            _, left, right, length = heappop(pairs)
            if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != length:
                continue
            parts[left], parts[right] = parts[left] + parts[right], ""
            behind = following[left] = following[right]
            if behind < count:
                before[behind] = left
                if pair := self._pair(parts, left, behind):
                    heappush(pairs, pair)
            if before[left] >= 0 and (pair := self._pair(parts, before[left], left)):
                heappush(pairs, pair)
        return [token for part in parts if part for token in self._tokens_of(part)]

    def _pair(self, parts: Sequence[str], left: int, right: int) -> tuple[float, int, int, int] | None:
        """Return an entry of the queue for two neighbours; None: they make no piece."""
        joined = parts[left] + parts[right]
        number = self._numbers.get(joined)
        return None if number is None else (-self._scores[number], left, right, len(joined))

    def _tokens_of(self, part: str) -> list[int]:
        """Return the token of a part, or those of its bytes."""
        if part in self._numbers:
            return [self._numbers[part]]
        names = [(f"<0x{byte:02X}>", chr(byte)) for byte in part.encode()]
        bytes_or_none = [
            next((self._numbers[name] for name in pair if name in self._numbers), None) for pair in names
        ]
        byte_tokens = [number for number in bytes_or_none if number is not None]
        is_whole = len(byte_tokens) == len(bytes_or_none)
        return byte_tokens if is_whole or self._unknown is None else [self._unknown]


def _cut(fragment: str | int, content: str, number: int, strips: bool) -> list[str | int]:
    """Cut a token out of a fragment, as often as it stands there."""
    if isinstance(fragment, int):
        return [fragment]
    first, *rest = fragment.split(content)
    parts: list[str | int] = [first]
    for text in rest:
        parts += [number, text.lstrip() if strips else text]
    return [part for part in parts if part != ""]

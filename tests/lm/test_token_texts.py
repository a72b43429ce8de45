"""Texts and bytes of tokens beside their probabilities join to the text of the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.lm.hard_strings import HARD_STRINGS, byte_level_metadata, piece_metadata

from intact.lm.serving.answer_bodies import AnswerFormat
from intact.lm.serving.answer_jobs import AnswerJob, AnswerPart
from intact.lm.text_stream import token_texts
from intact.lm.tokenizer import Tokenizer, tokenizer_of_gguf

pytest.importorskip("tokenizers")
pytest.importorskip("starlette")
KINDS = {"bytes": byte_level_metadata("qwen2"), "pieces": piece_metadata()}


class Script:
    """Chooses tokens that are written down."""

    def __init__(self, tokens: list[int], ends: tuple[int, ...]) -> None:
        self._tokens, self.ends, self.end = list(tokens), frozenset(ends), ""

    @property
    def remaining(self) -> int:
        """Tokens that are left."""
        return len(self._tokens)

    def choose(self, logits: Any) -> int:
        """Return the next token."""
        token = self._tokens.pop(0)
        self.end = "stop" if token in self.ends else "" if self._tokens else "length"
        return token


def answer(
    tokenizer: Tokenizer, tokens: list[int], stop: tuple[str, ...] = (), **options: Any
) -> list[AnswerPart]:
    """Return the parts of an answer of some tokens."""
    parts: list[AnswerPart] = []
    choice: Any = Script(tokens, tokenizer.eos)
    job = AnswerJob([1, 5], choice, tokenizer, stop, index=0, logprobs=2, post=parts.append, **options)
    logits = np.zeros(len(tokenizer.words()), np.float32)
    while job.next_token(logits) is not None:
        pass
    job.on_close()
    return parts


def join_texts(parts: list[AnswerPart]) -> tuple[str, str, list[int]]:
    """Return the text of an answer, of its tokens, and places where the texts of its tokens begin."""
    record = AnswerFormat("m", False, 0).whole([parts], 0, 0)["choices"][0]
    tokens = record["logprobs"] or {"tokens": [], "text_offset": []}
    return record["text"], "".join(tokens["tokens"]), tokens["text_offset"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", HARD_STRINGS[1:])
def test_texts_of_tokens_join_to_the_text(kind, text):
    tokenizer = tokenizer_of_gguf(KINDS[kind], "file")
    tokens = [token for token in tokenizer.encode(text, bos=False) if token not in tokenizer.eos]
    parts = answer(tokenizer, tokens)
    whole, of_tokens, offsets = join_texts(parts)
    assert whole == of_tokens == tokenizer.decode_behind(tokens)
    assert offsets == sorted(offsets)
    assert len(offsets) == len(tokens)
    data = b"".join(token.data for part in parts for token in part.probabilities)
    assert data.decode() == whole
    prompt = tokenizer.encode(text)
    written = tokenizer.decode(prompt, special=True)
    for echo in (tokenizer.decode(prompt), written, tokenizer.decode(prompt[1:], special=True)):
        assert "".join(token_texts(tokenizer, prompt, echo)) in (echo, tokenizer.decode(prompt))


@pytest.mark.parametrize("kind", KINDS)
def test_characters_of_several_tokens_belong_to_the_last_one(kind):
    tokenizer, text = tokenizer_of_gguf(KINDS[kind], "file"), "\U0001f9ff"
    letters = list(text.encode())
    tokens = [3 + byte for byte in letters] if kind == "pieces" else tokenizer.encode(text, bos=False)
    tops = [token for part in answer(tokenizer, tokens) for token in part.probabilities]
    assert [token.text for token in tops][-1] == text
    assert b"".join(token.data for token in tops) == text.encode()
    for cut in range(1, len(tokens)):
        whole, of_tokens, _ = join_texts(answer(tokenizer, tokens[:cut]))
        assert whole == of_tokens
        assert "\N{REPLACEMENT CHARACTER}" in whole


@pytest.mark.parametrize("stop", ["o w", "w", "orl", "lo wo", "Hello", "d", "none"])
def test_a_stop_text_cuts_tokens_as_it_cuts_the_text(stop):
    tokenizer = tokenizer_of_gguf(KINDS["bytes"], "file")
    tokens = tokenizer.encode("Hello world", bos=False)
    whole, of_tokens, _ = join_texts(answer(tokenizer, tokens, (stop,)))
    assert whole == of_tokens == "Hello world".partition(stop)[0]


def test_special_tokens_that_are_left_out_have_no_text():
    tokenizer = tokenizer_of_gguf(KINDS["bytes"], "file")
    names = KINDS["bytes"]["tokenizer.ggml.tokens"]
    start, think, end = (names.index(text) for text in ("<|im_start|>", "<think>", "<|endoftext|>"))
    parts = answer(tokenizer, [start, think, *tokenizer.encode("a", bos=False), end])
    tokens = [token for part in parts for token in part.probabilities]
    assert [token.text for token in tokens] == ["", "<think>", "a"]
    marked = answer(tokenizer, [start, end], marks={start: "<|im_start|>"})
    assert [token.text for part in marked for token in part.probabilities] == ["<|im_start|>"]

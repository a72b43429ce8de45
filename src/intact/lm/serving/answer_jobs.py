"""Jobs whose results go to the thread that answers clients, as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from intact.lm.chat.reasoning import ReasoningStream
from intact.lm.description.model_description import Pooling
from intact.lm.generate import TokenChoice
from intact.lm.language_model import log_probabilities
from intact.lm.sequence_jobs import EmbeddingJob, TextJob
from intact.lm.serving.engine_thread import StoppedError
from intact.lm.serving.tool_calls import ToolCall, ToolCallStream
from intact.lm.text_stream import token_texts
from intact.lm.tokenizer import Tokenizer

_HALF = "\N{REPLACEMENT CHARACTER}"
_LEAST = -9999.0
"""The logarithm of 0 in OpenAI's protocol."""


@dataclass(frozen=True)
class TokenProbability:
    """A token with the logarithm of its probability.

    Attributes:
        text: What it adds to the text: a character of several tokens is of the last one, and a special token
            that is left out adds nothing. Of a likely token: its text alone.
        data: Its bytes, which may be part of a character.
        logprob: None for the first token of a prompt.
        top: The most likely tokens.
    """

    text: str
    data: bytes
    logprob: float | None
    top: tuple[TokenProbability, ...] = ()


@dataclass(frozen=True)
class AnswerPart:
    """A part of one answer.

    Attributes:
        index: Number of the answer.
        text: What it goes on with.
        reasoning: What the reasoning in front of it goes on with.
        probabilities: Of the tokens since the last part, where they are wanted.
        calls: Of tools, complete ones.
        end: Why it ended; "" before.
        stop_text: The stop text that ended it; "" for none.
        error: What ended it otherwise.
        is_last: Nothing of this answer follows.
    """

    index: int
    text: str = ""
    probabilities: tuple[TokenProbability, ...] = ()
    end: str = ""
    error: Exception | None = None
    is_last: bool = False
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    stop_text: str = ""


Post = Callable[[AnswerPart], None]


class AnswerJob(TextJob):
    """Generates one answer and posts its parts.

    Args:
        prompt, choice, tokenizer, stop, least, marks: As for `TextJob`.
        index: Number of the answer.
        logprobs: The most likely tokens that are named beside each; None: no probabilities.
        post: Takes the parts, on the thread of the engine.
        calls: Finds calls of tools in the text; None: all is text.
        reasoning: Splits reasoning from the text; None: all is text.
        echo: Text of the prompt, with which the answer begins; None: without.
    """

    def __init__(
        self, prompt: Sequence[int], choice: TokenChoice, tokenizer: Tokenizer, stop: Sequence[str], *,
        index: int, logprobs: int | None, post: Post, calls: ToolCallStream | None = None,
        reasoning: ReasoningStream | None = None, echo: str | None = None, least: int = 0,
        marks: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(prompt, choice, tokenizer, stop, least, marks)
        self._tokenizer, self._index, self._logprobs, self._post = tokenizer, index, logprobs, post
        self._marks = dict(marks or {})
        self._calls, self._reasoning, self._echo = calls, reasoning, echo
        self.wants_prompt_logits = echo is not None and logprobs is not None
        self._waiting: list[TokenProbability] = []
        self._room = 0  # characters that were posted, and whose tokens were not
        self._echoed: list[TokenProbability] = []
        self._prompt_texts: list[str] = []
        if self.wants_prompt_logits:
            self._prompt_texts = token_texts(tokenizer, self.prompt, echo or "")
            first = TokenProbability(self._prompt_texts[0], tokenizer.token_bytes(self.prompt[0]), None)
            self._echoed.append(first)

    def read_logits(self, logits: NDArray[np.float32]) -> None:
        """Note the probabilities of the prompt's next tokens."""
        following = self.prompt[len(self._echoed) :]
        for row, token in zip(logits, following, strict=False):
            text = self._prompt_texts[len(self._echoed)]
            self._echoed.append(self._probability(token, row, self._logprobs or 0, text))

    def next_token(self, logits: NDArray[np.float32]) -> int | None:
        """Return the token to run next, None at the end, and behind the last call that may come."""
        if self._echo is not None:
            self._post(AnswerPart(self._index, self._echo, tuple(self._echoed)))
            self._echo = None
        token = super().next_token(logits)
        if token is not None and self._calls is not None and self._calls.is_full:
            self.end, token = "stop", None
        return token

    def emit(self, piece: str, token: int | None, logits: NDArray[np.float32]) -> None:
        """Post a part."""
        if self._logprobs is not None and token is not None:
            text = self._text.token_text
            self._waiting.append(self._probability(token, logits, self._logprobs, text))
        probabilities = self._tokens_within(len(piece))
        reasoning, calls = "", tuple[ToolCall, ...]()
        if self._reasoning is not None:
            reasoning, piece = self._reasoning.push(piece)
        if self._calls is not None:
            piece, calls = self._calls.push(piece)
        if piece or reasoning or probabilities or calls:
            self._post(AnswerPart(self._index, piece, probabilities, calls=calls, reasoning=reasoning))

    def on_close(self) -> None:
        """Post the end."""
        error = self.error if self.error is not None or self.end else StoppedError()
        text, reasoning, end, calls = "", "", self.end, tuple[ToolCall, ...]()
        if self._reasoning is not None and error is None:
            reasoning, text = self._reasoning.finish()
        if self._calls is not None and error is None:  # no call of an answer that failed
            certain, calls = self._calls.push(text)
            rest, more = self._calls.finish()
            text, calls = certain + rest, calls + more
            end = "tool_calls" if self._calls.count and end == "stop" else end
        part = AnswerPart(
            self._index, text, end=end, error=error, is_last=True, calls=calls, reasoning=reasoning,
            stop_text=self._text.stop_text,
        )  # fmt: skip
        self._post(part)

    def _tokens_within(self, count: int) -> tuple[TokenProbability, ...]:
        """Return the tokens whose text is posted, `count` characters more now: both join to the same text.

        Tokens of a character that is not complete wait for it. A stop text cuts the last token, and drops
        those behind it.
        """
        self._room += count
        within: list[TokenProbability] = []
        for token in self._waiting:
            if len(token.text) > self._room:
                break
            within.append(token)
            self._room -= len(token.text)
        if not self.end:
            while within and within[-1].data and not within[-1].text:
                within.pop()
            self._waiting = self._waiting[len(within) :]
            return tuple(within)
        rest, self._waiting = self._waiting[len(within) :], []
        if rest and self._room:
            within.append(_cut(rest[0], self._room))
        elif within and self._room:  # half a character that nothing completed
            last = within.pop()
            within.append(replace(last, text=last.text + _HALF * self._room))
        return tuple(within)

    def _probability(
        self, token: int, logits: NDArray[np.float32], count: int, text: str
    ) -> TokenProbability:
        logarithms = log_probabilities(logits)
        order = np.argsort(-logarithms, kind="stable")[:count]
        data = self._marks[token].encode() if token in self._marks else self._tokenizer.token_bytes(token)
        chosen = TokenProbability(text, data, _json_logarithm(logarithms[token]))
        top = tuple(
            chosen if other == token else self._likely(other, logarithms) for other in map(int, order)
        )
        return replace(chosen, top=top)

    def _likely(self, token: int, logarithms: NDArray[np.float64]) -> TokenProbability:
        text = self._tokenizer.decode_behind([token], special=True)
        data = self._tokenizer.token_bytes(token) or text.encode()
        return TokenProbability(text, data, _json_logarithm(logarithms[token]))


def _cut(token: TokenProbability, count: int) -> TokenProbability:
    """Return a token of which a stop text left `count` characters."""
    text = token.text[:count]
    return replace(token, text=text, data=text.encode())


def _json_logarithm(logarithm: float) -> float:
    """Return a logarithm that JSON can hold, also of the probability 0."""
    return max(float(logarithm), _LEAST)


class VectorJob(EmbeddingJob):
    """Makes the vector of one text and posts that it is there."""

    def __init__(self, prompt: Sequence[int], index: int, post: Post, pooling: Pooling) -> None:
        super().__init__(prompt, pooling)
        self._index, self._post = index, post

    def on_close(self) -> None:
        """Post the end."""
        error = self.error if self.error is not None or self.vector is not None else StoppedError()
        self._post(AnswerPart(self._index, error=error, is_last=True))

"""Bodies of answers: what all protocols have, and those of completions, chats and embeddings."""

from __future__ import annotations

import base64
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact._version import __version__
from intact.lm.serving.answer_jobs import AnswerPart, TokenProbability
from intact.lm.serving.protocol_error import ProtocolError
from intact.lm.serving.tool_calls import ToolCall


class AnswerBodies(Protocol):
    """The bodies of one response in a protocol; a streamed response has several.

    Attributes:
        last: What ends a stream, behind all bodies.
    """

    last: bytes

    def whole(self, answers: Sequence[Sequence[AnswerPart]], prompt: int, completion: int) -> dict[str, Any]:
        """Return the body of a response that is sent at once.

        Args:
            answers: The parts of each.
            prompt, completion: Tokens of all prompts, and of all answers.
        """

    def begin(self, answers: int, prompt: int) -> Iterable[dict[str, Any]]:
        """Yield the bodies in front of so many answers to prompts of so many tokens."""

    def chunk(self, part: AnswerPart) -> Iterable[dict[str, Any]]:
        """Yield the bodies that a part becomes."""

    def end(self, prompt: int, completion: int) -> Iterable[dict[str, Any]]:
        """Yield the bodies behind all answers; tokens as for `whole`."""

    def failure(self, error: ProtocolError) -> dict[str, Any]:
        """Return the body that ends a stream in place of the rest."""


@dataclass
class AnswerFormat:
    """Bodies of /v1/completions and /v1/chat/completions, as of `AnswerBodies`.

    Attributes:
        model: Its name.
        is_chat: Of /v1/chat/completions, else of /v1/completions.
        seed: Of what was drawn: it gives the same answer again.
        wants_usage: A stream ends with the tokens that it took.
    """

    model: str
    is_chat: bool
    seed: int
    wants_usage: bool = False
    last: bytes = b"data: [DONE]\n\n"
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))
    _sent: Counter[int] = field(default_factory=Counter)  # characters of each answer's tokens so far

    def whole(self, answers: Sequence[Sequence[AnswerPart]], prompt: int, completion: int) -> dict[str, Any]:
        """Return the body of a response that is sent at once."""
        choices = [self._choice(index, parts) for index, parts in enumerate(answers)]
        return self._head("chat.completion") | {
            "choices": choices, "usage": usage_record(prompt, completion),
        }  # fmt: skip

    def begin(self, answers: int, prompt: int) -> Iterable[dict[str, Any]]:
        """Yield the parts of a streamed chat that name who speaks."""
        for index in range(answers if self.is_chat else 0):
            choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            yield self._head("chat.completion.chunk") | {"choices": [choice]}

    def chunk(self, piece: AnswerPart) -> Iterable[dict[str, Any]]:
        """Yield one part of a streamed response."""
        choice: dict[str, Any] = {
            "index": piece.index, "logprobs": self._logprobs(piece.index, piece.probabilities),
            "finish_reason": piece.end or None,
        }  # fmt: skip
        if self.is_chat:
            has_text = piece.text or not (piece.is_last or piece.reasoning)
            choice["delta"] = {"content": piece.text} if has_text else {}
            if piece.reasoning:
                choice["delta"] |= {"reasoning_content": piece.reasoning}
            if piece.calls:
                calls = [{"index": call.index} | _call_record(call) for call in piece.calls]
                choice["delta"] = choice["delta"] | {"tool_calls": calls}
        else:
            choice["text"] = piece.text
        yield self._head("chat.completion.chunk") | {"choices": [choice]}

    def end(self, prompt: int, completion: int) -> Iterable[dict[str, Any]]:
        """Yield the last part of a streamed response: the tokens that it took."""
        if self.wants_usage:
            usage = usage_record(prompt, completion)
            yield self._head("chat.completion.chunk") | {"choices": [], "usage": usage}

    def failure(self, error: ProtocolError) -> dict[str, Any]:
        """Return the part that tells of an error."""
        return error.body()

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": ("chatcmpl-" if self.is_chat else "cmpl-") + self.id,
            "object": kind if self.is_chat else "text_completion", "created": self.created,
            "model": self.model, "system_fingerprint": f"intact-{__version__}", "seed": self.seed,
        }  # fmt: skip

    def _choice(self, index: int, parts: Sequence[AnswerPart]) -> dict[str, Any]:
        text = "".join(part.text for part in parts)
        logprobs = self._logprobs(index, [token for part in parts for token in part.probabilities])
        choice: dict[str, Any] = {
            "index": index, "logprobs": logprobs, "finish_reason": parts[-1].end or None,
        }  # fmt: skip
        if self.is_chat:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
            if reasoning := "".join(part.reasoning for part in parts):
                choice["message"] |= {"reasoning_content": reasoning}
            if calls := [_call_record(call) for part in parts for call in part.calls]:
                choice["message"] |= {"content": text or None, "tool_calls": calls}
        else:
            choice["text"] = text
        return choice

    def _logprobs(self, index: int, tokens: Sequence[TokenProbability]) -> dict[str, Any] | None:
        if not tokens:
            return None
        if self.is_chat:
            return {"content": [token_record(token) for token in tokens], "refusal": None}
        offsets = []
        for token in tokens:
            offsets.append(self._sent[index])
            self._sent[index] += len(token.text)
        return {
            "tokens": [token.text for token in tokens], "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [_top(token) for token in tokens], "text_offset": offsets,
        }  # fmt: skip


def usage_record(prompt: int, completion: int | None = None) -> dict[str, int]:
    """Return the tokens that a response took; `completion`: None for vectors."""
    record = {"prompt_tokens": prompt, "total_tokens": prompt + (completion or 0)}
    return record if completion is None else record | {"completion_tokens": completion}


def embedding_body(
    model: str, vectors: Sequence[NDArray[np.float32]], is_base64: bool, tokens: int
) -> dict[str, Any]:
    """Return the body of a response to /v1/embeddings.

    Args:
        model: Its name.
        vectors: float32 [size] each.
        is_base64: Whether they are written as base64.
        tokens: Of all texts.
    """
    data = [
        {"object": "embedding", "index": index, "embedding": _encode(vector, is_base64)}
        for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": model, "usage": usage_record(tokens)}


def _encode(vector: NDArray[np.float32], is_base64: bool) -> Any:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode() if is_base64 else vector.tolist()


def _call_record(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _top(token: TokenProbability) -> dict[str, float] | None:
    """Return the likeliest tokens and the one that is there, of several with one text the likeliest."""
    if token.logprob is None:
        return None
    likeliest: dict[str, float] = {}
    for likely in (*token.top, token):
        likeliest.setdefault(likely.text, likely.logprob or 0.0)
    return likeliest


def token_record(token: TokenProbability) -> dict[str, Any]:
    """Return a token of a chat with the logarithm of its probability, and the likeliest ones."""
    return _word(token) | {"top_logprobs": [_word(top) for top in token.top]}


def _word(token: TokenProbability) -> dict[str, Any]:
    return {"token": token.text, "logprob": token.logprob, "bytes": list(token.data)}

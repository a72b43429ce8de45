"""Bodies of answers of Anthropic's protocol."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from intact.lm.serving.answer_jobs import AnswerPart
from intact.lm.serving.protocol_error import ProtocolError
from intact.lm.serving.protocols.answer_blocks import AnswerBlock, AnswerBlocks, BlockEvent, blocks_of

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_DELTAS = {
    "reasoning": ("thinking_delta", "thinking"), "text": ("text_delta", "text"),
    "call": ("input_json_delta", "partial_json"),
}  # fmt: skip
_ERRORS = {
    401: "authentication_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
    503: "overloaded_error",
}  # fmt: skip


@dataclass
class MessageBodies:
    """Bodies of /v1/messages, as of `AnswerBodies`.

    Attributes:
        model: Its name.
    """

    model: str
    last: bytes = b""
    _id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    _blocks: AnswerBlocks = field(default_factory=AnswerBlocks)
    _final: AnswerPart | None = None

    def whole(self, answers: Sequence[Sequence[AnswerPart]], prompt: int, completion: int) -> dict[str, Any]:
        """Return the body of a response that is sent at once."""
        (parts,) = answers
        content = [_block(block) for block in blocks_of(parts)]
        return self._message(content, prompt, completion) | _end(parts[-1])

    def begin(self, answers: int, prompt: int) -> Iterable[dict[str, Any]]:
        """Yield the beginning of a message."""
        message = self._message([], prompt, 0) | {"stop_reason": None, "stop_sequence": None}
        yield {"type": "message_start", "message": message}

    def chunk(self, part: AnswerPart) -> Iterable[dict[str, Any]]:
        """Yield what a part adds to the blocks of the message."""
        yield from map(_event, self._blocks.push(part))
        self._final = part

    def end(self, prompt: int, completion: int) -> Iterable[dict[str, Any]]:
        """Yield why the message ended."""
        assert self._final is not None, "a part comes in front of the end"
        yield {"type": "message_delta", "delta": _end(self._final), "usage": {"output_tokens": completion}}
        yield {"type": "message_stop"}

    def failure(self, error: ProtocolError) -> dict[str, Any]:
        """Return the event of an error."""
        return message_error(error)

    def _message(self, content: list[dict[str, Any]], prompt: int, completion: int) -> dict[str, Any]:
        return {
            "id": self._id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "usage": {"input_tokens": prompt, "output_tokens": completion},
        }  # fmt: skip


def message_error(error: ProtocolError) -> dict[str, Any]:
    """Return the body of an error in Anthropic's form."""
    kind = _ERRORS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def _end(part: AnswerPart) -> dict[str, Any]:
    reason = "stop_sequence" if part.stop_text and part.end == "stop" else _REASONS[part.end]
    return {"stop_reason": reason, "stop_sequence": part.stop_text if reason == "stop_sequence" else None}


def _block(block: AnswerBlock, *, is_begin: bool = False) -> dict[str, Any]:
    """Return a block as it stands, or as a stream begins it: without what grows."""
    text = "" if is_begin else block.text
    if block.call is not None:
        arguments = {} if is_begin else json.loads(block.call.arguments)
        return {"type": "tool_use", "id": block.call.id, "name": block.call.name, "input": arguments}
    if block.kind == "reasoning":
        return {"type": "thinking", "thinking": text, "signature": ""}
    return {"type": "text", "text": text}


def _event(event: BlockEvent) -> dict[str, Any]:
    index = {"index": event.block.index}
    if event.what == "begin":
        return {"type": "content_block_start", **index, "content_block": _block(event.block, is_begin=True)}
    if event.what == "end":
        return {"type": "content_block_stop", **index}
    kind, name = _DELTAS[event.block.kind]
    return {"type": "content_block_delta", **index, "delta": {"type": kind, name: event.text}}

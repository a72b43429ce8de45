"""Bodies of answers of /v1/responses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from intact.lm.serving.answer_bodies import token_record
from intact.lm.serving.answer_jobs import AnswerPart, TokenProbability
from intact.lm.serving.protocol_error import ProtocolError
from intact.lm.serving.protocols.answer_blocks import AnswerBlock, AnswerBlocks, BlockEvent, blocks_of

_PREFIXES = {"reasoning": "rs", "text": "msg", "call": "fc"}
_EVENTS = {
    "reasoning": "reasoning_text", "text": "output_text", "call": "function_call_arguments",
}  # fmt: skip


@dataclass
class ResponseBodies:
    """Bodies of /v1/responses, as of `AnswerBodies`.

    Attributes:
        model: Its name.
        echoed: Fields of the request that the response repeats.
    """

    model: str
    echoed: dict[str, Any]
    last: bytes = b""
    _id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _created: int = field(default_factory=lambda: int(time.time()))
    _blocks: AnswerBlocks = field(default_factory=AnswerBlocks)
    _sent: int = 0  # events so far
    _final: AnswerPart | None = None

    def whole(self, answers: Sequence[Sequence[AnswerPart]], prompt: int, completion: int) -> dict[str, Any]:
        """Return the body of a response that is sent at once."""
        (parts,) = answers
        return self._final_response(parts[-1], blocks_of(parts), prompt, completion)

    def begin(self, answers: int, prompt: int) -> Iterable[dict[str, Any]]:
        """Yield that the response is there, and is worked on."""
        response = self._response("in_progress", [])
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def chunk(self, part: AnswerPart) -> Iterable[dict[str, Any]]:
        """Yield what a part adds to the items of the response."""
        for event in self._blocks.push(part):
            yield from self._block_events(event)
        self._final = part

    def end(self, prompt: int, completion: int) -> Iterable[dict[str, Any]]:
        """Yield the response as it stands."""
        assert self._final is not None, "a part comes in front of the end"
        response = self._final_response(self._final, self._blocks.blocks, prompt, completion)
        yield self._event(f"response.{response['status']}", response=response)

    def failure(self, error: ProtocolError) -> dict[str, Any]:
        """Return the event of an error."""
        items = [self._item(block) for block in self._blocks.blocks]
        code = error.code or ("server_error" if error.status >= 500 else "invalid_prompt")
        failed = self._response("failed", items) | {"error": {"code": code, "message": error.message}}
        return self._event("response.failed", response=failed)

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"resp_{self._id}", "object": "response", "created_at": self._created, "status": status,
            "error": None, "incomplete_details": None, "model": self.model, "output": output,
            "previous_response_id": None, "store": False, **self.echoed, "usage": None,
        }  # fmt: skip

    def _final_response(
        self, part: AnswerPart, blocks: Sequence[AnswerBlock], prompt: int, completion: int
    ) -> dict[str, Any]:
        is_cut = part.end == "length"
        items = [self._item(block) for block in blocks]
        if is_cut and items:
            items[-1]["status"] = "incomplete"
        usage = {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}
        response = self._response("incomplete" if is_cut else "completed", items) | {"usage": usage}
        return response | ({"incomplete_details": {"reason": "max_output_tokens"}} if is_cut else {})

    def _item(self, block: AnswerBlock, *, is_begin: bool = False) -> dict[str, Any]:
        """Return the item of a block as it stands, or as a stream begins it: without what grows."""
        head = {"id": self._item_id(block), "status": "in_progress" if is_begin else "completed"}
        content = [] if is_begin else [_part(block)]
        if block.call is not None:
            arguments = "" if is_begin else block.call.arguments
            return head | {
                "type": "function_call", "call_id": block.call.id, "name": block.call.name,
                "arguments": arguments,
            }  # fmt: skip
        if block.kind == "reasoning":
            return head | {"type": "reasoning", "summary": [], "content": content}
        return head | {"type": "message", "role": "assistant", "content": content}

    def _item_id(self, block: AnswerBlock) -> str:
        return f"{_PREFIXES[block.kind]}_{self._id}_{block.index}"

    def _block_events(self, event: BlockEvent) -> Iterable[dict[str, Any]]:
        block, kind = event.block, f"response.{_EVENTS[event.block.kind]}"
        item: dict[str, Any] = {"output_index": block.index}
        place = item | {"item_id": self._item_id(block)}
        place |= {"content_index": 0} if block.call is None else {}
        logprobs = {"logprobs": _logprobs(event.probabilities)} if block.kind == "text" else {}
        if event.what == "begin":
            yield self._event("response.output_item.added", **item, item=self._item(block, is_begin=True))
            if block.call is None:
                part = _part(AnswerBlock(block.index, block.kind))
                yield self._event("response.content_part.added", **place, part=part)
        elif event.what == "grow":
            yield self._event(f"{kind}.delta", **place, delta=event.text, **logprobs)
        else:
            if block.call is not None:
                yield self._event(
                    f"{kind}.done", **place, name=block.call.name, arguments=block.call.arguments
                )
            else:
                whole = {"logprobs": _logprobs(block.probabilities)} if block.kind == "text" else {}
                yield self._event(f"{kind}.done", **place, text=block.text, **whole)
                yield self._event("response.content_part.done", **place, part=_part(block))
            yield self._event("response.output_item.done", **item, item=self._item(block))

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._sent += 1
        return {"type": kind, "sequence_number": self._sent - 1, **fields}


def _part(block: AnswerBlock) -> dict[str, Any]:
    if block.kind == "reasoning":
        return {"type": "reasoning_text", "text": block.text}
    logprobs = _logprobs(block.probabilities)
    return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": logprobs}


def _logprobs(tokens: Sequence[TokenProbability]) -> list[dict[str, Any]]:
    return [token_record(token) for token in tokens]

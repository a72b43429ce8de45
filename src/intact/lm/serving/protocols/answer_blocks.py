"""An answer as blocks: reasoning, texts and calls of tools, each of which begins, grows and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from intact.lm.serving.answer_jobs import AnswerPart, TokenProbability
from intact.lm.serving.tool_calls import ToolCall

BlockKind = Literal["reasoning", "text", "call"]


@dataclass
class AnswerBlock:
    """A block of an answer.

    Attributes:
        index: Its number in the answer.
        kind: What it is.
        text: Of reasoning and texts: so far.
        probabilities: Of the tokens of a text, where they are wanted.
        call: Of a tool; None: another kind.
    """

    index: int
    kind: BlockKind
    text: str = ""
    probabilities: list[TokenProbability] = field(default_factory=list)
    call: ToolCall | None = None


@dataclass(frozen=True)
class BlockEvent:
    """Says what happened to a block.

    Attributes:
        what: It begins, grows by `text`, or is complete.
        block: As it is now.
        text: That it grew by; of a call its arguments.
        probabilities: Of the tokens that it grew by.
    """

    what: Literal["begin", "grow", "end"]
    block: AnswerBlock
    text: str = ""
    probabilities: tuple[TokenProbability, ...] = ()


class AnswerBlocks:
    """Makes blocks of the parts of one answer.

    Attributes:
        blocks: All of them so far.
    """

    def __init__(self) -> None:
        self.blocks: list[AnswerBlock] = []
        self._open: AnswerBlock | None = None

    def push(self, part: AnswerPart) -> Iterator[BlockEvent]:
        """Add a part; yield what it changes. Behind the last part nothing is open."""
        if part.reasoning:
            yield from self._grow("reasoning", part.reasoning, ())
        if part.text or part.probabilities:
            yield from self._grow("text", part.text, part.probabilities)
        for call in part.calls:
            yield from self._close()
            block = AnswerBlock(len(self.blocks), "call", call=call)
            self.blocks.append(block)
            yield BlockEvent("begin", block)
            yield BlockEvent("grow", block, call.arguments)
            yield BlockEvent("end", block)
        if part.is_last:
            yield from self._close()

    def _grow(
        self, kind: BlockKind, text: str, probabilities: tuple[TokenProbability, ...]
    ) -> Iterator[BlockEvent]:
        block = self._open
        if block is None or block.kind != kind:
            yield from self._close()
            block = self._open = AnswerBlock(len(self.blocks), kind)
            self.blocks.append(block)
            yield BlockEvent("begin", block)
        block.text += text
        block.probabilities += probabilities
        yield BlockEvent("grow", block, text, probabilities)

    def _close(self) -> Iterator[BlockEvent]:
        block, self._open = self._open, None
        if block is not None:
            yield BlockEvent("end", block)


def blocks_of(parts: Iterable[AnswerPart]) -> list[AnswerBlock]:
    """Return the blocks of a complete answer."""
    answer = AnswerBlocks()
    for part in parts:
        for _ in answer.push(part):
            pass
    return answer.blocks

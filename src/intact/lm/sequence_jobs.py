"""Jobs of a batch: generate text, or pool its hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.lm.continuous_batch import SequenceJob
from intact.lm.description.model_description import POOLINGS, Pooling
from intact.lm.generate import TokenChoice
from intact.lm.text_stream import TextStream
from intact.lm.tokenizer import Tokenizer


class TextJob(SequenceJob):
    """Generates text behind a prompt.

    Args:
        prompt: Tokens.
        choice: Chooses the tokens.
        tokenizer: Decodes them.
        stop: Texts at which it ends; they are left out.
        least: Tokens within which no stop text ends it.
        marks: As of `TextStream`.

    Attributes:
        choice: As given.
        end: Why it ended, as of `TokenChoice`; "stop" for a stop text, too.
        pieces: The text so far.
    """

    def __init__(
        self, prompt: Sequence[int], choice: TokenChoice, tokenizer: Tokenizer, stop: Sequence[str] = (),
        least: int = 0, marks: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(prompt)
        self.choice, self.end = choice, ""
        self.pieces: list[str] = []
        self._text = TextStream(tokenizer, stop, least, marks)

    def next_token(self, logits: NDArray[np.float32]) -> int | None:
        """Return the token to run next, None at the end."""
        if not self.choice.remaining:
            self.end = "length"
            return None
        token = self.choice.choose(logits)
        is_text = token not in self.choice.ends
        piece = self._text.push(token) if is_text else ""
        self.end = "stop" if self._text.stop_text else self.choice.end
        if self.end:
            piece += self._text.finish()
            self.end = "stop" if self._text.stop_text else self.end
        self.emit(piece, token if is_text else None, logits)
        return None if self.end else token

    def emit(self, piece: str, token: int | None, logits: NDArray[np.float32]) -> None:
        """Take a piece of text, which may be empty.

        Args:
            piece: The text that became certain.
            token: The token that was chosen; None: it is no text.
            logits: float32 [vocabulary] that it was chosen from.
        """
        self.pieces.append(piece)


class EmbeddingJob(SequenceJob):
    """Pools the hidden states of a text into a vector.

    Args:
        prompt: Tokens.
        pooling: How.

    Attributes:
        vector: float32 [hidden]; None before the end.
    """

    wants_states = True

    def __init__(self, prompt: Sequence[int], pooling: Pooling | None = None) -> None:
        super().__init__(prompt)
        self._pooling = pooling or Pooling()
        if self._pooling.kind not in POOLINGS:
            raise QuantValueError(
                "pooling", repr(self._pooling.kind), " or ".join(POOLINGS), "choose one of them"
            )
        self._sum, self._count, self._weight = np.zeros(1), 0, 0.0
        self.vector: NDArray[np.float32] | None = None

    def read_states(self, states: NDArray[np.float32]) -> None:
        """Add states in the order of their tokens, in float64: chunks of the prompt change no bit."""
        for row in states:
            self._count += 1
            self._add(row.astype(np.float64))
        if self._count == len(self.prompt):
            self.vector = self._finish().astype(np.float32)

    def _add(self, row: NDArray[np.float64]) -> None:
        kind = self._pooling.kind
        if kind == "last" or (kind in ("cls", "max") and self._count == 1):
            self._sum = row
        elif kind == "max":
            self._sum = np.maximum(self._sum, row)
        elif kind != "cls":
            weight = float(self._count) if kind == "weighted_mean" else 1.0
            self._sum, self._weight = self._sum + weight * row, self._weight + weight

    def _finish(self) -> NDArray[np.float64]:
        if self._pooling.is_normalized:
            return np.asarray(self._sum / max(np.sqrt(np.dot(self._sum, self._sum)), 1e-300))
        if self._pooling.kind == "mean_sqrt_length":
            return np.asarray(self._sum / np.sqrt(self._weight))
        return np.asarray(self._sum / self._weight) if self._weight else self._sum

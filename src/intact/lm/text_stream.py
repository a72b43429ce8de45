"""Turns tokens that come one by one into pieces of text, up to a stop text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intact.lm.tokenizer import Tokenizer

_HALF = "\N{REPLACEMENT CHARACTER}"
_WINDOW, _CONTEXT = 48, 16


class TextStream:
    """The text of tokens that come one by one.

    A piece is handed out when later tokens cannot change it: half a character and what may begin a stop text
    wait. Only the last tokens are decoded each time, so that a long text costs no more per token than a
    short one.

    Args:
        tokenizer: Decodes.
        stop: Texts at which it ends; they are left out.
        least: Tokens within which no stop text is sought.
        marks: Texts of special tokens that count, by their numbers; others are left out.

    Attributes:
        is_stopped: A stop text came.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), least: int = 0,
        marks: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        self._tokenizer, self._stop, self._free = tokenizer, tuple(stop), least
        self._marks = dict(marks or {})
        self._kept_back = max((len(text) for text in stop), default=1) - 1
        self._tokens: list[int] = []
        self._decoded = 0  # characters of the tokens in the window that were taken
        self._pending = ""
        self.is_stopped = False

    def push(self, token: int) -> str:
        """Add a token; return the text that is certain by now."""
        if token in self._marks:
            self._push_mark(token)
        else:
            self._push_text(token)
        if self._free:
            self._free -= 1
            piece, self._pending = self._pending, ""
            return piece
        return self._release(max(len(self._pending) - self._kept_back, 0))

    def _push_text(self, token: int) -> None:
        self._tokens.append(token)
        text = self._tokenizer.decode_behind(self._tokens)
        certain = text.rstrip(_HALF)
        self._take(certain)
        if len(self._tokens) >= _WINDOW and certain == text:
            self._tokens = self._tokens[-_CONTEXT:]
            self._decoded = len(self._tokenizer.decode_behind(self._tokens))

    def _push_mark(self, token: int) -> None:
        self._take(self._tokenizer.decode_behind(self._tokens))
        self._pending += self._marks[token]
        self._tokens, self._decoded = [], 0

    def finish(self) -> str:
        """Return the text that waited."""
        if not self.is_stopped:
            self._take(self._tokenizer.decode_behind(self._tokens))
        return self._release(len(self._pending))

    def _take(self, text: str) -> None:
        self._pending += text[self._decoded :]
        self._decoded = max(self._decoded, len(text))

    def _release(self, count: int) -> str:
        """Return so many characters of what waits, or those before a stop text."""
        places = [place for word in self._stop if (place := self._pending.find(word)) >= 0]
        if places:
            self.is_stopped, count = True, min(places)
        piece = self._pending[:count]
        self._pending = "" if self.is_stopped else self._pending[count:]
        return piece

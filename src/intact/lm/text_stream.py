"""Turns tokens that come one by one into pieces of text, up to a stop text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

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
        begins: The tokens begin a text; else they follow others, and the first blank stays.

    Attributes:
        stop_text: The stop text that came; "" for none.
        token_text: What the last token made certain, also where a stop text cuts it; after `finish` with what
            was left of it. All of them join to the text.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), least: int = 0,
        marks: Mapping[int, str] | None = None, begins: bool = False,
    ) -> None:  # fmt: skip
        self._decode = tokenizer.decode if begins else tokenizer.decode_behind
        self._stop, self._free = tuple(stop), least
        self._marks = dict(marks or {})
        self._kept_back = max((len(text) for text in stop), default=1) - 1
        self._tokens: list[int] = []
        self._decoded = 0  # characters of the tokens in the window that were taken
        self._pending = ""
        self.stop_text, self.token_text = "", ""

    def push(self, token: int) -> str:
        """Add a token; return the text that is certain by now."""
        self.token_text = ""
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
        text = self._decode(self._tokens)
        certain = text.rstrip(_HALF)
        self._take(certain)
        if len(self._tokens) >= _WINDOW and certain == text:
            self._tokens = self._tokens[-_CONTEXT:]
            self._decoded = len(self._decode(self._tokens))

    def _push_mark(self, token: int) -> None:
        self._take(self._decode(self._tokens))
        self._append(self._marks[token])
        self._tokens, self._decoded = [], 0

    def finish(self) -> str:
        """Return the text that waited."""
        if not self.stop_text:
            self._take(self._decode(self._tokens))
        return self._release(len(self._pending))

    def _take(self, text: str) -> None:
        self._append(text[self._decoded :])
        self._decoded = max(self._decoded, len(text))

    def _append(self, text: str) -> None:
        self._pending += text
        self.token_text += text

    def _release(self, count: int) -> str:
        """Return so many characters of what waits, or those before a stop text."""
        places = [(place, word) for word in self._stop if (place := self._pending.find(word)) >= 0]
        if places:
            count, self.stop_text = min(places, key=itemgetter(0))
        piece = self._pending[:count]
        self._pending = "" if self.stop_text else self._pending[count:]
        return piece


def token_texts(tokenizer: Tokenizer, tokens: Sequence[int], text: str) -> list[str]:
    """Return what each token of a prompt adds to it; they join to the text where that can be.

    Args:
        tokenizer: Decodes.
        tokens: Of the prompt, with those that the tokenizer puts around a text.
        text: The prompt, in which special tokens may be written out.
    """
    special = {
        token: tokenizer.decode_behind([token], special=True) for token in {*tokens}
        if not tokenizer.decode_behind([token])
    }  # fmt: skip
    for marks in (special, {}):
        stream, texts = TextStream(tokenizer, marks=marks, begins=True), []
        for token in tokens:
            stream.push(token)
            texts.append(stream.token_text)
        stream.finish()
        texts[-1:] = [stream.token_text] if texts else []
        for front in (0, 1):
            if "".join(texts[front:]) == text:
                return [""] * front + texts[front:]
    return texts

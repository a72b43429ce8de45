"""A language model that runs: text in, text out; the same tokens on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.errors import QuantValueError
from intact.lm.chat_template import render_chat
from intact.lm.generate import CHUNK, generate_by_lookup, generate_tokens
from intact.lm.sampling import Sampler, Sampling
from intact.lm.sequence_cache import SequenceCache, Tokens
from intact.lm.tokenizer import Tokenizer

_HELD_BACK = "\N{REPLACEMENT CHARACTER}"


@dataclass
class LanguageModel:
    """A decoder, its tokenizer, and what its files say about both.

    Attributes:
        engine: Runs the decoder (`decoder_model`).
        positions: The longest sequence that it takes.
        tokenizer: None: tokens go in and come out.
        template: Chat template; "" for none.
        settings: What was chosen when it was loaded or quantized.
    """

    engine: Engine
    positions: int
    tokenizer: Tokenizer | None = None
    template: str = ""
    settings: Mapping[str, str | int] = field(default_factory=dict)

    def new_cache(self, batch: int = 1) -> SequenceCache:
        """Return an empty cache for so many sequences."""
        return SequenceCache(self.engine, batch, most=self.positions)

    def generate(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), lookup: bool = False, chunk: int = CHUNK,
    ) -> str:  # fmt: skip
        """Return the text that follows a prompt.

        Args:
            prompt: Text, or tokens.
            max_tokens: At most so many are generated.
            sampling: How each is chosen; None: greedily.
            stop: Texts at which it ends; they are left out.
            lookup: Try tokens that followed the same words before: faster where texts repeat themselves, and
                the same tokens. Of greedy choice alone.
            chunk: Tokens of the prompt that run together: no bit depends on it.
        Raises:
            QuantValueError: A setting is wrong, or the prompt is too long.
        """
        return "".join(
            self.stream(
                prompt, max_tokens=max_tokens, sampling=sampling, stop=stop, lookup=lookup, chunk=chunk
            )
        )

    def stream(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), lookup: bool = False, chunk: int = CHUNK,
    ) -> Iterator[str]:  # fmt: skip
        """Yield the text that follows a prompt, piece by piece; arguments as for `generate`."""
        tokenizer = self._require_tokenizer()
        tokens: list[int] = []
        yielded, longest = 0, max((len(text) for text in stop), default=0)
        for token in self.generate_tokens(
            prompt, max_tokens=max_tokens, sampling=sampling, lookup=lookup, chunk=chunk
        ):
            if token in tokenizer.eos:
                break
            tokens.append(token)
            text = tokenizer.decode(tokens)
            ends = [at for word in stop if (at := text.find(word)) >= 0]
            if ends:
                yield text[yielded : min(ends)]
                return
            safe = len(text.rstrip(_HELD_BACK)) - max(longest - 1, 0)  # half a character, or of a stop
            if safe > yielded:
                yield text[yielded:safe]
                yielded = safe
        yield tokenizer.decode(tokens)[yielded:]

    def generate_tokens(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        lookup: bool = False, chunk: int = CHUNK,
    ) -> Iterator[int]:  # fmt: skip
        """Yield the tokens that follow a prompt; arguments as for `generate`."""
        ids = self.encode(prompt)
        ends = frozenset(self.tokenizer.eos if self.tokenizer is not None else ())
        if max_tokens < 1 or len(ids) + max_tokens > self.positions:
            raise QuantValueError(
                "tokens", f"a prompt of {len(ids)} and {max_tokens} to generate",
                f"1 or more, and {self.positions} in all", "generate fewer, or load a longer context",
            )  # fmt: skip
        how = sampling or Sampling()
        if lookup and (how.temperature > 0 or how.repetition_penalty != 1):
            raise QuantValueError("lookup", "sampling", "greedy choice", "leave one of them out")
        cache = self.new_cache()
        if lookup:
            return generate_by_lookup(cache, ids, max_tokens, ends)
        return generate_tokens(cache, ids, Sampler(how), max_tokens, ends, chunk)

    def chat(self, messages: Sequence[Mapping[str, str]], **options: object) -> str:
        """Return the answer to a conversation.

        Args:
            messages: ``{"role": "user", "content": "..."}``, in order.
            options: As for `generate`.
        Raises:
            QuantValueError: The model has no chat template, or it refuses the messages.
        """
        return self.generate(self.chat_prompt(messages), **options)  # type: ignore[arg-type]

    def chat_prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the text that a conversation is for the model."""
        if not self.template:
            raise QuantValueError(
                "model", "no chat template", "one", "build the prompt yourself, and call generate"
            )
        return render_chat(self.template, messages, bos_token="", eos_token="")

    def score(self, text: str | Sequence[int]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each token but the first, behind those before it."""
        ids = self.encode(text)
        scores = [
            log_probabilities(rows)[np.arange(len(following)), following]
            for rows, following in self._logits_of(ids)
        ]
        return np.concatenate(scores) if scores else np.empty(0)

    def logits(self, tokens: Tokens) -> NDArray[np.float32]:
        """Return the logits behind each token of a sequence, [tokens, vocabulary]."""
        cache, ids = self.new_cache(), list(np.asarray(tokens).reshape(-1))
        parts = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
        return np.concatenate([cache.append(part, range(len(part))) for part in parts])

    def _logits_of(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float32], list[int]]]:
        cache = self.new_cache()
        for start in range(0, len(ids) - 1, CHUNK):
            part = list(ids[start : min(start + CHUNK, len(ids) - 1)])
            yield cache.append(part, range(len(part))), list(ids[start + 1 : start + 1 + len(part)])

    def encode(self, text: str | Sequence[int]) -> list[int]:
        """Return the tokens of a text; tokens as they are.

        Raises:
            QuantValueError: There are none.
        """
        ids = self._require_tokenizer().encode(text) if isinstance(text, str) else [int(t) for t in text]
        if not ids:
            raise QuantValueError("prompt", "no token", "one or more", "begin with the first token of a text")
        return ids

    def _require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise QuantValueError(
                "model", "no tokenizer", "one, for text", "pass tokenizer= to load, or pass tokens"
            )
        return self.tokenizer


def log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the logarithms of softmax over the last axis, in float64."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values

"""Grammars and JSON schemas that generated text follows, by the package llguidance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import MissingExtraError, QuantValueError
from intact.lm.schemas import NormalizedSchema, normalize_schema
from intact.lm.tokenizer import Tokenizer
from intact.processes import try_in_worker

_MOST = 2**18  # characters of a grammar
_SECONDS = 15  # that a stranger's grammar may take before its first token
_DEEPEST = 64  # values of a schema inside each other
_SCALARS = (str, int, float, type(None))


class TokenGrammar:
    """The tokens that a text may go on with.

    Args:
        tokenizer: Of the model.
        vocabulary: Length of its logits.
        grammar: In Lark's notation, as llguidance reads it.
        json_schema: A JSON schema, in place of a grammar; also as a text.
    Raises:
        QuantValueError: The grammar is damaged, too large, or both or none are there; or the schema has a
            keyword that no grammar enforces, which is named.
        MissingExtraError: llguidance is not installed.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: int, *, grammar: str | None = None,
        json_schema: NormalizedSchema | Mapping[str, Any] | str | None = None,
    ) -> None:  # fmt: skip
        if (grammar is None) == (json_schema is None):
            raise QuantValueError("grammar", "both or none", "a grammar or a JSON schema", "pass one of them")
        package = _package()
        text = _grammar_of_schema(package, json_schema) if grammar is None else _check_text(grammar)
        if tokenizer.is_untrusted:
            _try(tokenizer, vocabulary, text)
        self._begin(tokenizer, vocabulary, text)

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, vocabulary: int, text: str) -> TokenGrammar:
        """Return the grammar of a text of llguidance, in the process that tries it."""
        grammar = object.__new__(cls)
        grammar._begin(tokenizer, vocabulary, text)
        return grammar

    def _begin(self, tokenizer: Tokenizer, vocabulary: int, text: str) -> None:
        package, self._vocabulary = _package(), vocabulary
        limits = package.LLParserLimits(max_grammar_size=100_000, verbose_errors=False)
        self._matcher = package.LLMatcher(tokenizer.guidance(vocabulary), text, log_level=0, limits=limits)
        self._refuse_errors("one that llguidance reads")

    def token_mask(self) -> NDArray[np.bool_]:
        """Return which tokens may come next, bool [vocabulary]. Where the text is complete: an end token.

        Raises:
            QuantValueError: The grammar is too complex for this text, or no token of the model fits.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._refuse_errors("one that is less complex")
        mask = np.unpackbits(bits, bitorder="little")[: self._vocabulary].astype(bool)
        if not mask.any():
            raise QuantValueError("grammar", "no token that fits", "one", "check the grammar's characters")
        return mask

    def push(self, token: int) -> None:
        """Add a token to the text."""
        self._matcher.consume_token(token)
        self._refuse_errors("tokens that it allows")

    @property
    def is_complete(self) -> bool:
        """Return whether nothing but the end can follow."""
        return bool(self._matcher.is_stopped())

    def copy(self) -> TokenGrammar:
        """Return a grammar for another text, at the same place."""
        twin = object.__new__(TokenGrammar)
        twin._vocabulary, twin._matcher = self._vocabulary, self._matcher.deep_copy()
        return twin

    def _refuse_errors(self, want: str) -> None:
        if self._matcher.is_error():
            message = " ".join(str(self._matcher.get_error()).split())
            raise QuantValueError("grammar", f"'{message[:300]}'", want, "correct the grammar or schema")


def _try(tokenizer: Tokenizer, vocabulary: int, grammar: str) -> None:
    """Let the limited process construct a grammar first: a client's may end the process."""
    text = tokenizer.to_json()
    key = sha256(text.encode(errors="surrogatepass")).hexdigest()
    for contents in ("", text):  # the text is long, and seldom another one
        is_tried = try_in_worker(
            "grammar", "intact.lm.text_probes:try_grammar", seconds=_SECONDS, key=key, text=contents,
            eos=list(tokenizer.eos), vocabulary=vocabulary, grammar=grammar,
        )  # fmt: skip
        if is_tried:
            return


def _grammar_of_schema(package: Any, schema: NormalizedSchema | Mapping[str, Any] | str | None) -> str:
    if isinstance(schema, NormalizedSchema):
        return str(package.LLMatcher.grammar_from_json_schema(schema.to_json()))
    try:
        record = json.loads(_check_text(schema if isinstance(schema, str) else json.dumps(schema)))
        if not isinstance(record, dict) or _depth(record) > _DEEPEST:
            raise ValueError(f"no object, or deeper than {_DEEPEST}")
        return str(package.LLMatcher.grammar_from_json_schema(normalize_schema(record).to_json()))
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, QuantValueError):
            raise
        raise QuantValueError(
            "JSON schema", f"'{str(error)[:300]}'", "a JSON schema", "correct the schema"
        ) from error


def _check_text(text: str) -> str:
    if not isinstance(text, str) or len(text) > _MOST or any("\ud800" <= c <= "\udfff" for c in text):
        raise QuantValueError(
            "grammar", "another type, lone surrogates, or too many characters", f"at most {_MOST} of a text",
            "shorten or correct it",
        )  # fmt: skip
    return text


def _depth(value: Any) -> int:
    """Return how deep lists and objects lie inside each other."""
    depth, layer = 0, [value]
    while layer:
        depth += 1
        parts = [value.values() if isinstance(value, dict) else value for value in layer]
        layer = [inner for part in parts if not isinstance(part, _SCALARS) for inner in part]
    return depth


def _package() -> Any:
    try:
        import llguidance
    except ImportError as error:
        raise MissingExtraError.of("llguidance", "grammar", "grammars and JSON schemas") from error
    return llguidance

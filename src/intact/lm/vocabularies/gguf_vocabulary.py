"""Reads the vocabulary of a GGUF file: tokens, their types, and those that begin a text or end an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intact.errors import FileFormatError
from intact.formats import MetadataFields
from intact.lm.vocabularies import gguf_keys as keys
from intact.lm.vocabularies.special_tokens import SpecialTokens

_RIGHT_STRIPPED = ("phi-3", "phi3")
_NOT_STRIPPED = ("<unk>", "<s>", "<|endoftext|>")


@dataclass(frozen=True)
class GgufVocabulary:
    """Holds the tokens of a GGUF file as llama.cpp takes them.

    Attributes:
        tokens: Their texts; all differ.
        kinds: Their types (`gguf_keys`), after what texts say.
        numbers: The number of each token by its text.
        special: What begins a text, ends an answer, and stands behind a text.
        model: "gpt2", "llama" ...
        where: The file, for errors.
        strips_right: Whole tokens take the blanks behind them, too, as of Phi-3.
    """

    tokens: Sequence[str]
    kinds: Sequence[int]
    numbers: dict[str, int]
    special: SpecialTokens
    model: str
    where: str
    strips_right: bool = False

    def error(self, key: str, got: str, want: str) -> FileFormatError:
        """Return the error for a key that does not fit the others."""
        return FileFormatError(self.where, f"{keys.PREFIX}{key}: {got}", want, "download the model again")

    def whole(self) -> list[dict[str, object]]:
        """Return the tokens that stay whole in any text, as `added_tokens` of a tokenizer.json."""
        kinds = (keys.CONTROL, keys.USER_DEFINED, keys.UNKNOWN)
        return [
            {
                "id": number, "content": token, "single_word": False, "lstrip": False,
                "rstrip": self.strips_right and token not in _NOT_STRIPPED, "normalized": False,
                "special": kind != keys.USER_DEFINED,
            }
            for number, (token, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if kind in kinds
        ]  # fmt: skip


def read_vocabulary(
    fields: MetadataFields, model: str, adds_begin: bool, *, forces_begin: bool = False
) -> GgufVocabulary:
    """Read tokens, types and special tokens.

    Args:
        fields: The metadata.
        model: `tokenizer.ggml.model`.
        adds_begin: Texts begin with the begin token where no key says it.
        forces_begin: They do so whatever the key says, as llama.cpp has it for Gemma 4.
    Raises:
        FileFormatError: A key is missing, is of another kind, or does not fit the others.
    """
    tokens = fields.items(f"{keys.PREFIX}tokens", str)
    if not tokens:
        raise fields.error(f"{keys.PREFIX}tokens", "a list of texts")
    tokens = [token or f"[EMPTY_{number}]" for number, token in enumerate(tokens)]
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens):
        twice = next(token for number, token in enumerate(tokens) if numbers[token] != number)
        raise FileFormatError(
            fields.file, f"{keys.PREFIX}tokens with {twice!r:.60} twice", "tokens that differ",
            "download the model again",
        )  # fmt: skip
    kinds = _kinds(fields, len(tokens))
    reader = _SpecialReader(fields, tokens, numbers, kinds)
    ends = reader.read_ends(model)
    begin, appended = reader.read_around(model, adds_begin, forces_begin)
    name = fields.peek("general.name")
    strips = isinstance(name, str) and any(word in name.lower() for word in _RIGHT_STRIPPED)
    special = SpecialTokens(begin, ends, appended)
    return GgufVocabulary(tokens, kinds, numbers, special, model, fields.file, strips)


def _kinds(fields: MetadataFields, count: int) -> list[int]:
    key = f"{keys.PREFIX}token_type"
    kinds = fields.items(key, int)
    if kinds is None:
        return [keys.NORMAL] * count
    if len(kinds) != count or not all(0 <= kind <= keys.BYTE for kind in kinds):
        raise fields.error(key, f"{count} numbers from 0 to {keys.BYTE}, one for each token")
    return kinds


class _SpecialReader:
    """Finds the special tokens of a vocabulary by keys and by texts; changes types that texts contradict."""

    def __init__(
        self, fields: MetadataFields, tokens: Sequence[str], numbers: dict[str, int], kinds: list[int]
    ) -> None:
        self._fields, self._tokens, self._numbers, self._kinds = fields, tokens, numbers, kinds

    def read_ends(self, model: str) -> tuple[int, ...]:
        """Return the tokens that end an answer."""
        ends = {self._numbers[text] for text in keys.END_TEXTS if text in self._numbers}
        hidden = set(ends)
        for name, texts in keys.FILL_TEXTS.items():
            token = self._token(name)
            if name in keys.OLD_FILL_KEYS:
                old = self._token(keys.OLD_FILL_KEYS[name])
                token = token if token is not None else old
            if token is None:
                usual = sorted(self._numbers[text] for text in texts if text in self._numbers)
                token = usual[0] if usual else None
                hidden |= set(usual[:1])
            if token is not None and name in keys.FILL_ENDS:
                ends.add(token)
        for number in hidden:
            self._kinds[number] = keys.CONTROL
        for text in keys.SHOWN_TEXTS:
            if text in self._numbers:
                self._kinds[self._numbers[text]] = keys.USER_DEFINED
        named = (
            self._token("eos", self._default(keys.DEFAULT_END, model)),
            self._token("eot"),
            self._token("eom"),
        )
        ends |= {token for token in named if token is not None}
        end_texts = {self._tokens[number] for number in ends}
        for text, beside, kind in keys.NO_END_BESIDE:
            if {text, *beside} <= end_texts:
                ends.discard(self._numbers[text])
                self._kinds[self._numbers[text]] = kind
        return tuple(sorted(ends))

    def read_around(
        self, model: str, adds_begin: bool, forces_begin: bool
    ) -> tuple[int | None, tuple[int, ...]]:
        """Return the token in front of a text, and those behind it."""
        begin = self._token("bos", self._default(keys.DEFAULT_BEGIN, model))
        end = self._token("eos", self._default(keys.DEFAULT_END, model))
        begins = self._adds("bos", begin, adds_begin) or forces_begin
        appends = self._adds("eos", end, False)
        return begin if begins else None, (end,) if appends and end is not None else ()

    def _adds(self, name: str, token: int | None, default: bool) -> bool:
        key = f"{keys.PREFIX}add_{name}_token"
        adds = self._fields.flag(key, default)
        if adds and token is None and key in self._fields:
            raise self._fields.contradiction(
                key, f"{keys.PREFIX}{name}_token_id names no token", "the token's number"
            )
        return adds

    def _token(self, name: str, default: int | None = None) -> int | None:
        """Return the token that a key names, or the default where it is there."""
        key = f"{keys.PREFIX}{name}_token_id"
        if key in self._fields:
            return self._fields.integer(key, most=len(self._tokens) - 1)
        return default if default is not None and default < len(self._tokens) else None

    def _default(self, defaults: Mapping[str, int], model: str) -> int | None:
        """Return the usual number of a token; of byte-pair vocabularies only where it is a control token."""
        number = defaults.get(model, len(self._tokens))
        is_control = number < len(self._tokens) and self._kinds[number] == keys.CONTROL
        return number if model == "llama" or is_control else None

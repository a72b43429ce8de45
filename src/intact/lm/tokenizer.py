"""Tokenizers of language models: tokenizer.json, and the vocabularies of GGUF files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError, MissingExtraError, QuantValueError, UnsupportedError
from intact.formats import MetadataFields
from intact.lm.description.special_tokens import CONFIG, end_tokens
from intact.lm.vocabularies.gguf_tokenizer import gguf_tokenizer
from intact.lm.vocabularies.piece_encoder import PieceEncoder, split_scores, with_scores
from intact.lm.vocabularies.token_bytes import Reader, byte_reader
from intact.lm.vocabularies.tokenizer_json import check_contents, check_sizes
from intact.processes import reads_untrusted_files, try_in_worker
from intact.reading import read_bytes

_MOST_HOLES = 2**16  # numbers of tokens that may be missing
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
_PROBES = ("a", "1", ".", " a", "\n")


class Tokenizer:
    """Text to tokens and back, by the package tokenizers.

    Args:
        text: The contents of a tokenizer.json. Truncation and padding that it asks for are switched off.
        bos: The token in front of every text; None: the one that the contents put there, if any.
        eos: Tokens that end a text.

    Attributes:
        bos: The token in front of every text; None: there is none.
        eos: As given.
        appended: Tokens behind every text.
        is_untrusted: The file is a stranger's: so are grammars for it.
        switched_off: "truncation" and "padding", where the contents have them.

    Raises:
        MissingExtraError: tokenizers is not installed.
        FileFormatError: The text is none.
    """

    def __init__(self, text: str, bos: int | None, eos: Sequence[int]) -> None:
        self.eos = tuple(eos)
        self._guidance: Any = None
        package = _package()
        self.is_untrusted = reads_untrusted_files()
        if self.is_untrusted:
            try_in_worker(
                "tokenizer.json", "intact.lm.text_probes:try_tokenizer", seconds=20, text=text,
                eos=list(self.eos),
            )  # fmt: skip
        text, scores = split_scores(text)
        check_sizes(text)
        self._tokenizer = _call(lambda: package.Tokenizer.from_str(text))
        self.switched_off = tuple(
            name for name in ("truncation", "padding") if getattr(self._tokenizer, name) is not None
        )
        _call(self._tokenizer.no_truncation)
        _call(self._tokenizer.no_padding)
        self._scores = scores
        self._pieces = None if scores is None else PieceEncoder(json.loads(text), scores)
        self._front, self.appended = self._around()
        front = self._front
        self._prefix = [] if bos is None or bos in front else [bos]
        self.bos = next(iter(front), None) if bos is None else bos
        self._reader: Reader | None = byte_reader(self._tokenizer.decoder)

    def encode(self, text: str, *, bos: bool = True) -> list[int]:
        """Return the tokens of a text; tokens that it names, such as <|im_end|>, count as such.

        Args:
            text: What is encoded.
            bos: Put the tokens around it that stand around every text.
        Raises:
            QuantValueError: The text has half a surrogate pair.
            FileFormatError: The tokenizer is damaged in a way that shows with this text.
        """
        _check_unicode(text)
        ids = self._encode(text, bos)
        return [*self._prefix, *ids] if bos else ids

    def encode_pair(self, text: str, other: str) -> tuple[list[int], list[int]]:
        """Return the tokens of two texts with special ones around and between, and their types: 0, then 1.

        Args:
            text, other: The texts.
        Raises:
            QuantValueError: A text has half a surrogate pair.
            UnsupportedError: The tokenizer is a sentencepiece vocabulary, which has no pairs.
        """
        if self._pieces is not None:
            raise UnsupportedError("tokenizer", "a sentencepiece vocabulary", "one with pairs", "use another")
        for part in (text, other):
            _check_unicode(part)
        pair = _call(lambda: self._tokenizer.encode(text, other))
        return list(pair.ids), list(pair.type_ids)

    def encode_chat(self, prompt: str, *, adds_begin: bool) -> list[int]:
        """Return the tokens of a conversation as its template writes it; errors as for `encode`.

        Args:
            prompt: What the template wrote.
            adds_begin: Put the begin token in front, unless the template wrote it.
        """
        ids = self.encode(prompt, bos=False)
        if not adds_begin or self.bos is None or ids[:1] == [self.bos]:
            return ids
        return [self.bos, *ids]

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: From the beginning of a text.
            special: Write tokens that are no text, too, such as the end of a turn.
        """
        return str(_call(lambda: self._tokenizer.decode(list(tokens), skip_special_tokens=not special)))

    def decode_behind(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens that follow others: a blank in front of the first word stays.

        Args:
            tokens: Any.
            special: As for `decode`.
        """
        anchor = self._anchor
        if anchor is None:
            return self.decode(tokens, special=special)
        text, front = self.decode([anchor[0], *tokens], special=special), anchor[1]
        return text[len(front) :] if text.startswith(front) else text

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token behind others, perhaps part of a character; b"" if it is no text."""
        if not self.decode_behind([token], special=False) and self.decode_behind([token], special=True):
            return b""
        word = self._tokenizer.id_to_token(token)
        if self._reader is None or word is None:
            return self.decode_behind([token]).encode()
        return self._reader(word)

    def guidance(self, vocabulary: int) -> Any:
        """Return the same tokenizer for llguidance, for logits of `vocabulary` tokens; it is made once.

        Raises:
            UnsupportedError: llguidance does not read this kind, or the text has no end token.
        """
        if self._guidance is None:
            import llguidance

            if not self.eos:
                raise UnsupportedError("tokenizer", "no end token", "one, for a grammar", "set its eos token")
            try:
                self._guidance = llguidance.LLTokenizer(
                    split_scores(self.to_json())[0], n_vocab=vocabulary, eos_token=list(self.eos)
                )
            except Exception as error:  # ValueError, or a panic's class
                raise UnsupportedError(
                    "tokenizer", f"'{str(error)[:200]}'", "a kind that llguidance reads",
                    "generate without a grammar",
                ) from error  # fmt: skip
        return self._guidance

    def words(self) -> dict[str, int]:
        """Return the number of each token, by its text."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=True))

    def special_words(self) -> dict[int, str]:
        """Return the texts of tokens that are no text, by their numbers."""
        added = self._tokenizer.get_added_tokens_decoder()
        return {int(number): str(token.content) for number, token in added.items() if token.special}

    def to_json(self) -> str:
        """Return the contents of its tokenizer.json.

        Raises:
            FileFormatError: Numbers of tokens are far apart: the package walks through all of them.
        """
        numbers = self.words().values()
        if (last := max(numbers, default=0)) > 4 * len(numbers) + _MOST_HOLES:
            raise FileFormatError(
                "tokenizer.json", f"a token of number {last} among {len(numbers)}", "numbers without gaps",
                "download it again",
            )  # fmt: skip
        text = str(_call(self._tokenizer.to_str))
        return text if self._scores is None else with_scores(text, self._scores)

    def _encode(self, text: str, special: bool) -> list[int]:
        if self._pieces is not None:
            ids = self._pieces.encode(text)
            return [*self._front, *ids, *self.appended] if special else ids
        return list(_call(lambda: self._tokenizer.encode(text, add_special_tokens=special)).ids)

    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens that the post-processor puts in front of a text, and behind it."""
        for text in _PROBES:
            ids, plain = (
                _call(partial(self._tokenizer.encode, text, add_special_tokens=special)).ids
                for special in (True, False)
            )
            for start in range(len(ids) - len(plain) + 1):
                if plain and ids[start : start + len(plain)] == plain:
                    return tuple(ids[:start]), tuple(ids[start + len(plain) :])
        return (), ()

    @cached_property
    def _anchor(self) -> tuple[int, str] | None:
        """Return a token that a text may follow, with its text; None: the vocabulary has none."""
        tokens = (token for text in _PROBES for token in self.encode(text, bos=False))
        whole = (token for token in tokens if not _BYTE.fullmatch(self._tokenizer.id_to_token(token) or ""))
        return next(((token, self.decode([token])) for token in whole), None)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise QuantValueError(
            "text", f"half a surrogate pair at character {error.start}", "text that UTF-8 can write",
            "remove it, or decode the text with errors='replace'",
        ) from error  # fmt: skip


def tokenizer_of_gguf(metadata: Mapping[str, Any], where: str) -> Tokenizer:
    """Make the tokenizer of a GGUF file.

    Args:
        metadata: Of the file.
        where: The file, for errors.
    Raises:
        UnsupportedError: Its kind is not computed.
        FileFormatError: A key is missing, is of another kind, or does not fit the others.
        MissingExtraError: tokenizers is not installed.
    """
    contents, special = gguf_tokenizer(MetadataFields(metadata, where))
    return Tokenizer(contents, special.begin, special.ends)


def tokenizer_of_file(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Make a tokenizer of a tokenizer.json.

    Args:
        path: The file.
        config: ``eos_token_id``, a number or some, and ``eos_token``, texts of tokens.
    Raises:
        As `Tokenizer`; FileAccessError: There is no such file.
        UnsupportedError: A field of the file has no effect.
    """
    return tokenizer_of_text(read_bytes(path).decode("utf-8", "replace"), config)


def tokenizer_of_text(text: str, config: Mapping[str, Any]) -> Tokenizer:
    """Make a tokenizer of the text of a tokenizer.json; `config` and errors as for `tokenizer_of_file`."""
    check_contents(text, _try_contents)
    tokenizer = Tokenizer(text, None, ())
    words = tokenizer.words()
    ends = end_tokens(MetadataFields(config, CONFIG), "eos_token_id", max(words.values(), default=0))
    texts = {words[text] for text in config.get("eos_token", ()) if text in words}
    tokenizer.eos = tuple(sorted({*ends, *texts}))
    return tokenizer


def _try_contents(text: str) -> str:
    """Return the contents of a tokenizer of some contents, after it encoded and decoded something."""
    tokenizer = Tokenizer(text, None, ())
    for probe in _PROBES:
        tokenizer.decode(tokenizer.encode(probe), special=True)
    return str(_call(tokenizer._tokenizer.to_str))


def _call(action: Callable[[], Any]) -> Any:
    """Call the package; its errors, of class Exception alone or panics of Rust's code, are of the file."""
    try:
        return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        got = f"'{str(error)[:200]}'"
        raise FileFormatError("tokenizer.json", got, "a tokenizer", "download it again") from error


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise MissingExtraError.of("tokenizers", "lm", "text of language models") from error
    return tokenizers

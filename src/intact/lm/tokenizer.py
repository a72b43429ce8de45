"""Tokenizers of language models: tokenizer.json, and the vocabularies of GGUF files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError, MissingExtraError, UnsupportedError
from intact.lm.sentencepiece_vocabulary import sentencepiece_tokenizer
from intact.reading import read_bytes

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
_SPLITS = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")}
_DIGITS = ("smollm",)
_PLAIN = ("default", "gpt-2")
_MOST_HOLES = 2**16  # numbers of tokens that may be missing
_CONTROL = 3  # token_type of tokens that are no text


class Tokenizer:
    """Text to tokens and back, by the package tokenizers.

    Args:
        text: The contents of a tokenizer.json.
        bos: The token that begins every text; None: none does.
        eos: Tokens that end a text.

    Attributes:
        bos, eos: As given.

    Raises:
        MissingExtraError: tokenizers is not installed.
        FileFormatError: The text is none.
    """

    def __init__(self, text: str, bos: int | None, eos: Sequence[int]) -> None:
        self.bos, self.eos = bos, tuple(eos)
        self._guidance: Any = None
        package = _package()
        self._tokenizer = _call(lambda: package.Tokenizer.from_str(text))

    def encode(self, text: str, *, bos: bool = True) -> list[int]:
        """Return the tokens of a text; tokens that it names, such as <|im_end|>, count as such.

        Raises:
            FileFormatError: The tokenizer is damaged in a way that shows with this text.
        """
        ids = list(_call(lambda: self._tokenizer.encode(text, add_special_tokens=False)).ids)
        return [self.bos, *ids] if bos and self.bos is not None and ids[:1] != [self.bos] else ids

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens; `special`: with those that are no text."""
        return str(_call(lambda: self._tokenizer.decode(list(tokens), skip_special_tokens=not special)))

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
                    self.to_json(), n_vocab=vocabulary, eos_token=list(self.eos)
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
        return str(_call(self._tokenizer.to_str))


def tokenizer_of_gguf(metadata: Mapping[str, Any], where: str) -> Tokenizer:
    """Make the tokenizer of a GGUF file.

    Raises:
        UnsupportedError: Its kind has no form here.
        FileFormatError: A part is missing.
        MissingExtraError: tokenizers is not installed.
    """
    tokenizers, kind = _package(), metadata.get("tokenizer.ggml.model")
    if kind == "llama":
        tokenizer = sentencepiece_tokenizer(tokenizers, metadata, where)
    else:
        tokenizer = _byte_level(tokenizers, metadata, where)
    words = metadata["tokenizer.ggml.tokens"]
    kinds = metadata.get("tokenizer.ggml.token_type") or ()
    special = [word for word, number in zip(words, kinds, strict=False) if number == _CONTROL]
    tokenizer.add_special_tokens(special)
    begins = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")
    bos = metadata.get("tokenizer.ggml.bos_token_id") if begins else None
    ends = {metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")}
    return Tokenizer(tokenizer.to_str(), bos, sorted(end for end in ends if isinstance(end, int)))


def _byte_level(tokenizers: Any, metadata: Mapping[str, Any], where: str) -> Any:
    """Make the tokenizer of byte-pair vocabularies of GPT-2's kind."""
    kind, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or split not in (*_SPLITS, *_DIGITS, *_PLAIN):
        raise UnsupportedError(
            where, f"a tokenizer of kind {kind!r} ({split!r})",
            "byte-pair encoding of GPT-2's kind, or SentencePiece's", "give the model's tokenizer.json",
        )  # fmt: skip
    words, merges = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.merges")
    if not words or merges is None:
        raise FileFormatError(where, "a tokenizer without tokens or merges", "both", "download it again")
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {word: number for number, word in enumerate(words)}
    pieces = tokenizers.pre_tokenizers
    if split in _SPLITS:
        steps = [
            pieces.Split(tokenizers.Regex(_SPLITS[split]), "isolated"),
            pieces.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    else:
        digits = [pieces.Digits(individual_digits=True)] if split in _DIGITS else []
        steps = [*digits, pieces.ByteLevel(add_prefix_space=False)]
    try:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
    except Exception as error:  # its own class is Exception alone
        got = f"'{str(error)[:200]}'"
        raise FileFormatError(where, got, "merges of its tokens", "download it again") from error
    tokenizer.pre_tokenizer = pieces.Sequence(steps)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def tokenizer_of_file(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Make a tokenizer of a tokenizer.json.

    Args:
        path: The file.
        config: ``eos_token_id``, a number or some, and ``bos_token_id``, as config.json has them.
    Raises:
        As `Tokenizer`; FileAccessError: There is no such file.
    """
    return tokenizer_of_text(read_bytes(path).decode("utf-8", "replace"), config)


def tokenizer_of_text(text: str, config: Mapping[str, Any]) -> Tokenizer:
    """Make a tokenizer of the text of a tokenizer.json; `config` and errors as for `tokenizer_of_file`."""
    ends = config.get("eos_token_id")
    several = ends if isinstance(ends, list) else [ends]
    eos = [end for end in several if isinstance(end, int)]
    begin = config.get("bos_token_id")
    tokenizer = Tokenizer(text, None, eos)
    prefix = _call(lambda: tokenizer._tokenizer.encode("a")).ids[:1]
    if isinstance(begin, int) and prefix == [begin]:
        tokenizer.bos = begin
    return tokenizer


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

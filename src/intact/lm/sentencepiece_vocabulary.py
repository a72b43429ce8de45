"""SentencePiece vocabularies of GGUF files as tokenizers of the package tokenizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from intact.errors import FileFormatError

_NORMAL, _UNKNOWN, _USER_DEFINED = 1, 2, 4
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_LONGEST = 1024
"""Characters of a piece: cutting it at each place takes the square of its length."""


def sentencepiece_tokenizer(tokenizers: Any, metadata: Mapping[str, Any], where: str) -> Any:
    """Make a byte-pair tokenizer with byte fallback of a vocabulary whose pieces have scores.

    SentencePiece joins the two neighbours whose piece has the highest score. So merges are all pairs that
    make a piece, in the order of its score. Behind special tokens a text begins anew, with a space, as in
    llama.cpp.

    Args:
        tokenizers: The package.
        metadata: Of the file: tokens, scores, token_type; where there are merges, they are taken.
        where: The file, for errors.
    Returns:
        A `tokenizers.Tokenizer` without special tokens.
    Raises:
        FileFormatError: A part is missing, or does not fit the others.
    Source: sentencepiece's bpe_model.cc; transformers' convert_slow_tokenizer.py and integrations/ggml.py.
    """
    tokens = _list(metadata, "tokens", str, where)
    kinds = [_NORMAL] * len(tokens)
    if "tokenizer.ggml.token_type" in metadata:
        kinds = _list(metadata, "token_type", int, where)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(kinds) != len(tokens) or len(vocabulary) != len(tokens):
        raise _error(where, f"{len(tokens)} tokens, {len(vocabulary)} of them different, {len(kinds)} types")
    if metadata.get("tokenizer.ggml.merges"):
        pairs = [tuple(merge.split(" ", 1)) for merge in _list(metadata, "merges", str, where)]
    else:
        pairs = _merges(tokens, kinds, _list(metadata, "scores", float, where), where)
    unknown = next((token for token, kind in zip(tokens, kinds, strict=True) if kind == _UNKNOWN), None)
    try:
        model = tokenizers.models.BPE(vocabulary, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        tokenizer = tokenizers.Tokenizer(model)
    except Exception as error:  # its own class is Exception alone
        raise _error(where, f"'{str(error)[:200]}'") from error
    has_prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    normalizers, decoders = tokenizers.normalizers, tokenizers.decoders
    tokenizer.normalizer = normalizers.Sequence(
        [*([normalizers.Prepend(_SPACE)] if has_prefix else []), normalizers.Replace(" ", _SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if has_prefix else []),
        ]
    )  # fmt: skip
    # A prefix would be put before what they match, too.
    defined = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _USER_DEFINED]
    tokenizer.add_tokens([tokenizers.AddedToken(token, normalized=not has_prefix) for token in defined])
    return tokenizer


def _merges(
    tokens: Sequence[str], kinds: Sequence[int], scores: Sequence[float], where: str
) -> list[tuple[str, str]]:
    """Return the pairs of pieces that make a piece, those with the highest score first."""
    if len(scores) != len(tokens):
        raise _error(where, f"{len(scores)} scores for {len(tokens)} tokens")
    scored = {
        token: score for token, kind, score in zip(tokens, kinds, scores, strict=True) if kind == _NORMAL
    }
    if longest := next((token for token in scored if len(token) > _LONGEST), None):
        raise _error(where, f"a token of {len(longest)} characters")
    ordered = sorted(scored, key=lambda token: -scored[token])
    return [pair for piece in ordered for pair in _splits(piece, scored)]


def _splits(piece: str, scored: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    for at in range(1, len(piece)):
        if piece[:at] in scored and piece[at:] in scored:
            yield piece[:at], piece[at:]


def _list(metadata: Mapping[str, Any], key: str, kind: type, where: str) -> list[Any]:
    values = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise _error(where, f"a tokenizer without {key}, or with others than {kind.__name__}")
    return values


def _error(where: str, got: str) -> FileFormatError:
    return FileFormatError(where, got, "tokens with types and scores", "download it again")

"""SentencePiece vocabularies of GGUF files as the contents of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from intact.formats import MetadataFields
from intact.lm.vocabularies.byte_pair_vocabulary import BLANK, blank_decoder, pair_model, read_merges
from intact.lm.vocabularies.gguf_keys import PREFIX, UNKNOWN
from intact.lm.vocabularies.gguf_vocabulary import GgufVocabulary
from intact.lm.vocabularies.piece_encoder import SCORES, has_order_of_merges

_LONGEST = 1024
"""Characters of a piece: cutting it at each place takes the square of its length."""


def sentencepiece_tokenizer(fields: MetadataFields, vocabulary: GgufVocabulary) -> dict[str, Any]:
    """Return normalizer, pre-tokenizer, model and decoder of a vocabulary whose pieces have scores.

    SentencePiece joins the two neighbours whose piece has the highest score. So merges are all pairs that
    make a piece, in the order of its score. Behind special tokens a text begins anew, with a blank. As in
    llama.cpp, which reads no types here, a piece of any type can be made. Merges of the file count where it
    has no scores.

    Raises:
        FileFormatError: A key is missing, or does not fit the tokens.
    Source: sentencepiece's bpe_model.cc; llama.cpp's src/llama-vocab.cpp.
    """
    scores: list[float] | None = None
    if f"{PREFIX}scores" in fields or f"{PREFIX}merges" not in fields:
        scores = _scores(fields, vocabulary)
        merges = _merges_by_score(scores, vocabulary)
    else:
        merges = read_merges(fields, vocabulary)
    kinds = zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    unknown = next((token for token, kind in kinds if kind == UNKNOWN), None)
    has_prefix = fields.flag(f"{PREFIX}add_space_prefix", True)
    escape = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    prefix = [{"type": "Prepend", "prepend": BLANK}] if has_prefix else []
    has_order = scores is None or has_order_of_merges(vocabulary.tokens, scores, vocabulary.numbers)
    return ({} if has_order else {SCORES: scores}) | {
        "normalizer": {"type": "Sequence", "normalizers": [*prefix, escape]}, "pre_tokenizer": None,
        "decoder": blank_decoder(strips_first=has_prefix),
        "model": pair_model(vocabulary, merges, unknown=unknown, falls_back=True),
    }  # fmt: skip


def _scores(fields: MetadataFields, vocabulary: GgufVocabulary) -> list[float]:
    """Return the scores of the tokens."""
    scores, count = fields.items(f"{PREFIX}scores", (float, int)), len(vocabulary.tokens)
    if scores is None or len(scores) != count:
        raise fields.error(f"{PREFIX}scores", f"{count} numbers, one for each token")
    if any(score != score for score in scores):
        raise vocabulary.error("scores", "one that is not a number", "numbers that have an order")
    if longest := next((token for token in vocabulary.tokens if len(token) > _LONGEST), None):
        raise vocabulary.error("tokens", f"one of {len(longest)} characters", f"at most {_LONGEST}")
    return scores


def _merges_by_score(scores: Sequence[float], vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Return the pairs of pieces that make a piece, those with the highest score first."""
    ordered = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [pair for number in ordered for pair in _splits(vocabulary.tokens[number], vocabulary.numbers)]


def _splits(piece: str, numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for cut in range(1, len(piece)):
        if piece[:cut] in numbers and piece[cut:] in numbers:
            yield piece[:cut], piece[cut:]

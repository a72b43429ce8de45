"""Byte-pair vocabularies of GGUF files as the contents of a tokenizer.json."""

from __future__ import annotations

from typing import Any

from intact.formats import MetadataFields
from intact.lm.vocabularies.gguf_keys import PREFIX
from intact.lm.vocabularies.gguf_vocabulary import GgufVocabulary
from intact.lm.vocabularies.pre_tokenizers import PreTokenizer

BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
_WITHOUT_MERGES = "kimi-k2"


def byte_pair_tokenizer(
    fields: MetadataFields, vocabulary: GgufVocabulary, pre: PreTokenizer
) -> dict[str, Any]:
    """Return normalizer, pre-tokenizer, model and decoder of a vocabulary with merges.

    Args:
        fields: Of the GGUF file.
        vocabulary: Its tokens.
        pre: The pre-tokenizer.
    Raises:
        FileFormatError: The merges are missing, or are none of these tokens.
    """
    merges = read_merges(fields, vocabulary)
    splits = [split_isolated(regex) for regex in pre.splits]
    if pre.is_byte_level:
        bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {
            "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, bytes_of]},
            "decoder": bytes_of, "model": pair_model(vocabulary, merges, ignores_merges=pre.ignores_merges),
        }  # fmt: skip
    if pre.joins_newlines:
        splits, merges = _newline_runs(vocabulary, merges)
    return {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": BLANK},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
        "decoder": blank_decoder(strips_first=False),
        "model": pair_model(vocabulary, merges, falls_back=True),
    }  # fmt: skip


def pair_model(
    vocabulary: GgufVocabulary, merges: list[tuple[str, str]], *, unknown: str | None = None,
    ignores_merges: bool = False, falls_back: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return the model of a tokenizer.json that joins pairs.

    Args:
        vocabulary: The tokens.
        merges: Pairs of tokens that make a token, the first ones first.
        unknown: Stands for characters that are no token.
        ignores_merges: A piece that is a token stays whole.
        falls_back: Characters that are no token become tokens of their bytes.
    """
    return {
        "type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": unknown is not None, "byte_fallback": falls_back,
        "ignore_merges": ignores_merges, "vocab": vocabulary.numbers, "merges": merges,
    }  # fmt: skip


def blank_decoder(*, strips_first: bool) -> dict[str, Any]:
    """Return the decoder of tokens that write blanks as U+2581 and bytes as <0x00>."""
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]  # fmt: skip
    if strips_first:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def read_merges(fields: MetadataFields, vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Return the merges; of one that comes twice the first counts.

    Raises:
        FileFormatError: There are none, or some are no pairs of tokens that make a token.
    """
    lines = fields.items(f"{PREFIX}merges", str)
    if lines is None:
        if fields.take(f"{PREFIX}pre") == _WITHOUT_MERGES:
            return []
        raise fields.error(f"{PREFIX}merges", "a list of texts")
    merges: dict[tuple[str, str], None] = {}
    for line in lines:
        head, _, right = line[1:].partition(" ")
        left = line[:1] + head
        if not {left, right, left + right} <= vocabulary.numbers.keys():
            raise vocabulary.error("merges", f"{line!r:.60}", "pairs of tokens that make a token")
        merges.setdefault((left, right))
    return list(merges)


def _newline_runs(
    vocabulary: GgufVocabulary, merges: list[tuple[str, str]]
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return splits and merges with which a whole run of newlines is one token where the vocabulary has it.

    llama.cpp looks such runs up without merges, and cuts others into single newlines.
    """
    runs = sorted((token for token in vocabulary.tokens if not token.strip("\n")), key=len)
    joined = [
        (left, run[len(left) :]) for run in runs for left in runs
        if len(left) < len(run) and run[len(left) :] in vocabulary.numbers
    ]  # fmt: skip
    lengths = "|".join(rf"\n{{{len(run)}}}" for run in reversed(runs))
    regex = rf"[^\n]+|(?<!\n)(?:{lengths})(?!\n)|\n" if runs else r"[^\n]+|\n"
    return [split_isolated(regex)], [*dict.fromkeys([*merges, *joined])]


def split_isolated(regex: str) -> dict[str, Any]:
    """Return the pre-tokenizer that cuts a text around what an expression matches."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}

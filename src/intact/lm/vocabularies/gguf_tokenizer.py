"""Tokenizers of GGUF files: the contents of a tokenizer.json, and the special tokens beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from intact.errors import UnsupportedError
from intact.formats import MetadataFields
from intact.lm.vocabularies import gguf_keys as keys
from intact.lm.vocabularies.byte_pair_vocabulary import byte_pair_tokenizer
from intact.lm.vocabularies.gguf_vocabulary import GgufVocabulary, read_vocabulary
from intact.lm.vocabularies.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from intact.lm.vocabularies.sentencepiece_vocabulary import sentencepiece_tokenizer
from intact.lm.vocabularies.special_tokens import SpecialTokens

_BYTE_PAIRS, _PIECES = ("gpt2", "gemma4"), "llama"


def gguf_tokenizer(fields: MetadataFields) -> tuple[str, SpecialTokens]:
    """Return the contents of a tokenizer.json that gives the tokens of llama.cpp, and the special tokens.

    Args:
        fields: The metadata. Keys of the tokenizer are taken, or listed as harmless.
    Raises:
        UnsupportedError: A kind of vocabulary, or a pre-tokenizer, that is not computed.
        FileFormatError: A key is missing, is of another kind, or does not fit the others.
    """
    vocabulary, pre = _vocabulary(fields)
    if pre is None:
        contents = sentencepiece_tokenizer(fields, vocabulary)
    else:
        contents = byte_pair_tokenizer(fields, vocabulary, pre)
    special = vocabulary.special
    begin = [] if special.begin is None else [(vocabulary.tokens[special.begin], special.begin)]
    appended = [(vocabulary.tokens[number], number) for number in special.appended]
    contents |= {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": vocabulary.whole(),
        "post_processor": template_processing(begin, appended) if begin or appended else None,
    }  # fmt: skip
    return json.dumps(contents, ensure_ascii=False), special


def read_special_tokens(fields: MetadataFields) -> SpecialTokens:
    """Return the special tokens alone; errors as for `gguf_tokenizer`."""
    return _vocabulary(fields)[0].special


def is_known_vocabulary(fields: MetadataFields) -> bool:
    """Return whether a tokenizer can be made of a file: of its kind of vocabulary, and its pre-tokenizer."""
    model, pre = fields.peek(f"{keys.PREFIX}model"), fields.peek(f"{keys.PREFIX}pre")
    is_unknown = isinstance(pre, str) and pre not in ("", *PRE_TOKENIZERS)
    return model == _PIECES or (model in _BYTE_PAIRS and not is_unknown)


def _vocabulary(fields: MetadataFields) -> tuple[GgufVocabulary, PreTokenizer | None]:
    """Return the vocabulary, with the pre-tokenizer of byte pairs."""
    model = fields.text(f"{keys.PREFIX}model")
    if model not in (*_BYTE_PAIRS, _PIECES):
        raise UnsupportedError(
            fields.file, f"{keys.PREFIX}model = {model!r:.60}", ", ".join((*_BYTE_PAIRS, _PIECES)),
            "give the model's tokenizer.json",
        )  # fmt: skip
    fields.harmless({keys.PREFIX + key: reason for key, reason in keys.HARMLESS.items()})
    fields.require(f"{keys.PREFIX}suppress_tokens", ([],), "it names no token")
    if model == _PIECES:
        fields.harmless({f"{keys.PREFIX}pre": "pieces with scores have no pre-tokenizer"})
        return read_vocabulary(fields, model, adds_begin=True), None
    pre = _pre_tokenizer(fields, model)
    return read_vocabulary(fields, "gpt2", pre.adds_begin, forces_begin=pre.forces_begin), pre


def _pre_tokenizer(fields: MetadataFields, model: str) -> PreTokenizer:
    """Return the pre-tokenizer that the file names."""
    key = f"{keys.PREFIX}pre"
    name = "gemma4" if model == "gemma4" else fields.text(key, "default") or "default"
    if name not in PRE_TOKENIZERS:
        raise UnsupportedError(
            fields.file, f"{key} = {name!r:.60}", f"one of {len(PRE_TOKENIZERS)} that llama.cpp names",
            "give the model's tokenizer.json",
        )  # fmt: skip
    return PRE_TOKENIZERS[name]


def template_processing(
    begin: Sequence[tuple[str, int]], appended: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """Return the post-processor of a tokenizer.json that puts tokens around each text.

    Args:
        begin, appended: Texts and numbers of the tokens in front and behind.
    """

    def around(name: str, kind: int) -> list[dict[str, Any]]:
        sequence = {"Sequence": {"id": name, "type_id": kind}}
        front, back = (
            [{"SpecialToken": {"id": text, "type_id": kind}} for text, _ in tokens]
            for tokens in (begin, appended)
        )
        return [*front, sequence, *back]

    return {
        "type": "TemplateProcessing", "single": around("A", 0), "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            text: {"id": text, "ids": [number], "tokens": [text]} for text, number in [*begin, *appended]
        },
    }  # fmt: skip

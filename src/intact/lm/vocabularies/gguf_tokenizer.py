"""Tokenizers of GGUF files: the contents of a tokenizer.json, and the special tokens beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from intact.errors import UnsupportedError
from intact.formats.metadata_fields import MetadataFields
from intact.lm.vocabularies import gguf_keys as keys
from intact.lm.vocabularies.byte_pair_vocabulary import byte_pair_tokenizer
from intact.lm.vocabularies.gguf_vocabulary import read_vocabulary
from intact.lm.vocabularies.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from intact.lm.vocabularies.sentencepiece_vocabulary import sentencepiece_tokenizer
from intact.lm.vocabularies.special_tokens import SpecialTokens, template_processing

_BYTE_PAIRS, _PIECES = ("gpt2", "gemma4"), "llama"


def gguf_tokenizer(fields: MetadataFields) -> tuple[str, SpecialTokens]:
    """Return the contents of a tokenizer.json that gives the tokens of llama.cpp, and the special tokens.

    Args:
        fields: The metadata. Keys of the tokenizer are taken, or listed as harmless.
    Raises:
        UnsupportedError: A kind of vocabulary, or a pre-tokenizer, that is not computed.
        FileFormatError: A key is missing, is of another kind, or does not fit the others.
    """
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
        vocabulary = read_vocabulary(fields, model, adds_begin=True)
        contents = sentencepiece_tokenizer(fields, vocabulary)
        fields.harmless({f"{keys.PREFIX}merges": "the scores say the order"})
    else:
        pre = _pre_tokenizer(fields, model)
        vocabulary = read_vocabulary(fields, "gpt2", pre.adds_begin, forces_begin=pre.forces_begin)
        contents = byte_pair_tokenizer(fields, vocabulary, pre)
        fields.harmless(
            {
                f"{keys.PREFIX}scores": "the merges say the order",
                f"{keys.PREFIX}add_space_prefix": "only pieces with scores have a prefix",
            }
        )
    special = vocabulary.special
    begin = [] if special.begin is None else [(vocabulary.tokens[special.begin], special.begin)]
    appended = [(vocabulary.tokens[number], number) for number in special.appended]
    contents |= {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": vocabulary.whole(),
        "post_processor": template_processing(begin, appended) if begin or appended else None,
    }  # fmt: skip
    return json.dumps(contents, ensure_ascii=False), special


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


def refuse_unread_keys(fields: MetadataFields, metadata: Mapping[str, Any]) -> None:
    """Refuse keys of a tokenizer that nobody took.

    Raises:
        UnsupportedError: There are some; it names the first one.
    """
    taken = {use.key for use in fields.uses()}
    for key in metadata:
        if key.startswith(keys.PREFIX) and key not in taken:
            fields.refuse(key, "a key that llama.cpp reads")

"""Vocabularies of GGUF files give the tokens of llama.cpp, begin and end as there, and are refused by key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.lm.hard_strings import HARD_STRINGS, piece_metadata
from tests.lm.make_token_cases import CASES, digest, metadata_of

from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.lm.tokenizer import Tokenizer, tokenizer_of_gguf
from intact.lm.vocabularies.token_bytes import byte_letters

pytest.importorskip("tokenizers")
EXPECTED = {
    name: row.split() for record in json.loads(CASES.read_text()) for names, row in record.items()
    for name in names.split()
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_tokens_of_hard_strings_are_those_of_llama_cpp(name):
    tokenizer = tokenizer_of_gguf(metadata_of(name), "file")
    ends, *expected = EXPECTED[name]
    assert digest(tokenizer.eos) == ends
    digests = [digest(tokenizer.encode(text)) for text in HARD_STRINGS]
    assert [text for text, a, b in zip(HARD_STRINGS, digests, expected, strict=True) if a != b] == []


@pytest.mark.parametrize("ties", [1, 10])
def test_a_saved_vocabulary_gives_the_same_tokens(ties):
    tokenizer = tokenizer_of_gguf(piece_metadata(ties=ties), "file")
    saved = Tokenizer(tokenizer.to_json(), tokenizer.bos, tokenizer.eos)
    assert [saved.encode(text) for text in HARD_STRINGS] == [tokenizer.encode(text) for text in HARD_STRINGS]


def vocabulary(*special: tuple[str, int], pre: str = "gpt-2", **fields: Any) -> dict[str, Any]:
    """Return the metadata of a vocabulary of bytes and special tokens with their types."""
    tokens = [*byte_letters(), *(text for text, _ in special)]
    metadata = {
        "model": "gpt2", "pre": pre, "tokens": tokens, "merges": [],
        "token_type": [1] * 256 + [kind for _, kind in special], **fields,
    }  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}


def ends_of(*special: tuple[str, int], **fields: Any) -> list[str]:
    """Return the texts of the tokens that end an answer."""
    metadata = vocabulary(*special, **fields)
    return [metadata["tokenizer.ggml.tokens"][token] for token in tokenizer_of_gguf(metadata, "file").eos]


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "default", None])
def test_user_defined_and_control_tokens_stay_whole(pre):
    metadata = vocabulary(("<|im_start|>", 3), ("<think>", 4), ("<odd>", 2), ("plain", 1), pre=pre)
    tokenizer = tokenizer_of_gguf(metadata, "file")
    for token, text in enumerate(("<|im_start|>", "<think>", "<odd>"), 256):
        assert tokenizer.encode(f"a{text}b", bos=False)[1:-1] == [token]
    assert tokenizer.decode([256, 257]) == "<think>"


@pytest.mark.parametrize(
    ("pre", "adds", "begins"),
    [
        ("llama-bpe", None, True), ("llama-bpe", False, False), ("tekken", None, True),
        ("qwen2", None, False), ("qwen2", True, True), ("gpt-2", None, False), ("chameleon", None, True),
    ],
)  # fmt: skip
def test_texts_begin_as_in_llama_cpp(pre, adds, begins):
    metadata = vocabulary(
        ("<s>", 3), ("<e>", 3), pre=pre, add_bos_token=adds, bos_token_id=256, eos_token_id=257
    )
    tokenizer = tokenizer_of_gguf(metadata, "file")
    assert (tokenizer.encode("a")[0] == 256, tokenizer.bos == 256) == (begins, begins)
    appending = tokenizer_of_gguf(metadata | {"tokenizer.ggml.add_eos_token": True}, "file")
    assert (appending.encode("a")[-1], appending.appended) == (257, (257,))


def test_a_conversation_begins_once():
    tokenizer = tokenizer_of_gguf(vocabulary(("<s>", 3), pre="llama3", bos_token_id=256), "file")
    both = [tokenizer.encode_chat(text, adds_begin=True) for text in ("<s>a", "a")]
    assert both == [tokenizer.encode("a")] * 2
    assert tokenizer.encode_chat("a", adds_begin=False) == tokenizer.encode("a", bos=False)
    assert tokenizer.encode("<s>a")[:2] == [256, 256]  # a plain text is taken as it is


def test_answers_end_at_named_tokens_and_usual_texts():
    assert ends_of(("<e>", 3), ("<x>", 3), eos_token_id=256, eom_token_id=257) == ["<e>", "<x>"]
    assert ends_of(("<|im_end|>", 1), ("<|eom_id|>", 3), ("<z>", 3)) == ["<|im_end|>", "<|eom_id|>"]
    assert ends_of(("<|fim_pad|>", 3), ("<|file_sep|>", 4), ("<|fim_prefix|>", 3)) == [
        "<|fim_pad|>", "<|file_sep|>",
    ]  # fmt: skip
    assert ends_of(("<|return|>", 3), ("<|call|>", 3), ("<|end|>", 3)) == ["<|return|>", "<|call|>"]
    assert ends_of(("</s>", 3), ("<|tool_response>", 3)) == ["<|tool_response>"]


WRONG = {"number": 5, "float": 0.5, "text": "x", "flag": True, "none": [], "numbers": [1, 2]}
FITS = {
    ("model", "text"), ("pre", "text"), ("add_bos_token", "flag"), ("add_eos_token", "flag"),
    ("merges", "none"),
    *((f"{name}_token_id", "number") for name in ("bos", "eos", "eot", "eom", "fim_pad")),
}  # fmt: skip
KEYS = (
    "model", "pre", "tokens", "merges", "token_type", "bos_token_id", "eos_token_id", "eot_token_id",
    "eom_token_id", "fim_pad_token_id", "add_bos_token", "add_eos_token",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_metadata_of_the_wrong_kind_are_refused_by_key(key):
    for kind, value in WRONG.items():
        if (key, kind) not in FITS:
            with pytest.raises(IntactError, match=rf"tokenizer\.ggml\.{key}"):
                tokenizer_of_gguf(vocabulary(("<s>", 3), **{key: value}), "file")


@pytest.mark.parametrize("number", [-1, 257, 2**32 - 1, 2**40])
def test_numbers_beyond_the_vocabulary_are_refused_by_key(number):
    with pytest.raises(FileFormatError, match="bos_token_id"):
        tokenizer_of_gguf(vocabulary(("<s>", 3), bos_token_id=number), "file")


@pytest.mark.parametrize("fields", [{"pre": "newer"}, {"model": "rwkv"}, {"suppress_tokens": [1]}])
def test_other_kinds_are_refused_by_name(fields):
    with pytest.raises(UnsupportedError, match=next(iter(fields))):
        tokenizer_of_gguf(vocabulary(**fields), "file")


@pytest.mark.parametrize(
    "fields",
    [
        {"merges": ["a"]}, {"merges": ["a zz"]}, {"merges": None}, {"add_bos_token": True},
        {"tokens": [*byte_letters(), "!"]}, {"token_type": [7] * 257}, {"token_type": [-1] * 257},
    ],
)  # fmt: skip
def test_keys_that_do_not_fit_each_other_are_errors(fields):
    with pytest.raises(FileFormatError):
        tokenizer_of_gguf(vocabulary(("<e>", 3), **fields), "file")


def test_the_first_of_equal_merges_counts():
    tokens = [*byte_letters(), "ab", "bc"]
    metadata = vocabulary(tokens=tokens, token_type=None, merges=["a b", "b c", "a b"])
    assert tokenizer_of_gguf(metadata, "file").encode("abc") == [256, tokens.index("c")]


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(QuantValueError, match="surrogate"):
        tokenizer_of_gguf(vocabulary(), "file").encode("a\ud800b")


def test_a_text_behind_others_keeps_its_first_blank():
    metadata = piece_metadata()
    tokens = metadata["tokenizer.ggml.tokens"]
    tokenizer = tokenizer_of_gguf(metadata, "file")
    blank = next(at for at, token in enumerate(tokens) if len(token) > 1 and token.startswith("\u2581"))
    text = tokens[blank].replace("\u2581", " ")
    assert (tokenizer.decode([blank]), tokenizer.decode_behind([blank])) == (text[1:], text)
    assert tokenizer.token_bytes(blank) == text.encode()
    assert tokenizer.token_bytes(3 + 0xE2) == b"\xe2"

"""SentencePiece vocabularies of GGUF files give the tokens of SentencePiece's own algorithm.

`sentencepiece_tokens` is that algorithm in a few lines. The package sentencepiece gave the same tokens, too
(BPE models of 1,000 and 4,000 pieces, 1,510 texts of WikiText-2), except behind pieces that users define.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from intact.errors import FileFormatError, UnsupportedError
from intact.lm.tokenizer import tokenizer_of_gguf

pytest.importorskip("tokenizers")
SPACE, LETTERS = "\N{LOWER ONE EIGHTH BLOCK}", "abcde"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def metadata_of(pieces: list[tuple[str, int]], **fields: Any) -> dict[str, Any]:
    """Return the metadata of pieces with their types; the score falls from piece to piece."""
    tokens, kinds = zip(*pieces, strict=True)
    fields = {
        "model": "llama", "tokens": list(tokens), "token_type": list(kinds),
        "scores": [-float(at) for at in range(len(tokens))], "bos_token_id": 1, "eos_token_id": 2, **fields,
    }  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}


def pieces_of(rng: random.Random) -> list[tuple[str, int]]:
    """Draw a vocabulary: merges join pieces that are there, in the order of their scores."""
    pieces = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    pieces += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    alphabet = [SPACE, *LETTERS]
    joined: list[str] = []
    while len(joined) < 60:
        piece = rng.choice(alphabet + joined) + rng.choice(alphabet + joined)
        if len(piece) <= 8 and piece not in joined:
            joined.append(piece)
    return pieces + [(piece, NORMAL) for piece in joined + alphabet]


def sentencepiece_tokens(text: str, metadata: dict[str, Any]) -> list[int]:
    """Join the leftmost of the neighbours whose piece has the highest score, as long as there are any."""
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    ids = {token: at for at, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind == NORMAL}
    symbols = list((" " + text if text else text).replace(" ", SPACE))
    while True:
        ranks = [ids.get(a + b, len(tokens)) for a, b in pairwise(symbols)]
        if not ranks or min(ranks) == len(tokens):
            break
        at = ranks.index(min(ranks))
        symbols[at : at + 2] = ["".join(symbols[at : at + 2])]
    result: list[int] = []
    for symbol in symbols:
        fallback = [tokens.index(f"<0x{byte:02X}>") for byte in symbol.encode()]
        result += [ids[symbol]] if symbol in ids else fallback
    return result


@pytest.mark.parametrize("seed", range(5))
def test_tokens_are_those_of_sentencepiece(seed):
    rng = random.Random(seed)
    metadata = metadata_of(pieces_of(rng))
    tokenizer = tokenizer_of_gguf(metadata, "file")
    texts = ["".join(rng.choices(LETTERS + " ", k=rng.randint(1, 60))) for _ in range(100)]
    for text in [*texts, "", " ", "a\nb", "é ☃ x", "<0x0A>", "<unk>", "\U0001f600"]:
        tokens = tokenizer.encode(text)
        if "<unk>" not in text:
            assert tokens == [1, *sentencepiece_tokens(text, metadata)], text
            assert tokenizer.decode(tokens) == text


def test_pieces_of_any_type_are_joined_as_in_llama_cpp():
    pieces = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), ("<0x61>", BYTE)]
    pieces += [(piece, NORMAL) for piece in (SPACE, "<", "0", "x", "6", "1", ">", "<0", "x6", "1>", "<0x6")]
    tokenizer = tokenizer_of_gguf(metadata_of(pieces), "file")
    tokens = tokenizer.encode("<0x61>", bos=False)
    assert [pieces[token][0] for token in tokens] == [SPACE, "<0x61>"]


def test_flags_of_the_file_are_obeyed():
    pieces = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    pieces += [(piece, NORMAL) for piece in (SPACE, "a", "b", f"{SPACE}a")] + [("<mask>", USER_DEFINED)]
    plain = tokenizer_of_gguf(metadata_of(pieces, add_space_prefix=False, add_bos_token=False), "file")
    assert plain.encode("a a<mask>b") == [4, 6, 7, 5]
    assert plain.decode([4, 6]) == "a a"
    prefixed = tokenizer_of_gguf(metadata_of(pieces), "file")
    assert (prefixed.encode("a"), prefixed.eos) == ([1, 6], (2,))
    with_merges = metadata_of(pieces, merges=[f"{SPACE} a"], scores=None)
    assert tokenizer_of_gguf(with_merges, "file").encode("a") == [1, 6]


@pytest.mark.parametrize(
    "fields",
    [
        {"scores": None}, {"scores": [0.0]}, {"tokens": None}, {"tokens": []}, {"token_type": [1]},
        {"tokens": ["<unk>", "a", "a"]}, {"merges": ["a nothing"], "scores": None},
        {"tokens": ["<unk>", "a", "b" * 2000]},
        {"tokens": "abc"}, {"tokens": [1, 2, 3]},
        {"scores": ["x", "y", "z"]}, {"merges": ["a"], "scores": None},
    ],
)  # fmt: skip
def test_damaged_vocabularies_are_errors(fields):
    pieces = [("<unk>", UNKNOWN), ("a", NORMAL), ("b", NORMAL)]
    with pytest.raises(FileFormatError):
        tokenizer_of_gguf(metadata_of(pieces, **fields), "file")


def test_another_kind_is_refused():
    with pytest.raises(UnsupportedError, match="t5"):
        tokenizer_of_gguf(metadata_of([("a", NORMAL)], model="t5"), "file")

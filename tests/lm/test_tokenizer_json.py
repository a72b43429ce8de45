"""Each leaf of a tokenizer.json is used as the package tokenizers uses it, or refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from intact.errors import FileFormatError, IntactError, UnsupportedError
from intact.lm.tokenizer import Tokenizer, tokenizer_of_text
from intact.lm.vocabularies.token_bytes import byte_letters

tokenizers = pytest.importorskip("tokenizers")
REFUSED = 50
"""Legal changes of a kind that are refused: lots, numbers that contradict others."""
TEXTS = ("Hello  wor1d\n\u00e9\u00c9 <s>x</s> ", " hello hello", "", "<m> a <m>b", "\u2581a \U0001f600")
BLANK = "\u2581"
WORDS = ["hello", "Hello", "wor", "ld", "d", "x", "a", "b", BLANK, f"{BLANK}a", f"{BLANK}hello"]


def added(number: int, content: str, **flags: bool) -> dict[str, Any]:
    """Return an added token."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **plain, **flags}


def around(begin: str, end: str) -> dict[str, Any]:
    """Return a post-processor with a token in front and one behind."""

    def piece(text: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": text, "type_id": 0}}

    single = [piece(begin), {"Sequence": {"id": "A", "type_id": 0}}, piece(end)]
    special = {text: {"id": text, "ids": [at], "tokens": [text]} for at, text in enumerate((begin, end))}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def contents(model: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return the contents of a file."""
    tokens = [added(0, "<s>"), added(1, "</s>"), added(2, "<m>", special=False, normalized=True)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None,
        "pre_tokenizer": None, "post_processor": around("<s>", "</s>"), "decoder": None, **parts,
        "model": model,
    }  # fmt: skip


def kinds() -> dict[str, dict[str, Any]]:
    """Return one file of each kind."""
    special = ["<s>", "</s>", "<m>"]
    pairs = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False}  # fmt: skip
    letters = [*special, *byte_letters(), "he", "lo", "\u0120h", "\u0120he"]
    merges = [["h", "e"], ["l", "o"], ["\u0120", "h"], ["\u0120h", "e"]]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": r"\s+|\p{N}"}, "behavior": "Isolated", "invert": False}
    pieces = [
        *special,
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *"hHelowrd1xab",
        BLANK,
        "he",
        f"{BLANK}a",
    ]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    words = [*special, "[UNK]", "hello", "wor", "##1", "##d", "x", "a", "b", "e", "##e"]
    return {
        "byte-level": contents(
            {**pairs, "vocab": {t: i for i, t in enumerate(letters)}, "merges": merges},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]}, decoder=level,
            normalizer={"type": "NFC"},
        ),
        "byte-fallback": contents(
            {**pairs, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
             "vocab": {t: i for i, t in enumerate(pieces)}, "merges": [["h", "e"], [BLANK, "a"]]},
            normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": BLANK}, replace]},
            decoder={"type": "Sequence", "decoders": [
                {**replace, "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, strip,
            ]},
        ),
        "word-piece": contents(
            {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(words)}},
            normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                        "strip_accents": None, "lowercase": True},
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        ),
        "unigram": contents(
            {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
             "vocab": [[text, -1.0 - at / 8] for at, text in enumerate([*special, "<unk>", *WORDS])]},
            pre_tokenizer={"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always",
                           "split": True},
            decoder={"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": True},
        ),
    }  # fmt: skip


KINDS = kinds()
CHOICES = {
    "behavior": ("Removed", "MergedWithPrevious", "Contiguous"), "prepend_scheme": ("never", "first"),
    "type": ("NFKC", "Lowercase", "Whitespace", "nothing"),
    "strip_accents": (True,), "dropout": (0.0, 0.5, 2),
    "unk_token": ("<m>", "none"), "continuing_subword_prefix": ("@",), "end_of_word_suffix": ("</w>",),
    "unk_id": (0, 10**6, None), "replacement": ("_", "ab"),
}  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the paths of leaves with their values; of vocabularies and merges the first few."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        yield path, value
        return
    for key, each in list(inner)[: 4 if path[-1:] in (("vocab",), ("merges",)) else None]:
        yield from leaves(each, (*path, key))


def others(path: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return other values for a leaf."""
    if path[-1] in CHOICES:
        return CHOICES[path[-1]]
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1, 0, -1, 2**40)
    return ("x", "") if isinstance(value, str) else ("x", True)


def changes(kind: str) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the paths of leaves with another value for each."""
    for path, value in leaves(KINDS[kind]):
        if path[0] not in ("version", "truncation", "padding"):
            yield from ((path, other) for other in others(path, value))


def change_leaf(kind: str, path: tuple[Any, ...], value: Any) -> str:
    """Return a file with another value at a path."""
    record = json.loads(json.dumps(KINDS[kind]))
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(record)


def tokens_of(tokenizer: Any, text: str, *, special: bool) -> Any:
    """Return the tokens of a text by the package; None where it fails."""
    try:
        return tokenizer.encode(text, add_special_tokens=special).ids
    except BaseException:  # panics, too
        return None


def fault(kind: str, path: tuple[Any, ...], value: Any) -> str:
    """Return what is wrong with a file with another value at a path: nothing, or "refused"."""
    text = change_leaf(kind, path, value)
    try:
        ours = tokenizer_of_text(text, {})
    except IntactError as error:
        return (
            "refused" if any(str(key) in str(error) for key in (path[0], path[-1])) else f"no name: {error}"
        )
    theirs = tokenizers.Tokenizer.from_str(text)
    for each in TEXTS:
        expected = tokens_of(theirs, each, special=True)
        try:
            tokens = ours.encode(each)
        except FileFormatError:
            tokens = None
        if tokens != expected:
            return f"{each!r}: {tokens} for {expected}"
        if tokens is not None and text_of(ours, tokens) != text_of(theirs, tokens):
            return f"{tokens}: {text_of(ours, tokens)!r}"
    return ""


def text_of(tokenizer: Any, tokens: list[int]) -> str | None:
    """Return the text of tokens; None where the package fails."""
    try:
        return str(tokenizer.decode(tokens))
    except BaseException:  # panics, too
        return None


def is_read(text: str) -> bool:
    """Return whether the package reads a file."""
    try:
        tokenizers.Tokenizer.from_str(text)
    except BaseException:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_each_leaf_is_used_as_tokenizers_uses_it_or_refused(kind):
    faults = {(path, repr(value)): fault(kind, path, value) for path, value in changes(kind)}
    assert {case: text for case, text in faults.items() if text not in ("", "refused")} == {}
    refused = [
        (path, value) for path, value in changes(kind)
        if faults[path, repr(value)] == "refused" and is_read(change_leaf(kind, path, value))
    ]  # fmt: skip
    assert len(refused) <= REFUSED, refused  # the other way round: what is legal is read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [(), ("model",), ("added_tokens", 0), ("decoder",), ("pre_tokenizer",)])
def test_fields_without_effect_are_refused_by_name(kind, part):
    if part and not KINDS[kind][part[0]]:
        pytest.skip("the file has no such part")
    with pytest.raises(IntactError, match=part[0] if part else "strange"):
        tokenizer_of_text(change_leaf(kind, (*part, "strange"), 1), {})


PADDING = {"strategy": {"Fixed": 2**33}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
           "pad_type_id": 0, "pad_token": "<s>"}  # fmt: skip
TRUNCATION = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_truncation_and_padding_are_switched_off(kind):
    plain = Tokenizer(json.dumps(KINDS[kind]), None, ())
    stored = json.dumps({**KINDS[kind], "padding": PADDING, "truncation": TRUNCATION})
    for tokenizer in (Tokenizer(stored, None, ()), tokenizer_of_text(stored, {})):
        assert [tokenizer.encode(text) for text in TEXTS] == [plain.encode(text) for text in TEXTS]
        assert tokenizer.switched_off == ("truncation", "padding")
        assert json.loads(tokenizer.to_json())["padding"] is None
    assert plain.switched_off == ()


def test_hostile_values_do_not_end_the_process():
    values = [
        {"padding": {**PADDING, "pad_to_multiple_of": 2**62}},
        {"truncation": {**TRUNCATION, "stride": 2**62}},
        {"truncation": {**TRUNCATION, "max_length": 2**63}}, {"padding": {**PADDING, "pad_id": -1}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"decoder": {"type": "Strip", "content": " ", "start": 2**62, "stop": 2**62}},
        {"added_tokens": [added(2**32 - 1, "<huge>")]}, {"added_tokens": [added(2**70, "<huge>")]},
        {"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 2**32 - 1}}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a*)*$"}, "behavior": "Isolated",
                           "invert": False}},
        {"post_processor": {**around("<s>", "</s>"), "special_tokens": {}}},
    ]  # fmt: skip
    code = (
        "import json, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)\n"
        "from intact.errors import IntactError\n"
        "from intact.lm.tokenizer import Tokenizer, tokenizer_of_text\n"
        "for text in json.load(sys.stdin):\n"
        "    for make in (lambda: tokenizer_of_text(text, {}), lambda: Tokenizer(text, None, ())):\n"
        "        try: made = make(); made.decode(made.encode('aaaaaaaaaaaaaaaaaaaa b')); made.to_json()\n"
        "        except IntactError: pass\n"
        "print('alive')\n"
    )
    texts = [json.dumps({**KINDS["byte-level"], **value}) for value in values]
    run = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True, timeout=600
    )
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr[-500:]


def test_end_tokens_of_another_kind_are_refused_by_name():
    text = json.dumps(KINDS["byte-level"])
    assert tokenizer_of_text(text, {"eos_token_id": [1, 2], "eos_token": ("<s>",)}).eos == (0, 1, 2)
    for value in ("x", -1, 10**6, 0.5, [10**6], [True], {"a": 1}):
        with pytest.raises(IntactError, match="eos_token_id"):
            tokenizer_of_text(text, {"eos_token_id": value})


def test_a_dropout_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"model\.dropout"):
        tokenizer_of_text(change_leaf("byte-level", ("model", "dropout"), 0.1), {})

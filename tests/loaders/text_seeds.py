"""Good files beside the weights of language models, and others out of them, for `seeds`."""

from __future__ import annotations

import json
import random

from tests.lm.small_decoders import byte_tokenizer, families
from tests.loaders import mutate

JINJA = (
    "{% for m in messages %}", "{% endfor %}", "{{ m.content }}", "{{ m['role'] | trim }}", "{%", "}}", "{#",
    "{% if loop.first %}", "{% endif %}", "{{ 'a' * 9999999 }}", "{{ raise_exception('no') }}",
    "{% set ns = namespace(x=[]) %}", "{{ messages | tojson }}", "{{ range(10**8) | list }}",
    "{{ ''.__class__.__mro__ }}", "{% include 'x' %}", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{{ messages[9].content }}", "{{ 1 / 0 }}", "{{ x.y.z }}", "{% break %}", "{{ '%1000000000s' % 'a' }}",
    "{{ 'a' | center(10**11) }}", "{{ 2 ** 999999999 }}", "{{ m.content.split(' ')[-1] }}", "\x00",
)  # fmt: skip
"""Pieces that are put into templates."""

_TEMPLATES = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}\n"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}\n{% set ns = namespace(system='') %}\n{% for m in messages %}\n"
    "{% if m.role == 'system' %}{% set ns.system = m.content %}{% elif m.role == 'user' %}\n"
    "[INST] {{ ns.system }} {{ m.content }} [/INST]\n{% else %}{{ raise_exception('roles') }}{% endif %}\n"
    "{% endfor %}",
    "{% macro show(m) %}{{ m | tojson(indent=2) }}{% endmacro %}\n"
    "{% if tools %}{{ tools | tojson }}{% endif %}\n"
    "{% for m in messages[1:] if m.content is string %}{{ loop.index }}{{ show(m) }}{% endfor %}",
)


def tokenizers() -> list[bytes]:
    """Return tokenizers of bytes, of SentencePiece's kind, and of words."""
    package = __import__("tokenizers")
    merged = json.loads(byte_tokenizer("xy").to_str())
    merged["model"]["vocab"]["ab"] = len(merged["model"]["vocab"])
    merged["model"]["merges"] = [["a", "b"]]
    merged["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}
    merged["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {},
    }  # fmt: skip
    pieces = {f"\N{LOWER ONE EIGHTH BLOCK}{letter}": number for number, letter in enumerate("abcd", 4)}
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "\N{LOWER ONE EIGHTH BLOCK}": 3, **pieces}
    plain = package.Tokenizer(package.models.BPE(words, [], unk_token="<unk>", byte_fallback=True))
    plain.normalizer = package.normalizers.Replace(" ", "\N{LOWER ONE EIGHTH BLOCK}")
    plain.decoder = package.decoders.Sequence([package.decoders.ByteFallback(), package.decoders.Fuse()])
    unigram = package.Tokenizer(package.models.Unigram([("<unk>", 0.0), ("a", -1.0), ("ab", -1.5)], 0))
    split = package.Tokenizer(package.models.WordLevel({"a": 0, "<unk>": 1}, "<unk>"))
    split.pre_tokenizer = package.pre_tokenizers.Split(package.Regex(r"\s+|\p{L}{1,3}"), "isolated")
    return [text.to_str().encode() for text in (byte_tokenizer(), plain, unigram, split)] + [
        json.dumps(merged).encode()
    ]


def decoders() -> list[bytes]:
    """Return the JSON files of a folder of each family."""
    chat = {"chat_template": _TEMPLATES[0], "bos_token": "<s>"}
    scaled = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "eos_token_id": [1, 2]}
    return [
        json.dumps({
            "family": family, "config.json": record["config"] | (scaled if family == "llama" else {}),
            "tokenizer_config.json": chat, "quantize_config.json": {},
        }).encode()
        for family, record in families().items()
    ]  # fmt: skip


def templates() -> list[bytes]:
    """Return chat templates."""
    return [text.encode() for text in _TEMPLATES]


def saved_models() -> list[bytes]:
    """Return the settings of a saved model."""
    settings = {"family": "llama", "weights": "int4", "block": 16}
    return [
        json.dumps({
            "version": 1, "positions": 128, "template": _TEMPLATES[0], "bos": None, "eos": [1],
            "settings": settings,
        }).encode()
    ]  # fmt: skip


def change_json(dice: random.Random, data: bytes) -> bytes:
    """Values of a JSON file, or bytes."""
    if dice.random() < 0.1:
        return mutate.data(dice, data)
    content = json.loads(data)
    mutate.json_value(dice, content)
    return json.dumps(content).encode()

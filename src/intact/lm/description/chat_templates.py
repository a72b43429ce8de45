"""Finds chat templates and the texts of special tokens in the files of a model, as transformers does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intact.errors import FileFormatError, UnsupportedError
from intact.formats import MetadataFields
from intact.lm.chat.chat_templates import SPECIAL_TOKENS, ChatTemplates
from intact.lm.description.model_files import ModelFiles

TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP = "tokenizer_config.json", "special_tokens_map.json"
TEMPLATE, MORE_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
_PROCESSORS = ("processor_config.json", "chat_template.json")
_KEY = "chat_template"

_END_OF_TEXT = "<|endoftext|>"
_CLASS_TOKENS = {
    "Qwen2Tokenizer": {"unk_token": _END_OF_TEXT, "eos_token": _END_OF_TEXT, "pad_token": _END_OF_TEXT},
    "GPT2Tokenizer": {"unk_token": _END_OF_TEXT, "bos_token": _END_OF_TEXT, "eos_token": _END_OF_TEXT},
    "GemmaTokenizer": {
        "unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
        "mask_token": "<mask>",
    },
    "GPTNeoXTokenizer": {
        "unk_token": _END_OF_TEXT, "bos_token": _END_OF_TEXT, "eos_token": _END_OF_TEXT,
        "pad_token": "<|padding|>",
    },
    "CohereTokenizer": {
        "unk_token": "<UNK>", "bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>",
        "pad_token": "<PAD>", "cls_token": "<CLS>", "sep_token": "<SEP>", "mask_token": "<MASK_TOKEN>",
    },
    "CodeLlamaTokenizer": {
        "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "prefix_token": "▁<PRE>",
        "middle_token": "▁<MID>", "suffix_token": "▁<SUF>", "eot_token": "▁<EOT>",
        "fill_token": "<FILL_ME>",
    },
}  # fmt: skip
"""Special tokens of transformers' classes that no file needs to name."""

_USUAL_CLASSES = {
    "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer", "gpt2": "GPT2Tokenizer",
    "starcoder2": "GPT2Tokenizer", "gemma": "GemmaTokenizer", "gemma2": "GemmaTokenizer",
    "gemma3": "GemmaTokenizer", "gemma3_text": "GemmaTokenizer", "phi": "GPT2Tokenizer",
    "opt": "GPT2Tokenizer", "gptj": "GPT2Tokenizer", "gpt_neox": "GPTNeoXTokenizer",
    "cohere": "CohereTokenizer",
}  # fmt: skip
"""Classes that transformers 5.24 takes for families where no file names one."""

_FIXED_CLASSES = {"qwen2": "Qwen2Tokenizer", "mistral": "", "phi3": "", "granite": "", "glm": "", "olmo2": ""}
"""Classes that it takes whatever a file names; "": one without special tokens of its own."""

_GGUF_IDS = {
    "bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "sep_token": "seperator",
    "pad_token": "padding", "cls_token": "cls", "mask_token": "mask",
}  # fmt: skip
_SENTENCEPIECE_IDS = {"bos_token": 1, "eos_token": 2, "unk_token": 0}
"""Tokens of a GGUF file with a vocabulary of SentencePiece that names none, as llama.cpp has it."""


def folder_chat_templates(sources: ModelFiles, family: str) -> ChatTemplates:
    """Return the templates of a Hugging Face folder.

    Args:
        sources: Its files.
        family: ``model_type`` of its config.json.
    Raises:
        FileFormatError: A file holds something else than templates, or texts of tokens.
    """
    config, files = sources.peek_object(TOKENIZER_CONFIG), dict[str, str]()
    if (text := sources.text(TEMPLATE)) is not None:
        files["default"] = text
    for name in sources.names(MORE_TEMPLATES, "*.jinja"):
        if (text := sources.text(f"{MORE_TEMPLATES}/{name}")) is not None:
            files[name.removesuffix(".jinja")] = text
    places = [(f"{TEMPLATE} or {MORE_TEMPLATES}" if "default" not in files else TEMPLATE, files)]
    named = (TOKENIZER_CONFIG, *_PROCESSORS)
    places += [
        (f"{name}: {_KEY}", _templates_by_name(sources.peek_object(name).get(_KEY), f"{name}: {_KEY}"))
        for name in named
    ]
    full = [(origin, templates) for origin, templates in places if templates]
    chosen = full[0] if full else ("", dict[str, str]())
    unused = [origin for origin, templates in full[1:] if templates != chosen[1]]
    origin = f"{chosen[0]}, not {', '.join(unused)}" if unused else chosen[0]
    tokens = _special_texts(config, sources.peek_object(SPECIAL_TOKENS_MAP), family)
    return ChatTemplates(chosen[1], tokens, origins=dict.fromkeys(chosen[1], origin))


def gguf_chat_templates(fields: MetadataFields) -> ChatTemplates:
    """Return the templates of a GGUF file.

    Raises:
        FileFormatError: A value is of another kind.
        UnsupportedError: ``tokenizer.chat_templates`` names a template that is missing.
    """
    key, templates = f"tokenizer.{_KEY}", dict[str, str]()
    for name in fields:
        value = fields.peek(name)
        if name == key or name.startswith(f"{key}."):
            if not isinstance(value, str):
                raise FileFormatError(name, f"a {type(value).__name__}", "a template", "download it again")
            templates[name.removeprefix(f"{key}.") if name != key else "default"] = value
    templates = {name: text for name, text in templates.items() if text}
    names = fields.peek(f"{key}s") or []
    for name in names if isinstance(names, list | tuple) else [names]:
        if name not in templates:
            raise UnsupportedError(
                f"{key}s", f"{name!r:.80}, which no key has", "names of templates", "convert it again"
            )
    origins = {name: key if name == "default" else f"{key}.{name}" for name in templates}
    return ChatTemplates(templates, _gguf_texts(fields), adds_begin=True, origins=origins)


def tokenizer_chat_templates(tokenizer: Any) -> ChatTemplates:
    """Return the templates of a tokenizer of transformers."""
    where = type(tokenizer).__name__
    texts = {name: getattr(tokenizer, name, None) for name in SPECIAL_TOKENS}
    templates = _templates_by_name(getattr(tokenizer, _KEY, None), f"{where}.{_KEY}")
    tokens = {name: str(text) for name, text in texts.items() if text is not None}
    return ChatTemplates(templates, tokens, origins=dict.fromkeys(templates, f"{where}.{_KEY}"))


def _templates_by_name(value: Any, where: str) -> dict[str, str]:
    """Return templates by name, of a text, a list of names with texts, or an object."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    records = value if isinstance(value, list | tuple) else [value]
    pairs = value if isinstance(value, dict) else {
        record.get("name"): record.get("template") for record in records if isinstance(record, dict)
    }  # fmt: skip
    if len(pairs) < len(records) or not all(isinstance(text, str) for pair in pairs.items() for text in pair):
        raise FileFormatError(
            where, f"{value!r:.80}", "a template, or names with templates", "download it again"
        )
    return dict(pairs)


def _special_texts(config: Mapping[str, Any], special: Mapping[str, Any], family: str) -> dict[str, str]:
    """Return the texts of special tokens, of tokenizer_config.json and special_tokens_map.json.

    The second one counts where the first one lists no tokens (``added_tokens_decoder``), and before it.
    """
    kind = str(config.get("tokenizer_class") or "").removesuffix("Fast") or _USUAL_CLASSES.get(family, "")
    values: dict[str, Any] = dict(_CLASS_TOKENS.get(_FIXED_CLASSES.get(family, kind), {}))
    where = {}
    for file, fields in ((TOKENIZER_CONFIG, config), (SPECIAL_TOKENS_MAP, special)):
        if fields is special and "added_tokens_decoder" in config:
            continue
        more = fields.get("extra_special_tokens")
        named = more if isinstance(more, dict) else {}
        for name, value in {**fields, **named}.items():
            is_token = name.endswith("_token") and isinstance(value, str | dict)
            if name in SPECIAL_TOKENS or is_token or name in named:
                values[name], where[name] = value, f"{file}: {name}"
    return {
        name: _token_text(value, where.get(name, "")) for name, value in values.items() if value is not None
    }


def _token_text(value: Any, where: str) -> str:
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise FileFormatError(where, f"{value!r:.80}", "the text of a token", "download it again")
    return text


def _gguf_texts(fields: MetadataFields) -> dict[str, str]:
    words = fields.peek("tokenizer.ggml.tokens")
    if not isinstance(words, list | tuple):
        return {}
    usual = _SENTENCEPIECE_IDS if fields.peek("tokenizer.ggml.model") == "llama" else {}
    texts = {}
    for name, key in _GGUF_IDS.items():
        token = fields.peek(f"tokenizer.ggml.{key}_token_id")
        token = usual.get(name) if token is None else token
        if token is None:
            continue
        if type(token) is not int or not 0 <= token < len(words) or not isinstance(words[token], str):
            raise FileFormatError(
                f"tokenizer.ggml.{key}_token_id", f"{token!r:.40}", f"a token below {len(words)}",
                "convert it again",
            )  # fmt: skip
        texts[name] = words[token]
    return texts

"""Pooling of hidden states, as a model's files say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from intact.errors import FileFormatError, UnsupportedError
from intact.formats import MetadataFields
from intact.lm.description.model_description import POOLINGS, Pooling
from intact.lm.description.model_files import ModelFiles

_MODULES = "modules.json"
_MODES = {
    "pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max", "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_length",
}  # fmt: skip
"""Flags of sentence-transformers, of which one is set."""
_NAMES = {"lasttoken": "last", "weightedmean": "weighted_mean", "mean_sqrt_len_tokens": "mean_sqrt_length"}
_NUMBERS = {0: "", 1: "mean", 2: "cls", 3: "last"}
"""Of llama.cpp; 0: a model whose vectors nobody asks for."""


def folder_pooling(sources: ModelFiles) -> Pooling:
    """Return the pooling of a folder that sentence-transformers wrote; the mean without one.

    Raises:
        UnsupportedError: A module, a mode or a setting that is not computed.
    Source: sentence-transformers, `models.Pooling`.
    """
    pooling, is_normalized = Pooling(), False
    modules = sources.records(_MODULES)
    if not modules:
        return pooling
    for module in modules:
        kind, path = module.text("type"), module.text("path", "")
        module.harmless({"idx": "modules run in their order", "name": "it is a name"})
        module.refuse_rest("type and path")
        last = kind.rpartition(".")[2]
        if last == "Pooling":
            pooling = _mode(sources.fields(f"{path}/config.json" if path else "config.json"))
        elif last == "Normalize":
            is_normalized = True
        elif last != "Transformer":
            raise UnsupportedError(
                _MODULES, f"a module {kind:.80}", "Transformer, Pooling and Normalize",
                "pool the model's states yourself, and apply the module to them",
            )  # fmt: skip
    return replace(
        pooling, is_normalized=is_normalized, longest=_longest(sources), prompts=_prompts(sources),
        default_prompt=_default_prompt(sources),
    )  # fmt: skip


def _mode(fields: MetadataFields) -> Pooling:
    """Return the mode that the configuration of a pooling names."""
    fields.harmless({"word_embedding_dimension": "the model has its own width"})
    modes = {kind for flag, kind in _MODES.items() if fields.flag(flag, False)}
    if "pooling_mode" in fields:
        name = fields.text("pooling_mode")
        named = _NAMES.get(name, name)
        if named not in POOLINGS or modes - {named}:
            fields.refuse("pooling_mode", f"one of {', '.join(POOLINGS)}, and no other flag")
        modes = {named}
    if len(modes) > 1:
        raise UnsupportedError(
            fields.file, f"several poolings side by side ({', '.join(sorted(modes))})", "one",
            "pool the model's states yourself, by embed(pooling=) for each",
        )  # fmt: skip
    fields.require("include_prompt", (True,), "prompts are pooled with the text")
    fields.refuse_rest("modes of a pooling")
    return Pooling(next(iter(modes), "mean"), source=fields.file)


def _longest(sources: ModelFiles) -> int:
    fields = sources.fields("sentence_bert_config.json")
    fields.require("do_lower_case", (False,), "texts keep their case")
    fields.harmless(dict.fromkeys(
        ("transformer_task", "modality_config", "module_output_name", "model_args", "config_args",
         "unpad_inputs", "tokenizer_name_or_path"), "it is how sentence-transformers opens the model",
    ))  # fmt: skip
    return fields.integer("max_seq_length", 0)


def _prompts(sources: ModelFiles) -> dict[str, str]:
    """Return the texts that are put in front of what is embedded, by name."""
    fields = sources.fields("config_sentence_transformers.json")
    fields.harmless({
        "__version__": "it names where the file comes from",
        "model_type": "it names where the file comes from",
        "similarity_fn_name": "vectors are the same for all",
        "truncate_dim": "requests choose the dimensions",
    })  # fmt: skip
    prompts = fields.inner_fields("prompts")
    return {} if prompts is None else {name: prompts.text(name) for name in prompts}


def _default_prompt(sources: ModelFiles) -> str:
    fields = sources.fields("config_sentence_transformers.json")
    name = fields.text("default_prompt_name", "")
    prompts = fields.peek("prompts")
    if name and (not isinstance(prompts, dict) or name not in prompts):
        raise fields.contradiction("default_prompt_name", "prompts does not have it", "one of the prompts")
    return name


def gguf_pooling(fields: MetadataFields, architecture: str) -> Pooling:
    """Return the pooling that a GGUF file names; the mean without one.

    Raises:
        UnsupportedError: Another kind, such as a reranker's.
    """
    key = f"{architecture}.pooling_type"
    number: Any = fields.take(key)
    if number is None:
        return Pooling()
    if not isinstance(number, int) or isinstance(number, bool):
        raise FileFormatError(fields.file, f"{key} {number!r:.40}", "a number", "download the model again")
    if number not in _NUMBERS:
        fields.refuse(key, "0 to 3: none, mean, first or last token")
        return Pooling()
    kind = _NUMBERS[number]
    return Pooling(kind, source=f"{fields.file}, {key}") if kind else Pooling()

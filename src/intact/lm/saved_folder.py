"""Folders of language models that INTact wrote: they open in milliseconds, with what they were made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from intact.atomic import replacing, together
from intact.checksums import DIGEST, is_sealed, seal
from intact.engine import load
from intact.errors import FileFormatError, QuantValueError
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.description.description_json import (
    description_from_json,
    description_to_json,
    read_verification,
)
from intact.lm.description.model_description import ModelDescription
from intact.lm.language_model import LanguageModel
from intact.lm.tokenizer import Tokenizer
from intact.lm.vocabularies.special_tokens import SpecialTokens
from intact.reading import read_bytes

PLAN, TOKENIZER, SETTINGS = "model.plan", "tokenizer.json", "language_model.json"
VERSION = 2
_WITHOUT_DIGEST = 1
"""The version before files had checksums."""

_DEFAULTS: Mapping[str, Any] = {
    "weights": "keep", "block": 32, "bits_of": None, "activations": "dynamic-int8", "tokenizer": None,
    "text": None, "method": "auto", "bits_budget": None, "time_budget": None, "backend": "cpu", "cache": None,
    "rotate": False,
}  # fmt: skip
"""Of options that were decided when the folder was written."""


def save_model(model: LanguageModel, folder: str | os.PathLike[str]) -> None:
    """Write a folder that `load_model` opens in milliseconds: all of it, or nothing.

    Raises:
        FileAccessError: It cannot be written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    settings = {
        "version": VERSION, "positions": model.positions, **model.chat_templates.to_json(),
        "bos": model.tokenizer.bos if model.tokenizer is not None else None,
        "eos": list(model.tokenizer.eos) if model.tokenizer is not None else [],
        "settings": dict(model.settings),
    }  # fmt: skip
    text = None if model.tokenizer is None else model.tokenizer.to_json()
    if text is not None:
        settings["tokenizer_sha256"] = _digest(text.encode())
    if model.description is not None:
        settings["description"] = description_to_json(model.description)
    model.new_cache().append([0])  # packs weights for the kernels of this machine
    with together():
        model.engine.save(target / PLAN)
        if text is not None:
            _write_text(target / TOKENIZER, text)
        _write_settings(target, settings)


def _write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    plain = json.loads(json.dumps(settings))  # as it is read: lists, and names for keys
    _write_text(folder / SETTINGS, json.dumps(seal(plain), indent=1))


def _write_text(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load_saved(folder: Path, threads: int | None, positions: int | None, **options: Any) -> LanguageModel:
    """Load a folder that `save_model` wrote.

    Args:
        folder: The folder.
        threads: Of a run.
        positions: The longest sequence, at most that of the folder; None: that.
        options: What else `load_model` was asked for: the folder has its own, and another value is refused.
    Raises:
        FileFormatError: The folder is damaged.
        QuantValueError: An option differs from what the folder was written with.
    """
    record = read_settings(folder)
    where = str(folder / SETTINGS)
    _check_options(options, record["settings"])
    most = record["positions"]
    if positions is not None and not 1 <= positions <= most:
        raise QuantValueError(
            "positions", str(positions), f"1 to {most}, as the folder was saved", "quantize the model again"
        )
    tokenizer = _read_tokenizer(folder / TOKENIZER, record)
    templates = _read_templates(record, where)
    engine, description = load(folder / PLAN, threads=threads), _read_description(record, where)
    return LanguageModel(engine, positions or most, tokenizer, templates, record["settings"], description)


def _read_tokenizer(path: Path, record: Mapping[str, Any]) -> Tokenizer | None:
    """Return the tokenizer of a folder; None where it was saved without one."""
    is_checked = record["version"] != _WITHOUT_DIGEST
    if not path.is_file() and not (is_checked and "tokenizer_sha256" in record):
        return None
    data = read_bytes(path)
    if is_checked and record.get("tokenizer_sha256") != _digest(data):
        raise _settings_error(str(path), "content that does not match its checksum")
    return Tokenizer(data.decode("utf-8", "replace"), record["bos"], record["eos"])


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a folder that `save_model` wrote.

    Raises:
        FileFormatError: They are damaged, or of another version.
    """
    where = str(folder / SETTINGS)
    try:
        record = json.loads(read_bytes(folder / SETTINGS))
        version, positions, bos = record["version"], record["positions"], record["bos"]
        eos, settings = record["eos"], record["settings"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _settings_error(where, f"'{error}'") from error
    if version not in (VERSION, _WITHOUT_DIGEST):
        raise _settings_error(where, f"version {version!r}")
    if version != _WITHOUT_DIGEST and not is_sealed(record):
        raise _settings_error(where, "content that does not match its checksum")
    fits = (
        type(positions) is int and 0 < positions <= 2**24 and isinstance(bos, int | None)
        and isinstance(eos, list) and isinstance(settings, dict)
        and all(isinstance(token, int) for token in eos)
    )  # fmt: skip
    if not fits:
        raise _settings_error(where, "other settings")
    return dict(record)


def keep_verification(folder: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Write the result of `verify_model` into the settings of a saved folder.

    Args:
        folder: The folder.
        record: Of `verification_record`.
    Raises:
        FileFormatError, FileAccessError: The folder is damaged, or cannot be written.
    """
    settings = read_settings(Path(folder)) | {"verification": dict(record)}
    settings.pop(DIGEST, None)
    _write_settings(Path(folder), settings)


def saved_description(folder: Path) -> ModelDescription:
    """Return what the files said that a saved folder was made of; little for folders of earlier versions."""
    record, where = read_settings(folder), str(folder / SETTINGS)
    family = str(record["settings"].get("family", "unknown"))
    description, templates = _read_description(record, where), _read_templates(record, where)
    if isinstance(templates, str):
        templates = ChatTemplates({"default": templates} if templates else {})
    return replace(
        description or ModelDescription(family), chat_templates=templates,
        special_tokens=SpecialTokens(record["bos"], tuple(record["eos"])),
        verification=read_verification(record.get("verification"), where),
    )  # fmt: skip


def _check_options(options: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value != _DEFAULTS[name] and value != settings.get(name):
            raise QuantValueError(
                name, f"{value!r:.40} for a saved folder",
                f"{settings.get(name, _DEFAULTS[name])!r:.40}, as it was saved", "quantize the model again",
            )  # fmt: skip


def _read_description(record: Mapping[str, Any], where: str) -> ModelDescription | None:
    """Return what the model's own files said; None for folders of earlier versions."""
    return description_from_json(record["description"], where) if "description" in record else None


def _read_templates(record: Mapping[str, Any], where: str) -> ChatTemplates | str:
    """Return the templates of a saved model; earlier versions wrote one, and no variables."""
    if "template" not in record:
        return ChatTemplates.from_json(record, where)
    template = record["template"]
    if not isinstance(template, str):
        raise _settings_error(where, "other settings")
    return template


def _settings_error(where: str, got: str) -> FileFormatError:
    return FileFormatError(where, got, "what save_model writes", "quantize the model again")

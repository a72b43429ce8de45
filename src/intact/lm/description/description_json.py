"""Descriptions of models in the settings of saved folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intact.errors import FileFormatError
from intact.formats import FieldUse, short_value
from intact.lm.description.model_description import POOLINGS, ModelDescription, Pooling

_LISTED = 1024
"""Fields of a description at most: a model's files have less than a hundred that are named one by one."""


def description_to_json(description: ModelDescription) -> dict[str, Any]:
    """Return a record of what a saved folder needs of a description; values of fields are cut."""
    uses = [[use.file, use.key, _short(use.value), use.use] for use in description.fields[:_LISTED]]
    pooling = vars(description.pooling) | {"prompts": dict(description.pooling.prompts)}
    return {"family": description.family, "pooling": pooling, "fields": uses}


def _short(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else short_value(value)


def description_from_json(record: Any, where: str) -> ModelDescription:
    """Return the description of a record.

    Raises:
        FileFormatError: It is another one; `where` names the file.
    """
    try:
        family, pooling, uses = record["family"], Pooling(**record["pooling"]), record["fields"]
        fields = tuple(FieldUse(str(file), str(key), value, str(use)) for file, key, value, use in uses)
        fits = isinstance(family, str) and pooling.kind in POOLINGS and type(pooling.is_normalized) is bool
        fits = fits and type(pooling.longest) is int and pooling.longest >= 0
        fits = fits and isinstance(pooling.prompts, Mapping) and isinstance(pooling.default_prompt, str)
        fits = fits and all(isinstance(text, str) for text in pooling.prompts.values())
    except (ValueError, KeyError, TypeError) as error:
        raise _description_error(where, f"'{error}'"[:200]) from error
    if not fits:
        raise _description_error(where, "another description")
    return ModelDescription(family, pooling=pooling, fields=fields)


def read_verification(record: Any, where: str) -> tuple[str, tuple[tuple[str, str, str], ...]] | tuple[()]:
    """Return what a saved folder keeps of comparisons with its maker's program.

    Raises:
        FileFormatError: It is something else.
    """
    if record is None:
        return ()
    try:
        checks = tuple((str(c["name"]), str(c["result"]), str(c["detail"])) for c in record["checks"])
        return str(record["peer"]), checks
    except (KeyError, TypeError) as error:
        raise _description_error(where, f"'{error}'"[:200]) from error


def _description_error(where: str, got: str) -> FileFormatError:
    return FileFormatError(where, got, "what save_model writes", "quantize the model again")

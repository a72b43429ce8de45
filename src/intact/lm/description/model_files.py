"""The metadata files of one model: each is opened once, and each of its fields accounted for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError
from intact.formats import FieldUse, MetadataFields
from intact.limits import RECORD_BYTES
from intact.reading import read_bytes


class ModelFiles:
    """Gives the fields of a model's metadata files by the files' names.

    Args:
        folder: Where they lie; None: there is none, as for a module or a GGUF file.
        accepted: Fields that the user lets pass where they would be refused.
        contents: Of files that were opened before, by name.
    """

    def __init__(
        self, folder: Path | None, accepted: Collection[str] = (),
        contents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self._accepted = folder, tuple(accepted)
        self._fields: dict[str, MetadataFields] = {}
        for name, values in (contents or {}).items():
            self._fields[name] = MetadataFields(values, name, self._accepted)

    def fields(self, name: str) -> MetadataFields:
        """Return the fields of a JSON file; none where there is no such file.

        Raises:
            FileFormatError: It is no object in JSON.
        """
        if name not in self._fields:
            self._fields[name] = MetadataFields(self._read_object(name), name, self._accepted)
        return self._fields[name]

    def records(self, name: str) -> list[MetadataFields]:
        """Return the objects of a JSON file that is a list of them; none where there is no such file.

        Raises:
            FileFormatError: It is something else.
        """
        value = self._read_json(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(record, dict) for record in value):
            raise FileFormatError(name, f"a {type(value).__name__}", "a list of objects", "download it again")
        for number, record in enumerate(value):
            label = f"{name}[{number}]"
            self._fields.setdefault(label, MetadataFields(record, label, self._accepted))
        return [self._fields[f"{name}[{number}]"] for number in range(len(value))]

    def text(self, name: str) -> str | None:
        """Return the contents of a text file; None where there is none."""
        path = None if self.folder is None else self.folder / name
        if path is None or not path.is_file():
            return None
        data = read_bytes(path)
        RECORD_BYTES.check(len(data), f"file '{path}'")
        return data.decode("utf-8", "replace")

    def names(self, folder: str, pattern: str) -> list[str]:
        """Return the names of the files of a folder inside of this one that match a pattern."""
        return (
            [] if self.folder is None else sorted(path.name for path in (self.folder / folder).glob(pattern))
        )

    def peek_object(self, name: str) -> Mapping[str, Any]:
        """Return the contents of a JSON file whose fields nobody accounts for; errors as of `fields`."""
        return self._read_object(name)

    def refuse_rest(self, want: str) -> None:
        """Refuse fields that nobody took, in any file.

        Raises:
            UnsupportedError: Names them.
        """
        for fields in self._fields.values():
            fields.refuse_rest(want)

    def uses(self) -> Iterator[FieldUse]:
        """Yield what became of each field."""
        for fields in self._fields.values():
            yield from fields.uses()

    def _read_object(self, name: str) -> Mapping[str, Any]:
        record = self._read_json(name)
        if record is None:
            return {}
        if not isinstance(record, dict):
            raise FileFormatError(name, f"a {type(record).__name__}", "an object", "download it again")
        return record

    def _read_json(self, name: str) -> Any:
        """Return the value of a JSON file; None where there is none."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(name, f"'{error}'"[:200], "JSON", "download it again") from error

"""Fields of a metadata file, of which each is used, listed as harmless, or refused by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from intact.errors import FileFormatError, UnsupportedError

USED, ACCEPTED = "used", "accepted, not used"
_MOST = 2**31 - 1
_SHOWN = 60
"""Characters of a value in an error."""


@dataclass(frozen=True)
class FieldUse:
    """Says what became of one field of a metadata file.

    Attributes:
        file: Its name.
        key: The field, with dots between the names of nested ones.
        value: As the file has it; None: the file does not have the field, and its default was taken.
        use: `USED`, `ACCEPTED`, or why the field changes nothing.
    """

    file: str
    key: str
    value: Any
    use: str


class MetadataFields:
    """The fields of one metadata file, which are taken one by one; what nobody took is refused.

    A field that is null counts as missing, except where `take` is asked for it.

    Args:
        values: The contents.
        file: Name of the file, for errors.
        accepted: Fields that the user lets pass where they would be refused.
        prefix: In front of the names of nested fields.
    """

    def __init__(
        self, values: Mapping[str, Any], file: str, accepted: Collection[str] = (), prefix: str = ""
    ) -> None:
        self.file, self._values, self._accepted, self._prefix = file, values, frozenset(accepted), prefix
        self._uses: dict[str, FieldUse] = {}
        self._nested: list[MetadataFields] = []

    def __contains__(self, key: str) -> bool:
        """Return whether the file has a field that is not null."""
        return self._values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all fields."""
        return iter(tuple(self._values))

    def peek(self, key: str) -> Any:
        """Return the value of a field that another reader takes; None where the file does not have it."""
        return self._values.get(key)

    def take(self, key: str, default: Any = None) -> Any:
        """Return the value of a field, None for null; `default` where the file does not have it.

        Args:
            key: Of the field.
            default: For a file that lacks it.
        """
        if key not in self._values:
            return default
        self._note(key, USED)
        return self._values[key]

    def integer(self, key: str, default: int | None = None, least: int = 0, most: int = _MOST) -> int:
        """Return an integer from `least` to `most`.

        Args:
            key: Of the field.
            least, most: Bounds, both allowed.
            default: For a file that lacks it; None: it must be there.
        Raises:
            FileFormatError: The field is something else, or missing and has no default.
        """
        value = self._take_set(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.error(key, f"an integer from {least} to {most}")
        return value

    def number(self, key: str, default: float | None = None, least: float = -1e38) -> float:
        """Return a finite number of at least `least`.

        Args:
            key: Of the field.
            default: For a file that lacks it; None: it must be there.
            least: The smallest number.
        Raises:
            FileFormatError: The field is missing, or no finite number of at least `least`.
        """
        value = self._take_set(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not least <= value <= 1e38:
            raise self.error(key, "a finite number" + (f" of at least {least:g}" if least > -1e38 else ""))
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a boolean.

        Args:
            key: Of the field.
            default: For a file that lacks it; None: it must be there.
        Raises:
            FileFormatError: The field is missing, or no boolean.
        """
        value = self._take_set(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text.

        Args:
            key: Of the field.
            default: For a file that lacks it; None: it must be there.
        Raises:
            FileFormatError: The field is missing, or no text.
        """
        value = self._take_set(key, default)
        if not isinstance(value, str):
            raise self.error(key, "a text")
        return value

    def choice(self, key: str, choices: Collection[str], default: str | None = None) -> str:
        """Return a text that is one of `choices`.

        Args:
            key: Of the field.
            choices: Texts that are known.
            default: For a file that lacks it; None: it must be there.
        Raises:
            UnsupportedError: It is another text.
        """
        value = self.text(key, default)
        if value not in choices:
            self.refuse(key, ", ".join(sorted(choices)))
            return str(default)
        return value

    def items(self, key: str, kind: type | tuple[type, ...], length: int | None = None) -> list[Any] | None:
        """Return a list of values of one type, None where the field is missing.

        Args:
            key: Of the field.
            kind: Type of each value.
            length: Number of values; None: any.
        Raises:
            FileFormatError: It is something else, or has another length.
        """
        value = self._take_set(key, [])
        if key not in self:
            return None
        fits = isinstance(value, Sequence) and not isinstance(value, str)
        fits = fits and (length is None or len(value) == length)
        if not fits or not all(isinstance(item, kind) and not _is_stray_bool(item, kind) for item in value):
            named = kind if isinstance(kind, tuple) else (kind,)
            want = (
                f"a list of {'' if length is None else f'{length} '}{' or '.join(k.__name__ for k in named)}"
            )
            raise self.error(key, want)
        return list(value)

    def inner_fields(self, key: str) -> MetadataFields | None:
        """Return the fields of an object, which are refused with those of this one; None where it is missing.

        Raises:
            FileFormatError: It is no object.
        """
        value = self._take_set(key, {})
        if key not in self:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, "an object")
        inner = MetadataFields(value, self.file, self._accepted, f"{self._prefix}{key}.")
        self._nested.append(inner)
        return inner

    def require(self, key: str, values: Sequence[Any], reason: str) -> None:
        """Let a field pass that has one of some values, or is missing; with them it changes nothing.

        Args:
            key: Of the field.
            values: That change nothing.
            reason: Why others are refused.
        Raises:
            UnsupportedError: It has another value.
        """
        value = self._values.get(key)
        if value is None or any(type(value) is type(each) and value == each for each in values):
            if key in self._values:
                self._note(key, reason)
            return
        self.refuse(key, " or ".join(short_value(each) for each in values if each is not None) or "no value")

    def harmless(self, reasons: Mapping[str, str]) -> None:
        """List fields that change nothing, with the reason."""
        for key, reason in reasons.items():
            if key in self._values and key not in self._uses:
                self._note(key, reason)

    def refuse(self, key: str, want: str) -> None:
        """Refuse the value of a field, unless the user accepts it.

        Args:
            key: Of the field.
            want: A value that is understood, in words.
        Raises:
            UnsupportedError: Names the field and its value.
        """
        if self._prefix + key in self._accepted:
            self._note(key, ACCEPTED)
            return
        raise UnsupportedError(
            self.file, f"{self._prefix}{key} = {short_value(self._values.get(key))}", want,
            f"take another model, or accept what is not computed: --accept {self._prefix}{key}",
        )  # fmt: skip

    def refuse_rest(self, want: str) -> None:
        """Refuse fields that nobody took, here and in nested objects. Those that are null say nothing.

        Args:
            want: What is known, for the error.
        Raises:
            UnsupportedError: Names all of them.
        """
        left = [name for name in self._rest_names() if name not in self._accepted]
        if left:
            first = left[0].removeprefix(self._prefix)
            value = f" = {short_value(self._values[first])}" if first in self._values else ""
            more = f", and {', '.join(left[1:8])}" if len(left) > 1 else ""
            raise UnsupportedError(
                self.file, f"the field {left[0]}{value}{more}, whose meaning is not known", want,
                f"take another model, or accept what is not computed: --accept {left[0]}",
            )  # fmt: skip
        for fields in self._each():
            for key, value in fields._values.items():
                if key not in fields._uses:
                    fields._note(key, "null" if value is None else ACCEPTED)

    def error(self, key: str, want: str) -> FileFormatError:
        """Return the error for a field of another kind."""
        return FileFormatError(
            self.file,
            f"{self._prefix}{key} {short_value(self._values.get(key))}",
            want,
            "download the model again",
        )

    def contradiction(self, key: str, other: str, want: str) -> FileFormatError:
        """Return the error for a field that says something else than another source; `other` names both."""
        return FileFormatError(
            self.file, f"{self._prefix}{key} = {short_value(self._values.get(key))}, but {other}", want,
            "correct the one that is wrong",
        )  # fmt: skip

    def uses(self) -> Iterator[FieldUse]:
        """Yield what became of the fields, nested ones behind those around them."""
        for fields in self._each():
            nested = {inner._prefix[len(fields._prefix) : -1] for inner in fields._nested}
            yield from (use for key, use in fields._uses.items() if key not in nested)

    def _each(self) -> Iterator[MetadataFields]:
        yield self
        for inner in self._nested:
            yield from inner._each()

    def _rest_names(self) -> Iterator[str]:
        for fields in self._each():
            for key, value in fields._values.items():
                if key not in fields._uses and value is not None:
                    yield fields._prefix + key

    def _take_set(self, key: str, default: Any) -> Any:
        value = self.take(key)
        return default if value is None else value

    def _note(self, key: str, use: str) -> None:
        self._uses[key] = FieldUse(self.file, self._prefix + key, self._values[key], use)


def _is_stray_bool(item: Any, kind: type | tuple[type, ...]) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return isinstance(item, bool) and bool not in kinds


def short_value(value: Any) -> str:
    """Return a value as an error or a table shows it."""
    if isinstance(value, list | tuple) and len(value) > 8:
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."

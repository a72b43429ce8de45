"""Errors of OpenAI's protocol, and the fields of requests that raise them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING: Any = object()


class ProtocolError(Exception):
    """An answer that is an error.

    Args:
        status: Of HTTP.
        message: What is wrong, for people.
        param: The field of the request.
        code: For programs.
        headers: Of the answer.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.code = status, _encodable(message), code
        self.param = None if param is None else _encodable(param)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the body of the answer."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        }  # fmt: skip


def check_model(sent: str, name: str) -> None:
    """Refuse the name of a model that is not this server's; "" stands for any.

    Args:
        sent: The name in the request.
        name: The server's own.
    Raises:
        ProtocolError: They differ: status 404.
    """
    if sent not in ("", name):
        message = f"there is no model '{sent[:80]}'; this server has '{name}'"
        raise ProtocolError(404, message, param="model", code="model_not_found")


def fault_error() -> ProtocolError:
    """Return the error of a fault of the server itself."""
    return ProtocolError(500, "a fault of the server", code="fault")


def _encodable(text: str) -> str:
    """Replace half surrogates, which names of a request's fields may have, by their numbers."""
    return text.encode("utf-8", "backslashreplace").decode()


class Fields:
    """The fields of a JSON object, each read once.

    Args:
        record: The object.
        where: What its names begin with in messages, such as ``messages[0].``.
    Raises:
        ProtocolError: It is no object; later: a field has another type, is out of bounds, or unknown.
    """

    def __init__(self, record: Any, where: str = "") -> None:
        if not isinstance(record, dict):
            raise ProtocolError(400, f"{where.rstrip('.') or 'body'} must be an object", param=where or None)
        self._record, self._where = dict(record), where

    def take(self, name: str, default: Any = MISSING) -> Any:
        """Return any value; null counts as missing.

        Args:
            name: Of the field.
            default: For a field that is missing; none: it must be there.
        Raises:
            ProtocolError: The field is missing.
        """
        value = self._record.pop(name, None)
        if value is not None:
            return value
        if default is MISSING:
            raise self.error(name, "is missing", "missing_required_parameter")
        return default

    def integer(self, name: str, default: Any, low: int, high: int) -> Any:
        """Return an integer within bounds, or the default.

        Args:
            name: Of the field.
            default: For a field that is missing.
            low, high: Bounds, both allowed.
        Raises:
            ProtocolError: It is no integer, or out of bounds.
        """
        value = self.take(name, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, "must be an integer")
        if not low <= value <= high:
            raise self.error(name, f"must be from {low} to {high}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number within bounds, or the default.

        Args:
            name: Of the field.
            default: For a field that is missing.
            low, high: Bounds, both allowed.
        Raises:
            ProtocolError: It is no number, or out of bounds.
        """
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.error(name, f"must be a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return true or false.

        Args:
            name: Of the field.
            default: For a field that is missing.
        Raises:
            ProtocolError: It is neither true nor false.
        """
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def objects(self, name: str, value: Any, expected: str, least: int = 0) -> list[Fields]:
        """Return the fields of each object of a list.

        Args:
            name: Of the field.
            value: The field's.
            expected: What the field holds, for the message.
            least: How many objects it must have.
        Raises:
            ProtocolError: It is no list, too short, or has something else than objects.
        """
        if not isinstance(value, list) or len(value) < least:
            raise self.error(name, f"must be {expected}")
        return [Fields(record, self.place(f"{name}[{number}].")) for number, record in enumerate(value)]

    def text(self, name: str, default: Any = MISSING) -> str:
        """Return a text of Unicode's characters."""
        return self.check_text(name, self.take(name, default))

    def check_text(self, name: str, value: Any) -> str:
        """Return a value that is a text.

        Args:
            name: Of the field.
            value: The field's.
        Raises:
            ProtocolError: It is no string, or has half of a surrogate pair.
        """
        if not isinstance(value, str):
            raise self.error(name, "must be a string")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self.error(name, "has half of a surrogate pair")
        return value

    def check_model(self, name: str) -> None:
        """Read the name of the model, which may be missing."""
        check_model(self.text("model", ""), name)

    def skip(self, *names: str) -> None:
        """Read over fields that change no token."""
        for name in names:
            self._record.pop(name, None)

    def refuse(self, **neutral: Any) -> None:
        """Refuse fields that nothing here does, unless they say so: each name with the values that do.

        Args:
            neutral: Values that change nothing, by the field's name.
        Raises:
            ProtocolError: A field has another value.
        """
        for name, values in neutral.items():
            if self.take(name, None) not in (None, *values):
                raise self.error(name, "is not supported by this server", "unsupported_parameter")

    def finish(self) -> None:
        """Refuse what nobody read: silence would give other tokens than the client wants.

        Raises:
            ProtocolError: A field is left; names it.
        """
        for name, value in self._record.items():
            if value is not None:
                raise self.error(name[:80], "is unknown to this server", "unknown_parameter")

    def error(self, name: str, what: str, code: str | None = None) -> ProtocolError:
        """Return an error of a field.

        Args:
            name: Of the field.
            what: What is wrong with it.
            code: As OpenAI has it; None: none.
        """
        place = self.place(name)
        return ProtocolError(400, f"'{place}' {what}", param=place, code=code)

    def place(self, name: str) -> str:
        """Return where a field stands in the body, for the fields of an object in it."""
        return self._where + name

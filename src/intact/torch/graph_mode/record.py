"""What graph mode decided about a model, as plain data: enough to build its forward again without data."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from intact.errors import FileFormatError, UnsupportedError

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class QuantizerCall:
    """One call of a quantizer: it stands on the tensor `source`, in front of some of its readers.

    Attributes:
        source: The call of the trace that makes the tensor.
        readers: (call, place among the tensors and values that it reads).
    """

    source: str
    readers: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Inserted:
    """A quantizer that is no part of a quantized module.

    Attributes:
        name: Its path in the model.
        calls: Where it stands; several where tensors share one scale.
        weight: Path of the parameter that it quantizes; "" for an activation.
        axis: The axis that keeps a scale per index; None: per tensor.
    """

    name: str
    calls: tuple[QuantizerCall, ...]
    weight: str = ""
    axis: int | None = None


@dataclass(frozen=True)
class GraphModeRecord:
    """How a model's forward was traced, and the quantizers that were put into it.

    Attributes:
        fixed: Arguments of forward that are constants of the graph.
        leaves: Path of each module that was not traced into -> why.
        inserted: The quantizers.
    """

    fixed: dict[str, Any] = field(default_factory=dict)
    leaves: dict[str, str] = field(default_factory=dict)
    inserted: tuple[Inserted, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values.

        Raises:
            UnsupportedError: A fixed argument is none.
        """
        for name, value in self.fixed.items():
            if not isinstance(value, _PLAIN):
                raise UnsupportedError(
                    f"argument '{name}' of forward", f"a {type(value).__name__}",
                    "a number, text or None, which a file can hold",
                    "let the model take it in its constructor",
                )  # fmt: skip
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> GraphModeRecord:
        """The record that `to_json` wrote.

        Raises:
            FileFormatError: It is none.
        """
        try:
            return cls(_fixed(data["fixed"]), _texts(data["leaves"]), tuple(map(_inserted, data["inserted"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(
                "graph mode record", f"{type(error).__name__}: {error}", "what graph mode recorded",
                "save the model again",
            ) from error  # fmt: skip


def _fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in data.items():
        if not _is_name(name) or not isinstance(value, _PLAIN):
            raise ValueError(f"{name!r} = {value!r} is no argument with a plain value")
    return dict(data)


def _path(text: Any) -> str:
    """`text`, if it is the path of a module. It becomes Python code: nothing else may pass."""
    *owner, name = str(text).split(".")
    if not _is_name(name) or not all(part.isdecimal() or _is_name(part) for part in owner):
        raise ValueError(f"{text!r} is no path of a module")
    return str(text)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _inserted(data: Mapping[str, Any]) -> Inserted:
    axis: Literal[None] | int = None if data["axis"] is None else int(data["axis"])
    return Inserted(_path(data["name"]), tuple(map(_call, data["calls"])), str(data["weight"]), axis)


def _call(data: Mapping[str, Any]) -> QuantizerCall:
    return QuantizerCall(
        str(data["source"]), tuple((str(name), int(place)) for name, place in data["readers"])
    )


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in data.items()}

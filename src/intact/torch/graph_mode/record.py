"""What graph mode decided about a model, as plain data: enough to build its forward again without data."""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from intact.errors import FileFormatError
from intact.torch.graph_mode.model_calls import Kind, ModelCall


@dataclass(frozen=True)
class Spot:
    """Where a quantizer stands: in front of a call, or behind it.

    Attributes:
        call: The call.
        number: How many tensors are in front of this one among those that the call reads, or makes.
        behind: Whether the call makes it.
    """

    call: ModelCall
    number: int
    behind: bool = False


@dataclass(frozen=True)
class Inserted:
    """A quantizer that is no part of a quantized module.

    Attributes:
        name: Its path in the model.
        tensors: Where it stands, for each tensor; several tensors share one scale.
        weight: Path of the parameter that it quantizes; "" for anything else.
        axis: The axis that keeps a scale per index, or several; None: per tensor.
        computed: It quantizes a weight that calls make of parameters alone: ``self.weight.t()``.
    """

    name: str
    tensors: tuple[tuple[Spot, ...], ...]
    weight: str = ""
    axis: int | tuple[int, ...] | None = None
    computed: bool = False

    @property
    def is_weight(self) -> bool:
        """Whether it quantizes no activation."""
        return bool(self.weight) or self.computed


@dataclass(frozen=True)
class GraphModeRecord:
    """The quantizers that were put between a model's calls, and what names those calls.

    Attributes:
        inserted: The quantizers.
        made: Module, function and site -> how many such calls a run makes, where a quantizer stands at one.
    """

    inserted: tuple[Inserted, ...] = ()
    made: dict[Kind, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        made = [[*kind[:2], number, *filter(None, kind[2:])] for kind, number in self.made.items()]
        return {"inserted": [asdict(item) for item in self.inserted], "made": made}

    @classmethod
    def from_json(cls, data: Any) -> GraphModeRecord:
        """The record that `to_json` wrote.

        Raises:
            FileFormatError: It is none.
        """
        try:
            made = {
                (str(module), str(function), _site(*site)): int(number)
                for module, function, number, *site in data["made"]
            }
            return cls(tuple(map(_inserted, data["inserted"])), made)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(
                "graph mode record", f"{type(error).__name__}: {error}", "what graph mode recorded",
                "save the model again",
            ) from error  # fmt: skip


def record_from(inserted: Sequence[Inserted], calls: Iterable[ModelCall]) -> GraphModeRecord:
    """The record of `inserted` for a model that makes `calls`."""
    spots = chain.from_iterable(spots for item in inserted for spots in item.tensors)
    wanted = {spot.call.kind for spot in spots if spot.call.function}
    made = Counter(call.kind for call in calls)
    return GraphModeRecord(tuple(inserted), {kind: made[kind] for kind in sorted(wanted)})


def _site(site: Any = "") -> str:
    return str(site)


def _path(text: Any) -> str:
    """`text`, if it is the path of something in a model; modules and parameters have any names."""
    if not all(str(text).split(".")):
        raise ValueError(f"{text!r} is no path of a module")
    return str(text)


def _path_of_quantizer(text: Any) -> str:
    """`text`, if it is a path whose last name is one that we give."""
    name = str(text).rpartition(".")[2]
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{text!r} is no path of a module")
    return _path(text)


def _inserted(data: Mapping[str, Any]) -> Inserted:
    axis = data["axis"]
    if isinstance(axis, (list, tuple)):
        axis = tuple(map(int, axis))
    elif axis is not None:
        axis = int(axis)
    tensors = tuple(tuple(map(_spot, spots)) for spots in data["tensors"])
    weight = _path(data["weight"]) if data["weight"] else ""
    computed = bool(data.get("computed", False))
    return Inserted(_path_of_quantizer(data["name"]), tensors, weight, axis, computed)


def _spot(data: Mapping[str, Any]) -> Spot:
    said = data["call"]
    call = ModelCall(
        str(said["module"]), str(said["function"]), int(said["number"]), str(said.get("site", ""))
    )
    return Spot(call, int(data["number"]), bool(data["behind"]))

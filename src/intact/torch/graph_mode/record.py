"""Store what graph mode decided about a model as plain data, from which its forward is built again without
data.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from intact.errors import FileFormatError
from intact.torch.graph_mode.model_calls import CallKind, ModelCall


@dataclass(frozen=True)
class Spot:
    """The place of a quantizer: in front of a call, or behind it.

    Attributes:
        call: The call.
        number: How many tensors are in front of this one among those that the call reads, or returns.
        behind: Whether the call returns the tensor.
    """

    call: ModelCall
    number: int
    behind: bool = False


@dataclass(frozen=True)
class InsertedQuantizer:
    """A quantizer that is no part of a quantized module.

    Attributes:
        name: Its path in the model.
        tensors: Its places, for each tensor; several tensors share one scale.
        weight: Path of the parameter that it quantizes; "" for anything else.
        axis: The axis that keeps a scale per index, or several; None: per tensor.
        computed: It quantizes a weight that calls compute from parameters alone: ``self.weight.t()``.
    """

    name: str
    tensors: tuple[tuple[Spot, ...], ...]
    weight: str = ""
    axis: int | tuple[int, ...] | None = None
    computed: bool = False

    @property
    def is_weight(self) -> bool:
        """Return whether it quantizes a weight, and no activation."""
        return bool(self.weight) or self.computed


@dataclass(frozen=True)
class GraphModeRecord:
    """Records the quantizers that were put between a model's calls, and how many such calls a run makes.

    Attributes:
        inserted: The quantizers.
        call_counts: Module, function and call site -> how many such calls a run makes, where a quantizer
            stands at one.
    """

    inserted: tuple[InsertedQuantizer, ...] = ()
    call_counts: dict[CallKind, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        counts = [[*kind[:2], number, *filter(None, kind[2:])] for kind, number in self.call_counts.items()]
        return {"inserted": [asdict(item) for item in self.inserted], "made": counts}

    @classmethod
    def from_json(cls, data: Any) -> GraphModeRecord:
        """Return the record that `to_json` wrote.

        Raises:
            FileFormatError: The data is no such record.
        """
        try:
            counts = {
                (str(module), str(function), _site(*site)): int(number)
                for module, function, number, *site in data["made"]
            }
            return cls(tuple(map(_quantizer_from, data["inserted"])), counts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(
                "graph mode record", f"{type(error).__name__}: {error}", "what graph mode recorded",
                "save the model again",
            ) from error  # fmt: skip


def record_from(inserted: Sequence[InsertedQuantizer], calls: Iterable[ModelCall]) -> GraphModeRecord:
    """Return the record of `inserted` for a model that makes `calls`."""
    spots = chain.from_iterable(spots for item in inserted for spots in item.tensors)
    quantized_kinds = {spot.call.kind for spot in spots if spot.call.function}
    counts = Counter(call.kind for call in calls)
    return GraphModeRecord(tuple(inserted), {kind: counts[kind] for kind in sorted(quantized_kinds)})


def _site(site: Any = "") -> str:
    return str(site)


def _path(text: Any) -> str:
    """Return `text` if it is the path of something in a model.

    Modules and parameters may have any names.
    """
    if not all(str(text).split(".")):
        raise ValueError(f"{text!r} is no path of a module")
    return str(text)


def _path_of_quantizer(text: Any) -> str:
    """Return `text` if it is a path whose last name is one that graph mode may give."""
    name = str(text).rpartition(".")[2]
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{text!r} is no path of a module")
    return _path(text)


def _quantizer_from(data: Mapping[str, Any]) -> InsertedQuantizer:
    axis = data["axis"]
    if isinstance(axis, (list, tuple)):
        axis = tuple(map(int, axis))
    elif axis is not None:
        axis = int(axis)
    tensors = tuple(tuple(map(_spot_from, spots)) for spots in data["tensors"])
    weight = _path(data["weight"]) if data["weight"] else ""
    computed = bool(data.get("computed", False))
    return InsertedQuantizer(_path_of_quantizer(data["name"]), tensors, weight, axis, computed)


def _spot_from(data: Mapping[str, Any]) -> Spot:
    call_data = data["call"]
    call = ModelCall(
        str(call_data["module"]),
        str(call_data["function"]),
        int(call_data["number"]),
        str(call_data.get("site", "")),
    )
    return Spot(call, int(data["number"]), bool(data["behind"]))

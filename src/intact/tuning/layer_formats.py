"""The formats that a layer may get, and the overrides of `quantize` that produce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from glob import escape
from typing import Any

from intact.errors import QuantValueError
from intact.ptq.scope import Settings, with_override

FLOAT = "float"
"""The format that loses nothing."""

_COUNTERPARTS = {"uint8": "int8", "int8": "uint8"}
"""Activations on the grid with a free zero point, and on the symmetric one."""


@dataclass(frozen=True)
class LayerFormat:
    """Describes one format that layers may have.

    Attributes:
        name: In tables: that of the activations, mostly.
        override: What `quantize` takes for such a layer; empty for the format that layers have unless told.
    """

    name: str
    override: Mapping[str, Any]

    @property
    def is_float(self) -> bool:
        """Return whether it leaves the layer in float."""
        return self.name == FLOAT


def formats_of(settings: Settings, names: Sequence[str] | None) -> tuple[LayerFormat, ...]:
    """Return the formats to choose from, first the default of `settings`.

    Args:
        settings: Of `quantize`.
        names: Names as overrides have them under "format": "int8", "uint8", "int16", "int4", "float", ...;
            None: the other one of int8 and uint8, and float. 16 bits and 4-bit weights compute in float, so
            that float is as fast and more exact; who counts bytes, or runs the file elsewhere, names them.
    Raises:
        QuantValueError: There is no such format.
    """
    base = settings.layer.activations
    format_names = (_COUNTERPARTS.get(base), FLOAT) if names is None else tuple(names)
    formats = [LayerFormat(base, {})]
    for name in dict.fromkeys(format_names):
        if name is not None and name != base:
            override = {"format": name}
            try:
                with_override(settings.layer, name, override)
            except QuantValueError as error:
                raise error.at("formats") from None
            formats.append(LayerFormat(name, override))
    if len(formats) == 1:
        raise QuantValueError(
            "formats", f"{base!r} alone", "two or more to choose from", "leave it out, or name another one"
        )
    return tuple(formats)


def overrides_of(
    nodes: Mapping[str, Sequence[str]], formats: Mapping[str, LayerFormat], counting: Set[str]
) -> dict[str, Any]:
    """Build the overrides that give layers their formats.

    Args:
        nodes: Names of the nodes of each layer.
        formats: By layer.
        counting: Nodes for which other formats than float change something.
    """
    return {
        escape(node): dict(format.override)
        for layer, format in formats.items()
        for node in nodes[layer]
        if format.override and (format.is_float or node in counting)
    }

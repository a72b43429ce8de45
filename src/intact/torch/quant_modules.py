"""Quantize models as they are built: `initialize` replaces classes of `torch.nn` by quantized ones.

A model built between `initialize` and `deactivate` gets `QuantConv2d` where its code says ``nn.Conv2d``.
Code that bound a class earlier (``from torch.nn import Conv2d``) and calls of `torch.nn.functional` are not
reached; `intact.torch.replace_modules` converts a model that is built already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import torch

from intact.errors import QuantValueError
from intact.torch import nn as quant_nn
from intact.torch.nn.modules import _switches

__all__ = ["QuantModuleReplacementHelper", "deactivate", "enable_onnx_export", "initialize"]


class _quant_entry(NamedTuple):
    """The class called `mod_name` in the Python module `orig_mod` gives way to `replace_mod`."""

    orig_mod: ModuleType
    mod_name: str
    replace_mod: type


_DEFAULT_NAMES = (
    *(f"{family}{dims}d" for family in ("Conv", "ConvTranspose") for dims in (1, 2, 3)),
    *("Linear", "LSTM", "LSTMCell"),
    *(f"{family}{dims}d" for family in ("AvgPool", "AdaptiveAvgPool") for dims in (1, 2, 3)),
)
_DEFAULT_QUANT_MAP = [
    _quant_entry(torch.nn, name, getattr(quant_nn, f"Quant{name}")) for name in _DEFAULT_NAMES
]


class QuantModuleReplacementHelper:
    """Registry of the classes to replace and of those replaced; one object serves the process.

    Attributes:
        default_quant_map: The entries of `initialize()` without arguments: what is appended to
            `_DEFAULT_QUANT_MAP` is among them.
        quant_map: The entries to apply, as `prepare_state` left them.
        orginal_func_map: The originals of what is replaced now; spelled as scripts know it.
    """

    def __init__(self) -> None:
        self.default_quant_map: list[_quant_entry] = _DEFAULT_QUANT_MAP
        self.quant_map: list[_quant_entry] = []
        self.orginal_func_map: list[_quant_entry] = []

    def prepare_state(
        self,
        float_module_list: Iterable[str] | None = None,
        custom_map: Sequence[tuple[ModuleType, str, type]] | None = None,
    ) -> None:
        """Compute `quant_map`: the default entries but for `float_module_list`, and those of `custom_map`.

        An entry of `custom_map` counts whatever `float_module_list` says, and before a default one.

        Raises:
            QuantValueError: (a ValueError) A name in `float_module_list` is in no entry, or an entry is not
                (Python module, name of a class in it, replacement).
        """
        defaults = [_check_entry(entry) for entry in self.default_quant_map]
        custom = [_check_entry(entry) for entry in custom_map or ()]
        entries = [*defaults, *custom]
        stay = set(float_module_list or ())
        if unknown := stay - {entry.mod_name for entry in entries}:
            raise QuantValueError(
                "float_module_list",
                str(sorted(unknown)),
                f"names among {sorted({entry.mod_name for entry in entries})}",
                "name classes that would be replaced, for example 'Conv2d'",
            )
        self.quant_map = [*(entry for entry in defaults if entry.mod_name not in stay), *custom]

    def apply_quant_modules(self) -> None:
        """Put the replacements of `quant_map` in place, and keep the first original of each name."""
        for module, name, replacement in self.quant_map:
            if all((module, name) != original[:2] for original in self.orginal_func_map):
                self.orginal_func_map.append(_quant_entry(module, name, getattr(module, name)))
            setattr(module, name, replacement)

    def restore_float_modules(self) -> None:
        """Put every original back; does nothing where nothing is replaced."""
        while self.orginal_func_map:
            setattr(*self.orginal_func_map.pop())


_quant_module_helper_object = QuantModuleReplacementHelper()


def initialize(
    float_module_list: Iterable[str] | None = None,
    custom_quant_modules: Sequence[tuple[ModuleType, str, type]] | None = None,
) -> None:
    """Replace classes of `torch.nn` by quantized ones, for models that are built from now on.

    Conv1-3d, ConvTranspose1-3d, Linear, LSTM, LSTMCell, AvgPool1-3d and AdaptiveAvgPool1-3d are replaced by
    default. A second call starts from the original classes again: the last call counts.

    Args:
        float_module_list: Names that stay float, for example ``["Linear"]``.
        custom_quant_modules: Further entries (Python module, class name, replacement), for example
            ``[(torch.nn, "GRU", quant_nn.QuantGRU)]``.
    Raises:
        QuantValueError: (a ValueError) As `QuantModuleReplacementHelper.prepare_state`; nothing is changed.
    """
    helper = _quant_module_helper_object
    helper.prepare_state(float_module_list, custom_quant_modules)
    helper.restore_float_modules()
    helper.apply_quant_modules()


def deactivate() -> None:
    """Give `torch.nn` its own classes back; models built before stay as they are."""
    _quant_module_helper_object.restore_float_modules()


@contextmanager
def enable_onnx_export() -> Iterator[None]:
    """Turn on, inside, the export switch that scripts ask for; pairs are written without it, too.

    The switch goes back to what it was, also when the export raises.
    """
    before = _switches.is_on()
    _switches.set_switch(True)
    try:
        yield
    finally:
        _switches.set_switch(before)


def _check_entry(entry: Any) -> _quant_entry:
    fits = isinstance(entry, Sequence) and len(entry) == 3 and isinstance(entry[1], str)
    if not fits or not isinstance(getattr(entry[0], entry[1], None), type) or not isinstance(entry[2], type):
        raise QuantValueError(
            "custom_quant_modules",
            repr(entry),
            "(Python module, name of a class in it, replacement class)",
            "write for example (torch.nn, 'GRU', quant_nn.QuantGRU)",
        )
    return _quant_entry(*entry)

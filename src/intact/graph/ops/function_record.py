"""`Function`, the record of an element-wise function of one tensor. All lists of functions derive from it.

They say what placement fuses and recognizes, which step and which sizes a node has, how constants are folded,
which of torch's functions an engine computes, and what the configuration of a language model may name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.graph.ops.record import Kind, Operator

_NEAR = 1e-7


@dataclass(frozen=True)
class Variant:
    """One function of a number: an operator with certain attributes.

    Attributes:
        step: Its name in `numerics.FUNCTIONS` and in the native kernels; "": none has it.
        attributes: The operator's attributes with which it computes this function.
        name: Its name in reports; "": that of the operator.
        torch: The names of torch's functions that compute it.
        torch_keywords: Further arguments with which they do.
        of_integers: torch makes floats of integers with it.
        models: Its names in the ``config.json`` of language models.
        composed: Exporters also write it as several nodes, and it is recognized by its values.
    """

    step: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    torch: tuple[str, ...] = ()
    torch_keywords: Mapping[str, Any] = field(default_factory=dict)
    of_integers: bool = False
    models: tuple[str, ...] = ()
    composed: bool = False

    @property
    def is_default(self) -> bool:
        """Return whether the operator computes it without attributes."""
        return not self.attributes


Variants = tuple[Variant, ...]


class Function(Operator, shared=True):
    """Function of the first input; the others, if any, are its parameters.

    Attributes:
        variants: What it computes with the attributes that have a name or a kernel of their own.
        fuses: Engines compute it behind a weighted layer.
        not_fused_by: The engines that do not.
        composes: Exporters write other functions with it.
    """

    kind: ClassVar[Kind] = "function"
    variants: ClassVar[Variants] = ()
    fuses: ClassVar[bool] = False
    not_fused_by: ClassVar[frozenset[str]] = frozenset()
    composes: ClassVar[bool] = False

    @property
    def step(self) -> str:
        """The name in `numerics.FUNCTIONS` of what it computes with these attributes; "" for none."""
        for variant in self.variants:
            if all(_is_near(getattr(self, name), value) for name, value in variant.attributes.items()):
                return variant.step
        return ""

    def compute(self, x: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Compute it on float32 with the bits of the engine's steps (N66).

        Returns:
            float32 of x's shape; None where IEEE 754 decides the result, or no step has it.
        """
        step = self.step
        return numerics.FUNCTIONS[step](x) if step and not self.exact else None


def _is_near(value: Any, wanted: Any) -> bool:
    return bool(value == wanted if isinstance(wanted, str) else abs(value - wanted) <= _NEAR)

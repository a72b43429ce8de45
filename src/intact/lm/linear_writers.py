"""Write linear layers of a decoder: floats, codes of the file, or codes that are rounded to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from intact.errors import QuantValueError, UnsupportedError
from intact.formats import floats_of, nbits_inputs
from intact.graph import Composer
from intact.graph.ops import MICROSOFT
from intact.lm.decoder_graph import Linear, LinearWriter, write_float
from intact.numerics import BlockWeights
from intact.ptq.blocks import BlockFormat, round_to_nearest

KEEP, FLOAT = "keep", "float32"
_INTEGER_PRODUCT = 4
_ROUNDED = {"int2": "int2", "int4": "int4", "uint4": "uint4", "int8": "int8"}


def linear_writer(
    weights: str = KEEP, block: int = 32, bits_of: Mapping[str, str] | None = None
) -> LinearWriter:
    """Return what writes linear layers in such codes.

    Args:
        weights: "keep": the codes of the file, where MatMulNBits has its grid, else int8; "float32"; or
            "int4", "uint4", "int8", "int2": rounded to nearest with fitted scales.
        block: Elements that share a scale.
        bits_of: Other choices for some roles, such as ``{"head": "int8"}``.
    Raises:
        QuantValueError: There is no such choice.
    """
    choices = {"": weights, **(bits_of or {})}
    for choice in choices.values():
        if choice not in (KEEP, FLOAT, *_ROUNDED):
            raise QuantValueError(
                "weights", f"{choice!r:.40}", f"keep, float32, {', '.join(_ROUNDED)}", "choose one"
            )
    grids = {choice: BlockFormat(_ROUNDED.get(choice, "int8"), block) for choice in choices.values()}

    def write(composer: Composer, x: str, y: str, role: str, weight: Linear) -> None:
        choice = choices.get(role, weights)
        if choice == FLOAT or (choice == KEEP and not isinstance(weight, BlockWeights)):
            write_float(composer, x, y, role, weight)
            return
        if choice != KEEP or not _write_codes(composer, x, y, weight):
            floats = np.asarray(floats_of(weight), np.float32)
            is_written = _write_codes(composer, x, y, round_to_nearest(floats, grids[choice]))
            assert is_written, "MatMulNBits has the grids that are rounded to"

    return write


def _write_codes(composer: Composer, x: str, y: str, weight: Linear) -> bool:
    """Write a MatMulNBits that quantizes x as it comes; return whether it has such a grid."""
    assert isinstance(weight, BlockWeights)
    try:
        inputs, attributes = nbits_inputs(weight)
    except UnsupportedError:
        return False
    inputs["scales"] = np.asarray(inputs["scales"], np.float32)
    names = [composer.constant(f"{y}.{name}", array) for name, array in inputs.items()]
    composer.node(
        "MatMulNBits",
        [x, *names],
        [y],
        name=y,
        domain=MICROSOFT,
        accuracy_level=_INTEGER_PRODUCT,
        **attributes,
    )
    return True

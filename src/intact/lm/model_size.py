"""Bits and bytes of the weights of a language model."""

from __future__ import annotations

from intact.engine import Plan
from intact.lm.language_model import LanguageModel

_SCALE_BITS = 16


def weight_bits(model: LanguageModel) -> float:
    """Return the bits of a weight on average: of codes, scales and minima of 16 bits, and zero points.

    Weights are those of products and of tables with codes, each counted once. Floats have their own bits.
    """
    bits: dict[str, tuple[int, float]] = {}
    for step in model.engine.plan.steps:
        name = getattr(step, "weight", "")
        if name in model.engine.plan.constants and name not in bits:
            bits[name] = _count_step_weights(model.engine.plan, step)
    return sum(part for _, part in bits.values()) / max(sum(count for count, _ in bits.values()), 1)


def weight_bytes(model: LanguageModel) -> int:
    """Return the bytes of all constants, as they lie in memory: scales as float32."""
    return sum(array.nbytes for array in model.engine.plan.constants.values())


def _count_step_weights(plan: Plan, step: object) -> tuple[int, float]:
    """Return the weights that a step multiplies, and their bits."""
    array = plan.constants[getattr(step, "weight")]  # noqa: B009
    width = getattr(step, "bits", 0)
    if not width:
        return array.size, 8.0 * array.nbytes
    sizes = {
        name: plan.constants[getattr(step, name)].size if getattr(step, name) else 0
        for name in ("scales", "zero_points", "minima")
    }
    shared = _SCALE_BITS * (sizes["scales"] + sizes["minima"]) + width * sizes["zero_points"]
    return len(array) * getattr(step, "inputs"), float(8 * array.nbytes + shared)  # noqa: B009

"""Which tensors and constants a step names."""

from __future__ import annotations

from intact.engine.steps import Epilogue, Step

_ONE = ("x", "index", "a", "b", "residual", "mask")
_CONSTANT = ("weight", "bias", "table", "model")


def reads(step: Step) -> tuple[str, ...]:
    """What `step` computes with: tensors, and constants where a tensor could stand (of Binary and a mask)."""
    names = [getattr(step, field) for field in _ONE if hasattr(step, field)]
    names += getattr(step, "xs", ())
    if (epilogue := epilogue_of(step)) is not None:
        names.append(epilogue.residual)
    return tuple(name for name in names if name)


def writes(step: Step) -> tuple[str, ...]:
    """The tensors that `step` makes."""
    made: tuple[str, ...] | None = getattr(step, "ys", None)
    return (getattr(step, "y"),) if made is None else made  # noqa: B009


def constants(step: Step) -> tuple[str, ...]:
    """The constants that `step` names as such."""
    names = [getattr(step, field) for field in _CONSTANT if hasattr(step, field)]
    names += getattr(step, "indices", ())
    if (epilogue := epilogue_of(step)) is not None:
        names += [epilogue.multiplier, epilogue.bias, epilogue.integer_bias, epilogue.factors, epilogue.slope]
    return tuple(name for name in names if name)


def epilogue_of(step: Step) -> Epilogue | None:
    """How the sum of `step` ends; None where it has no sum."""
    return getattr(step, "epilogue", None)

"""Run single steps of the engine on arrays.

An engine for each kind of step is built at its first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from intact.engine import Engine, Plan
from intact.engine.steps import Step, Tensor

__all__ = ["run_step"]

_MOST_STEPS = 512
_MOST_HELD = 2**28  # bytes of constants that engines are kept for

Array = NDArray[Any]


def run_step(
    kind: type[Step],
    operands: Mapping[str, Array],
    makes: Mapping[str, int],
    constants: Mapping[str, Array] | None = None,
    **fields: Any,
) -> list[Array]:
    """Run one step of the engine.

    Args:
        kind: Class of the step.
        operands: Arrays by the step's field that reads them.
        makes: Rank of what it writes, by field; all float32.
        constants: Arrays by the field that names a constant.
        **fields: Further fields of the step; hashable.
    Returns:
        What it writes, in the order of `makes`.
    """
    key = (
        kind, tuple((field, x.dtype.name, x.ndim) for field, x in operands.items()), tuple(makes.items()),
        tuple(sorted(fields.items())), torch.get_num_threads(),
    )  # fmt: skip
    engine = _with_constants.engine(key, constants) if constants else _engine(*key)  # type: ignore[arg-type]
    outputs = engine.run(operands)
    return [outputs[field] for field in makes]


@lru_cache(_MOST_STEPS)
def _engine(
    kind: type[Step],
    operands: tuple[tuple[str, str, int], ...],
    makes: tuple[tuple[str, int], ...],
    fields: tuple[tuple[str, Any], ...],
    threads: int,
) -> Engine:
    return _build(kind, operands, makes, fields, threads, {})


def _build(
    kind: type[Step],
    operands: tuple[tuple[str, str, int], ...],
    makes: tuple[tuple[str, int], ...],
    fields: tuple[tuple[str, Any], ...],
    threads: int,
    constants: Mapping[str, Array],
) -> Engine:
    """Build an engine of one step, whose tensors have the names of its fields."""
    tensors = {name: Tensor(name, dtype, _open(name, rank)) for name, dtype, rank in operands}
    tensors |= {name: Tensor(name, "float32", _open(name, rank)) for name, rank in makes}
    names = {name: name for name in (*tensors, *constants)}
    step = kind("step", (), **(names | dict(fields)))
    inputs, outputs = tuple(name for name, *_ in operands), tuple(name for name, _ in makes)
    plan = Plan((step,), tensors, dict(constants), inputs, outputs)
    plan.check()
    return Engine(plan, threads=threads)


def _open(name: str, rank: int) -> tuple[str, ...]:
    return tuple(f"{name}.{axis}" for axis in range(rank))


class _WithConstants:
    """Caches engines of steps with constants by their values, and keeps those that were used last."""

    def __init__(self) -> None:
        self._engines: dict[tuple[Any, ...], list[tuple[dict[str, Array], Engine]]] = {}
        self._bytes_held = 0

    def engine(self, key: tuple[Any, ...], constants: Mapping[str, Array]) -> Engine:
        """Return the engine for these constants.

        They are compared whole, because parameters are written to in many ways.
        """
        full = (*key, tuple((name, x.shape, _sample(x)) for name, x in constants.items()))
        for cached_constants, engine in self._engines.get(full, ()):
            if all(np.array_equal(cached_constants[name], x) for name, x in constants.items()):
                self._engines[full] = self._engines.pop(
                    full
                )  # a dictionary keeps insertion order, so the least recently used comes first
                return engine
        own = {name: x.copy() for name, x in constants.items()}
        engine = _build(*key, own)  # type: ignore[call-arg]
        self._bytes_held += sum(x.nbytes for x in own.values())
        while self._bytes_held > _MOST_HELD and self._engines:
            for dropped, _ in self._engines.pop(next(iter(self._engines))):
                self._bytes_held -= sum(x.nbytes for x in dropped.values())
        self._engines.setdefault(full, []).append((own, engine))
        return engine


def _sample(x: Array) -> bytes:
    """Return a few of the elements, which differ for most arrays."""
    flat = x.reshape(-1)
    return flat[:: max(1, flat.size // 32)].tobytes()


_with_constants = _WithConstants()

"""Cache what binding needs of a plan and what does not depend on sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from intact.engine.cpu.fuse import fuse
from intact.engine.cpu.strings import without_strings
from intact.engine.plan import Plan
from intact.engine.shapes import peek
from intact.engine.steps import Step
from intact.engine.steps.base.wiring import reads, writes

Kept = TypeVar("Kept")


class PreparedPlan:
    """A plan, and what follows from it alone.

    Attributes:
        plan: As given.
        whole: Whether every tensor is to be kept, so that no step takes another's work over.
        steps: What runs, with the tensors of strings that parts read and make.
        fused: The plan whose steps become native: these steps, without strings.
    """

    def __init__(self, plan: Plan, *, whole: bool = False) -> None:
        self.plan, self.whole = plan, whole
        strung = plan if whole else fuse(plan)
        self.steps, self.fused = strung.steps, without_strings(strung)
        self._kept: dict[tuple[str, ...], Any] = {}

    def keep(self, key: tuple[str, ...], make: Callable[[], Kept]) -> Kept:
        """What `make` makes, the first time; later the same again. `key` begins with what it is."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("Kept", self._kept[key])

    @cached_property
    def readers(self) -> dict[str, list[Step]]:
        """The steps that read each tensor or constant, once for each time."""
        readers_by_name: dict[str, list[Step]] = {}
        for step in self.fused.steps:
            for name in reads(step):
                readers_by_name.setdefault(name, []).append(step)
        return readers_by_name

    @cached_property
    def makers(self) -> dict[str, Step]:
        """The step that makes each tensor."""
        return {name: step for step in self.fused.steps for name in writes(step)}

    @cached_property
    def itemsizes(self) -> dict[str, int]:
        """Bytes of an element of each tensor: codes are bytes, strings pointers."""
        return {
            name: 1 if tensor.codes is not None else np.dtype(tensor.stored_dtype).itemsize
            for name, tensor in self.plan.tensors.items()
        }

    @cached_property
    def treats_images_apart(self) -> tuple[bool, ...]:
        """Of every step, whether it may do so: all its tensors have four axes, and what stands for one is the
        same for all images."""
        return tuple(map(self._treats_images_apart, self.fused.steps))

    def _treats_images_apart(self, step: Step) -> bool:
        if not (step.native and step.traits.by_image):
            return False
        used = (*reads(step), *writes(step))
        tensors = [self.fused.tensors[name] for name in used if name in self.fused.tensors]
        stand_ins = [peek(self.fused, name).shape for name in reads(step) if name in self.fused.constants]
        same = all(len(shape) < 4 or shape[0] == 1 for shape in stand_ins)
        return same and all(len(tensor.shape) == 4 for tensor in tensors)

"""The step for the elements that a Resize to free sizes reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.dims import Dim, values_of
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Write
from intact.numerics import (
    COORDINATES,
    ROUNDINGS,
    SAMPLED_TERMS,
    ResizeSampling,
    nearest_places,
    weighted_places,
)


@dataclass(frozen=True)
class ResizePlaces(Step):
    """The elements that each output of a Resize along an axis reads, from the sizes alone (N57).

    Attributes:
        places: int64 [wanted] where mode is "nearest", else [wanted, terms].
        size, wanted: Elements of the input and the output.
        mode, coordinates, rounding, cubic_coeff_a, exclude_outside: As in `numerics.ResizeSampling`.
        scale: Outputs for each input; None: wanted / size.
        weights: float32, shape of `places`; "" where mode is "nearest".
    """

    kind = "resize_places"
    places: Write
    size: Dim
    wanted: Dim
    mode: str
    coordinates: str
    rounding: str
    cubic_coeff_a: float
    exclude_outside: bool
    scale: float | None = None
    weights: Write = ""

    @property
    def sampling(self) -> ResizeSampling:
        """The attributes, as `numerics` takes them."""
        return ResizeSampling(
            self.mode, self.coordinates, self.rounding, self.cubic_coeff_a, self.exclude_outside
        )

    def check(self, checker: Checker) -> None:
        checker.that(self.mode in SAMPLED_TERMS, self.mode, f"one of {', '.join(SAMPLED_TERMS)}")
        checker.that(self.coordinates in COORDINATES, self.coordinates, f"one of {', '.join(COORDINATES)}")
        checker.that(self.rounding in ROUNDINGS, self.rounding, f"one of {', '.join(ROUNDINGS)}")
        is_nearest = self.mode == "nearest"
        checker.that((self.weights == "") == is_nearest, self.weights, "weights for what is summed alone")
        checker.that(checker.dtype(self.places) == "int64", checker.dtype(self.places), "int64")
        checker.that(checker.rank(self.places) == (2 - is_nearest,), self.places, "a row for each output")
        if self.weights:
            checker.that(checker.dtype(self.weights) == "float32", checker.dtype(self.weights), "float32")
            checker.one_rank(self.places, self.weights)
        scale = 1.0 if self.scale is None else self.scale
        checker.that(0 < scale < _MOST_SCALE, scale, f"a scale above 0 and below {_MOST_SCALE}")
        checker.that(np.isfinite(self.cubic_coeff_a), self.cubic_coeff_a, "a finite coefficient")

    def _numbers(self, sizes: dict[str, int]) -> tuple[int, int, float]:
        size, wanted = values_of((self.size, self.wanted), sizes, f"step '{self.name}'")
        if size < 1 or wanted < 0:
            raise mismatch(self.places, f"{wanted} elements of {size}", "elements of some")
        return size, wanted, wanted / size if self.scale is None else self.scale

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        _, wanted, _ = self._numbers(sizes.dims)
        if self.mode == "nearest":
            return ((wanted,),)
        shape = (wanted, SAMPLED_TERMS[self.mode])
        return shape, shape

    def evaluate(self, run: Run) -> None:
        size, wanted, scale = self._numbers(run.sizes)
        if self.mode == "nearest":
            run.bind(self.places, nearest_places(self.sampling, size, wanted, scale, np.float32))
            return
        places, weights = weighted_places(self.sampling, size, wanted, scale)
        run.bind(self.places, places)
        run.bind(self.weights, weights)


_MOST_SCALE = 2.0**31

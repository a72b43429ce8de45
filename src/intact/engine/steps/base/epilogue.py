"""The epilogue that turns a sum of products into an output: N22 to N25."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.wiring import Const, Read
from intact.numerics import FUNCTIONS, Gain, Residual

FILED = {"key": "ending"}
"""Field names in plan files of the parts that a step may have."""
_Floats = Annotated[str, Const("float32", 1)]


@dataclass(frozen=True)
class Epilogue:
    """Describes the operations that are applied to a sum of products.

    Attributes:
        multiplier: Constant, float32 [channels] (or [1]): ``fl32(s_x * s_w)``, or M where codes are those of
            one product and one sum (N22).
        bias: Constant, float32 [channels] (or [1]): the bias, or B; "" for none.
        integer_bias: Constant, int32 [channels], added to the sum: N30; "" for none.
        residual: Tensor of codes that is added behind the gain; "" for none.
        residual_multiplier: float32: the scale of these codes.
        activation: A function of `numerics` evaluated on the real sum before it is quantized ("gelu", ...).
            "" for none: Relu and Clip are `low` and `high`.
        low, high: Bounds in codes of the output, or in floats where the output is real (None: unbounded).
        factors: Constant, float32 [channels] (or [1]), by which what `activation` gives is multiplied; "" for
            none.
        slope: Constant, float32 [channels] (or [1]), by which what is below 0 behind the residual is
            multiplied (N48): LeakyRelu and PRelu, in place of an activation; "" for none.
        offsets: Constant, float32 [channels] (or [1]), which are added behind the factors; "" for none.
        gain, shift: Constants, float32 [channels] (or [1]): a factor behind the bias and what is added behind
            that (N44); "" for none.
        quotient: A number that reals are divided by in place of a gain, of a product of activations; 1: none.
        divided: Codes are the real output divided by its scale, though a product and a bias alone stand in
            front: `product_form` had no constants with the same codes.
    """

    multiplier: _Floats
    bias: _Floats = ""
    integer_bias: Annotated[str, Const("int32", 1)] = ""
    residual: Read = ""
    residual_multiplier: float = 0.0
    activation: str = ""
    low: float | None = None
    high: float | None = None
    factors: _Floats = ""
    slope: _Floats = ""
    offsets: _Floats = ""
    gain: _Floats = ""
    shift: _Floats = ""
    quotient: float = 1.0
    divided: bool = False

    @property
    def divides(self) -> bool:
        """Return whether codes are a real output divided by its scale (N22), and not one product and one
        sum."""
        return self.divided or self.quotient != 1 or bool(self.gain or self.residual or self.slope)

    def check(self, checker: Checker, channels: int) -> None:
        """Refuse an epilogue that does not fit a layer of so many channels.

        Raises:
            FileFormatError: Names the step and the field.
        """
        behind = self.factors, self.offsets
        own = self.multiplier, self.bias, self.integer_bias, self.slope, self.gain, self.shift
        for name in (*own, *behind):
            if name:
                (size,) = checker.sizes(name)
                checker.that(size in (1, channels), f"{size} numbers in '{name}'", f"1 or {channels}")
        if self.residual:
            checker.codes(self.residual)
        checker.that(bool(self.activation) or not any(behind), "factors", "an activation before them")
        checker.that(not self.activation or not self.slope, "an activation and a slope", "one of them")
        checker.that(bool(self.gain) or not self.shift, "a shift", "a gain before it")
        checker.that(self.quotient == 1 or not self.gain, "a gain and a quotient", "one of them")
        checker.that(self.quotient != 0, "a quotient of 0", "another number")

    def integer_addends(self, run: Run) -> NDArray[Any] | None:
        """Return the integers that are added to the sum."""
        return run.array(self.integer_bias) if self.integer_bias else None

    def evaluate(self, run: Run, y: str, acc: NDArray[np.int32], axis: int) -> None:
        """Write the codes of y's grid, or floats, from the sums, whose channels lie along `axis`."""
        self.write(run, y, self.apply(run, y, acc, axis))

    def write(self, run: Run, y: str, values: NDArray[Any]) -> None:
        """Write the result of `apply`, or a part of it."""
        if run.grid(y) is not None and not self.activation:
            run.write_codes(y, values)
        else:
            run.write_real(y, values)

    def apply(self, run: Run, y: str, acc: NDArray[np.int32], axis: int) -> NDArray[Any]:
        """Return the codes of sums, or floats, which y quantizes where a function made them.

        Args:
            run: Has the constants and the residual.
            y: The tensor that they are for.
            acc: Integer sums.
            axis: Of their channels.
        """
        m = _channels(run.array(self.multiplier))
        bias = _channels(run.array(self.bias)) if self.bias else np.zeros((), np.float32)
        grid = run.grid(y)
        codes = grid is not None and not self.activation
        if grid is not None and codes and not self.divides:
            bounds = self._bounds(grid.low, grid.high)
            return numerics.requantize_by_product(
                acc, m, bias, grid.zero_point, grid.spec, bounds=bounds, axis=axis
            )
        behind: dict[str, Any] = {
            "gain": self._gain(run), "quotient": np.float32(self.quotient),
            "residual": self._residual(run), "axis": axis,
            "slope": _channels(run.array(self.slope)) if self.slope else None,
        }  # fmt: skip
        if grid is not None and codes:
            bounds = self._bounds(grid.low, grid.high)
            return numerics.requantize(
                acc, m, bias, np.float32(grid.scale), grid.zero_point, grid.spec, bounds=bounds, **behind
            )
        return self._activate(run, numerics.to_real(acc, m, bias, **behind), axis)

    def _gain(self, run: Run) -> Gain | None:
        if not self.gain:
            return None
        gain = _channels(run.array(self.gain))
        return Gain(gain, _channels(run.array(self.shift))) if self.shift else Gain(gain)

    def _activate(self, run: Run, real: NDArray[Any], axis: int) -> NDArray[Any]:
        if self.activation:
            real = FUNCTIONS[self.activation](real)
            real = np.moveaxis(real, axis, -1)
            real = real * run.array(self.factors) if self.factors else real
            real = real + run.array(self.offsets) if self.offsets else real
            real = np.moveaxis(real, -1, axis)
        elif self.low is not None or self.high is not None:
            low = -np.inf if self.low is None else self.low
            high = np.inf if self.high is None else self.high
            real = numerics.clip(real, low, high)
        return real

    def _residual(self, run: Run) -> Residual | None:
        if not self.residual:
            return None
        zero_point = run.codes(self.residual).zero_point
        return Residual(run.array(self.residual), np.float32(self.residual_multiplier), zero_point)

    def _bounds(self, low: int, high: int) -> tuple[int, int]:
        return low if self.low is None else int(self.low), high if self.high is None else int(self.high)


def _channels(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(()) if values.size == 1 else values

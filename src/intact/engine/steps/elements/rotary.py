"""The step for rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.errors import QuantValueError


@dataclass(frozen=True)
class Rotary(Step):
    """Pairs of x [batch, tokens, heads * size] rotated by the position of their token (N71).

    Attributes:
        last: int32 or int64 [batch] or [batch, 1]: the position of the last token of each sequence.
        cosines, sines: [positions, pairs].
        interleaved: Pairs are neighbours.
    """

    kind = "rotary"
    x: Read
    last: Operand
    y: Write
    cosines: Annotated[str, Const("float32", 2)]
    sines: Annotated[str, Const("float32", 2)]
    heads: int
    interleaved: bool = False

    rules = """
        floats(x, y)
        ranks(3, x, y)
        types(last, 'int32', 'int64')
        1 <= rank(last) <= 2 | one number for each sequence
        [*cosines] == [*sines] | a sine for each cosine
        0 < heads <= 2 ** 24 | 1 or more heads
        fits x: x[2] % heads == 0 and x[2] // heads >= 2 * cosines[1] | heads as long as their pairs
        fits last: last[0] == x[0] and (rank(last) == 1 or last[1] == 1) | a position for each sequence
        sizes y: x
    """

    def check_positions(self, shape_of: Callable[[str], Shape], last: NDArray[Any], where: str) -> None:
        """Refuse tokens whose position has no angle.

        Raises:
            QuantValueError: Names the tensor of positions.
        """
        check_room(last, shape_of(self.x)[1], shape_of(self.cosines)[0], where)

    def evaluate(self, run: Run) -> None:
        x, last = run.array(self.x), run.array(self.last)
        self.check_positions(lambda name: run.array(name).shape, last, f"tensor '{self.last}'")
        batch, tokens, columns = x.shape
        before = numerics.tokens_before(last, tokens)
        y = numerics.rotary_embedding(
            x.reshape(batch, tokens, self.heads, columns // self.heads), run.array(self.cosines),
            run.array(self.sines), before[:, None] + np.arange(tokens), self.interleaved,
        )  # fmt: skip
        run.bind(self.y, y.reshape(x.shape))


def check_room(last: NDArray[Any], tokens: int, room: int, where: str) -> None:
    """Refuse sequences that are longer than `room`."""
    ends = numerics.tokens_before(last, tokens) + tokens
    if ends.size and (longest := int(ends.max())) > room:
        raise QuantValueError(
            where, f"{longest} tokens in a sequence", f"at most {room}", "shorten it, or give a longer cache"
        )


def check_last(sizes: Sizes, last: str, batch: int) -> None:
    """Refuse positions that are not one for each sequence."""
    shape = sizes.of(last)
    if shape not in ((batch,), (batch, 1)):
        raise mismatch(last, f"shape {shape}", f"({batch},), a position for each sequence")

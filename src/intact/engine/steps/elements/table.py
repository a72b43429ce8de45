"""The step that looks up a function of one code in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const, Read, Write


@dataclass(frozen=True)
class Table(Step):
    """A function of one code: 256 entries, formed in float64 by the builder; entry i is for byte i of x.

    Attributes:
        table: Constant, uint8 [256]: bytes of y.
    """

    kind = "table"
    x: Read
    y: Write
    table: Annotated[str, Const("uint8", 1)]

    rules = """
        table[0] == 256 | 256 entries
        codes(x, y)
    """

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x).astype(np.int32) + run.codes(self.x).offset
        y = run.array(self.table)[x].astype(np.int32) - run.codes(self.y).offset
        run.write_codes(self.y, y)

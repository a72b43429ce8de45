"""A function of one code."""

from __future__ import annotations

from intact.engine.cpu.binding import Binding, binds
from intact.engine.steps import Table
from intact.errors import FileFormatError
from intact.kernels import NativeStep, pointwise


@binds(Table)
def bind_table(step: Table, binding: Binding) -> list[NativeStep]:
    """A function of one code.

    Raises:
        FileFormatError: Of a code that can occur it gives one that y's grid does not have.
    """
    low, high = binding.codes(step.x).byte_range
    entries = binding.array(step.table)[low : high + 1]
    least, most = binding.codes(step.y).byte_range
    if entries.min() < least or entries.max() > most:
        got, want = f"a table of {entries.min()} to {entries.max()}", f"bytes from {least} to {most}"
        raise FileFormatError(f"step '{step.name}'", got, want, "build the plan from the model again")
    table = binding.constant(step.table)
    return [pointwise.lookup(binding.view(step.x), table, binding.view(step.y), binding.kernels)]

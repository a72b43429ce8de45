"""The steps for the maximum or mean over windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair, by_axis
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Pool(Step):
    """AveragePool of codes, MaxPool of codes or float32 (N27). `kernel` None: the whole plane (global)."""

    kind = "pool"
    x: Read
    y: Write
    mode: Literal["average", "max"]
    kernel: Pair | None = None
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    ceil_mode: bool = False
    count_include_pad: bool = False

    rules = """
        taps = kernel or [1, 1]
        0 < min(taps) and max(taps) <= 2 ** 16 | a kernel above 0
        images(x, y, strides, dilations, pads)
        reach = [(taps[0] - 1) * dilations[0], (taps[1] - 1) * dilations[1]]
        max(pads[0], pads[2]) <= reach[0] and max(pads[1], pads[3]) <= reach[1] | pads within the kernel
        types(x, 'codes', 'float32')
        one_dtype(x, y)
        mode == 'max' or dtype(x) == 'codes' | a mean of codes
        fits x: kernel or x[2] * x[3] > 0 | an element to pool
        places = windows(x, kernel, strides, dilations, pads, ceil_mode) if kernel else [1, 1]
        sizes y: [x[0], x[1], *places]
    """

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        kernel: Shape = x.shape[2:]
        window: dict[str, Any] = {}
        if self.kernel is not None:
            kernel = self.kernel
            window = {
                "stride": self.strides, "padding": by_axis(self.pads),
                "dilation": self.dilations, "ceil_mode": self.ceil_mode,
            }  # fmt: skip
        if self.mode == "max":
            if run.grid(self.x) is None:
                run.bind(self.y, numerics.float_max_pool(x, kernel, **window))
                return
            codes = numerics.max_pool(x, kernel, **window)
        else:
            grid, out = run.codes(self.x), run.codes(self.y)
            codes = numerics.avg_pool(
                x, kernel, grid.affine, out.affine, out.spec,
                count_include_pad=self.count_include_pad, **window,
            )  # fmt: skip
        run.write_codes(self.y, codes)

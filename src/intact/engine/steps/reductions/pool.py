"""The steps for the maximum or mean over windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import MOST_WIDTH, Pads, Pair, by_axis, check_window, positions
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

    def check(self, checker: Checker) -> None:
        kernel = self.kernel or (1, 1)
        checker.that(all(0 < k <= MOST_WIDTH for k in kernel), self.kernel, "a kernel above 0")
        check_window(checker, self.x, self.y, (*self.strides, *self.dilations), self.pads)
        most = [(k - 1) * d for k, d in zip(kernel, self.dilations, strict=True)] * 2
        # A window reads some pixel, as ONNX wants it.
        fits = all(p <= m for p, m in zip(self.pads, most, strict=True))
        checker.that(fits, self.pads, f"pads up to {most}")
        if self.mode == "average" or checker.grid(self.x) is not None:
            checker.codes(self.x, self.y)
        else:
            checker.floats(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes.of(self.x)
        if self.kernel is None:
            if 0 in x[2:]:
                raise mismatch(self.x, f"sizes {x[2:]}", "an element to pool")
            return x[0], x[1], 1, 1
        windows = positions(x, self.kernel, self.strides, self.dilations, self.pads, ceil_mode=self.ceil_mode)
        return x[0], x[1], *windows

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

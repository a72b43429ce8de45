"""``intact strip``: the float file of a quantized one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from intact.atomic import together
from intact.calib import Calibration, Range
from intact.cli.options import AsJson, ModelFile, Out, into_a_folder
from intact.cli.output import say, show_json

if TYPE_CHECKING:
    from intact.graph import Stripped


def run(
    model: ModelFile,
    out: Out,
    calib: Annotated[
        Path | None, typer.Option(help="Keep the ranges in this .calib file.", callback=into_a_folder)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take the Q/DQ pairs away; stored weights become the floats that their codes stood for.

    The ranges can be kept, and used again: `intact quantize float.onnx --calib ranges.calib --method max`.

    Examples:

    - `intact strip model.int8.onnx -o float.onnx`
    - `intact strip model.int8.onnx -o float.onnx --calib ranges.calib`
    """
    from intact.graph import load, normalize, save, strip_qdq

    graph = load(model)
    normalize(graph)
    stripped = strip_qdq(graph)
    with together():
        save(graph, out)
        if calib is not None:
            stored = graph.graph.initializers
            ranges_of({n: one for n, one in stripped.items() if n not in stored}, model.name).save(calib)
    if as_json:
        show_json(
            {"out": str(out), "calib": None if calib is None else str(calib), "tensors": list(stripped)}
        )
        return
    say(f"wrote {out}: {len(stripped)} tensors are float again")
    if calib is not None:
        say(f"wrote {calib}")


def ranges_of(stripped: Mapping[str, Stripped], source: str) -> Calibration:
    """The floats that each grid reaches, as `Range` statistics: method "max" gives the scales again.

    Tensors with a scale per block are left out: no statistic has that granularity.
    """
    calibration = Calibration()
    for name, one in stripped.items():
        spec, (low, high) = one.spec, one.range
        if spec.block_size is None:
            if spec.symmetric and spec.qmin < 0:
                low = -high  # -128 of int8 belongs to no symmetric range
            ones, zeros = np.ones(low.shape, np.int64), np.zeros(low.shape, np.int64)
            calibration[name] = Range.from_arrays(
                {"min": low, "max": high, "count": ones, "nonfinite": zeros}, spec.axis
            )
    calibration.record(source=f"the Q/DQ pairs of {source}")
    return calibration

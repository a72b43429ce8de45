"""``intact strip`` writes the float file of a quantized one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from intact.atomic import together
from intact.calib import Calibration, Range
from intact.cli.printing import complain, say, show_json
from intact.cli.shared_options import AsJson, ModelFile, Out, check_output_path

if TYPE_CHECKING:
    from intact.graph import Stripped


def run(
    model: ModelFile,
    out: Out,
    calib: Annotated[
        Path | None, typer.Option(help="Keep the ranges in this .calib file.", callback=check_output_path)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take the Q/DQ pairs away; stored weights become the floats that their codes stood for.

    So do layers that quantize while they run (DynamicQuantizeLinear and MatMulInteger or ConvInteger,
    DynamicQuantizeLSTM, ...), and products whose weights alone have codes (MatMulNBits).

    The ranges can be kept, and used again: `intact quantize float.onnx --calib ranges.calib --method max`.

    Examples:

    - `intact strip model.int8.onnx -o float.onnx`
    - `intact strip model.int8.onnx -o float.onnx --calib ranges.calib`
    """
    from intact.graph import float_dynamic, load, normalize, save, strip_qdq

    graph = load(model)
    static, dynamic = normalize(graph), float_dynamic(graph)
    dynamic_nodes = {note.node for note in dynamic}
    notes = [*(note for note in static if note.node not in dynamic_nodes), *dynamic]
    stripped = strip_qdq(graph)
    with together():
        save(graph, out)
        if calib is not None:
            stored = graph.graph.initializers
            ranges_of({n: pair for n, pair in stripped.items() if n not in stored}, model.name).save(calib)
    layers = [note.node for note in dynamic if note.changed]
    if as_json:
        stays = {note.node: note.what for note in notes if not note.changed}
        show_json({
            "out": str(out), "calib": None if calib is None else str(calib), "tensors": list(stripped),
            "layers": layers, "stays": stays,
        })  # fmt: skip
        return
    while_running = f", {len(layers)} layers that were quantized while they ran" if layers else ""
    say(f"wrote {out}: {len(stripped)} tensors are float again{while_running}")
    for note in notes:
        if not note.changed:
            complain(f"{note.node}: {note.what}")
    if calib is not None:
        say(f"wrote {calib}")


def ranges_of(stripped: Mapping[str, Stripped], source: str) -> Calibration:
    """Return the range of each grid as `Range` statistics, from which method "max" gives the scales again.

    Tensors with a scale per block are left out: no statistic has that granularity.
    """
    calibration = Calibration()
    for name, pair in stripped.items():
        spec, (low, high) = pair.spec, pair.range
        if spec.block_size is None:
            if spec.symmetric and spec.qmin < 0:
                low = -high  # -128 of int8 belongs to no symmetric range
            ones, zeros = np.ones(low.shape, np.int64), np.zeros(low.shape, np.int64)
            calibration[name] = Range.from_arrays(
                {"min": low, "max": high, "count": ones, "nonfinite": zeros}, spec.axis
            )
    calibration.record(source=f"the Q/DQ pairs of {source}")
    return calibration

"""`quantize`: a float ONNX model and data in, a model with Q/DQ pairs out; `calibrate`: its first half."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from intact import graph, placement
from intact.calib import Calibration, ZeroRangeWarning
from intact.errors import QuantValueError
from intact.graph import Model
from intact.numerics import SHORT_BITS, ZERO_RANGE
from intact.placement import Placement
from intact.ptq.bias_correction import corrected, drop_added, mean_errors
from intact.ptq.boundaries import clear_boundaries
from intact.ptq.collect import Collected, collect
from intact.ptq.data import open_data
from intact.ptq.equalization import clipped_pairs, equalize
from intact.ptq.evaluator import Evaluator, relative, sqnr
from intact.ptq.inputs import inputs_of
from intact.ptq.prepare import Prepared, emit, feeds_of_ranges, prepare
from intact.ptq.ranges import Activations, Ranges
from intact.ptq.settings import Overrides, Settings
from intact.ptq.smoothing import smoothed
from intact.ptq.targets import Target
from intact.ptq.trial import equalizing_helps, smoothing_helps

Switch = bool | str
_PLAIN = "without corrected biases"


@dataclass
class QuantizedModel:
    """What `quantize` made.

    Attributes:
        model: The graph with its Q/DQ pairs.
        placement: Where they stand, what fuses with what, and why.
        calibration: The statistics, from which other ranges can be chosen without data.
        methods: By tensor, the method that chose its range.
        ranges: By tensor, the (smallest, largest) real that was chosen to be kept.
        errors: Squared error of the outputs relative to their square, on the held runs, of everything that
            was compared (of what was clearly worse, on some of them); empty where nothing was measured.
        chosen: The configuration of ranges that was taken.
        sqnr: Signal to quantization noise ratio of every output on the held runs, in dB.
        corrected: Whether biases were corrected.
        equalized: Whether channels were equalized.
        not_equalized: Which convolutions cannot be, and why; empty where there are none.
        smoothed: The tensors whose channels were brought to like ranges.
        warnings: What should be looked at.
        notes: What was rewritten before placement.
    """

    model: Model
    placement: Placement
    calibration: Calibration
    methods: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    chosen: str = ""
    sqnr: dict[str, float] = field(default_factory=dict)
    corrected: bool = False
    equalized: bool = False
    not_equalized: str = ""
    smoothed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def proto(self) -> Any:
        """The model as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the file: whole or not at all, the same bytes for the same work; see `intact.graph.save`."""
        graph.save(self.model, path, external=external)

    def explain(self) -> list[dict[str, Any]]:
        """Layer by layer: int8 or float, fused into what, and why."""
        return placement.explain(self.placement)


def quantize(
    source: graph.Source,
    data: Any,
    *,
    method: str = "auto",
    profile: str | placement.Profile = "intact",
    activations: str = "int8",
    weights: str = "int8",
    symmetric: bool = True,
    per_channel: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    overrides: Overrides | None = None,
    opset: int | None = None,
    num_batches: int | None = None,
    batch_size: int | None = None,
    bias_correction: Switch = "auto",
    equalization: Switch = "auto",
    scale_bits: int | None = SHORT_BITS,
    progress: bool = True,
    **options: Any,
) -> QuantizedModel:
    """Quantize a float ONNX model after training: fold, place, calibrate, choose, emit.

    Equal inputs give a byte-identical file. Where the model allows it samples run one at a time: ranges then
    do not depend on how the data were cut into batches, nor on their order.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, see `intact.ptq.open_data`; or what `calibrate` collected, or its file: then
            ranges are chosen without data.
        method: "max", "percentile", "mse", "entropy", or "auto": for each tensor the least expected error,
            and then the best of that and the four methods by the error of the outputs on a few held runs.
        profile: The engine to place for: a name of `intact.placement.PROFILES`.
        activations, weights: Formats; "float" leaves them. An unsigned grid gets a zero point for tensors
            with negative values.
        symmetric: False: activations have a zero point and a range with two ends.
        per_channel: One scale per output channel of each weight; False: one per weight.
        include, exclude: Patterns over node names and operator types, see `intact.placement.place`.
        overrides: Settings by pattern over node names, operator types and tensor names; the first that fits
            decides. Keys: "format" (one word for a layer: "float", "int8", "int16": activations, "int4":
            weights alone, in blocks of 32, "fp8e4m3": both), "activations", "weights", "method",
            "symmetric", "axis" (of the weight; None: one scale) and "block_size".
        opset: Of the file; None: the model's, or what its formats need (13; fp8 19; int16 and int4 21).
        num_batches: Use at most this many batches.
        batch_size: Samples per batch, where the data have none of their own.
        bias_correction: Take the mean error of each layer's output out of its bias. "auto": where that lowers
            the error of the outputs on the held runs.
        equalization: Balance the channels of consecutive convolutions first, and those of tensors in front of
            matrix products (smoothing: a Mul, or other parameters of a LayerNormalization). "auto": as above.
        scale_bits: Widen each range until its scale has at most so many significant bits: float sums then
            hardly round, and frameworks that add in other orders get the same codes; biases move by less than
            one step of their sum, off the boundaries between codes. None: neither of both
            (docs/decisions/0007-short-scales.md). 4-bit weights keep their ranges.
        progress: Draw a progress bar on standard error.
        options: Of the methods: `percentile` (99.99), `variant`, `start_bin`, `stride`.
    Returns:
        The quantized model and everything that was found on the way.
    Raises:
        FileFormatError: The model or data file is damaged; names it.
        QuantValueError: The data do not fit the model, or an option is wrong.
        CalibrationError: NaN, infinities, or no value in a tensor; names it.
        UnsupportedError: The opset cannot write a format, or ONNX Runtime cannot run the model.
    Warns:
        ZeroRangeWarning: A tensor is zero throughout; its scale is 1.
    """
    settings = Settings(
        activations=activations, weights=weights, method=method, symmetric=symmetric,
        axis="channel" if per_channel else None, scale_bits=scale_bits,
    )  # fmt: skip
    _require_switches(bias_correction=bias_correction, equalization=equalization)
    ready = prepare(source, settings, profile, include, exclude, overrides, opset)
    if (stored := _stored_calibration(data)) is not None:
        _require_no_data(bias_correction=bias_correction, equalization=equalization)
        return _finish(ready, stored, None, False, options)

    def collected() -> Collected:
        inputs = inputs_of(ready.model)
        opened = open_data(data, inputs, batch_size=batch_size, num_batches=num_batches)
        return collect(ready.model, ready.wanted, opened, inputs, progress=progress)

    not_equalized = clipped_pairs(ready.model) if equalization else ""
    equalized = equalization is True and equalize(ready.model) > 0
    found = collected()
    helps = equalization == "auto" and equalizing_helps(ready, found.sample.runs, per_channel)
    if helps and not isinstance(data, Iterator):
        equalized = equalize(ready.model) > 0
        found = collected()
    before = ready
    if equalization:
        ready, found = _smoothed(ready, found, equalization, bool(bias_correction))
    result = _finish(ready, found.calibration, found, bias_correction, options)
    result.equalized, result.not_equalized = equalized, not_equalized
    result.smoothed = [name for name in before.wanted if name not in ready.wanted]
    if helps and not equalized:
        result.warnings.append(
            "equalization would help, but the data can be read only once: give a list, or equalization=True"
        )
    return result


def calibrate(
    source: graph.Source,
    data: Any,
    *,
    profile: str | placement.Profile = "intact",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    num_batches: int | None = None,
    batch_size: int | None = None,
    progress: bool = True,
) -> Calibration:
    """Collect the statistics of every tensor that `quantize` would quantize; it takes them instead of data.

    Arguments and errors as for `quantize`. Statistics of several runs merge exactly (`Calibration.merge`).
    """
    ready = prepare(source, Settings(), profile, include, exclude, None, None)
    inputs = inputs_of(ready.model)
    opened = open_data(data, inputs, batch_size=batch_size, num_batches=num_batches)
    return collect(ready.model, ready.wanted, opened, inputs, progress=progress).calibration


def _smoothed(
    ready: Prepared, found: Collected, equalization: Switch, correct: bool
) -> tuple[Prepared, Collected]:
    """Both with smoothed tensors, where that is asked for, or helps; as they are elsewhere."""
    tried = smoothed(ready, found)
    if tried is None:
        return ready, found
    if equalization == "auto":
        plain = ready, found.calibration
        if not smoothing_helps(plain, tried, found.sample.runs, correct):
            return ready, found
    return tried[0], Collected(tried[1], found.sample)


def _require_switches(**switches: Switch) -> None:
    for name, value in switches.items():
        if value not in (True, False, "auto"):
            raise QuantValueError(name, repr(value), "True, False or 'auto'", "choose one of these")


def _require_no_data(**switches: Switch) -> None:
    for name, value in switches.items():
        if value is True:
            raise QuantValueError(
                name,
                "True with statistics instead of data",
                "data to measure on",
                "give data, or leave it out",
            )


def _stored_calibration(data: Any) -> Calibration | None:
    """Statistics given instead of data."""
    if isinstance(data, Calibration):
        return data
    if isinstance(data, (str, os.PathLike)) and Path(data).suffix == ".calib":
        return Calibration.load(data)
    return None


def _finish(
    ready: Prepared, calibration: Calibration, collected: Collected | None, correct: Switch,
    options: dict[str, Any],
) -> QuantizedModel:  # fmt: skip
    chooser = Activations(ready.activations, calibration, options)
    runs = collected.sample.runs if collected else []
    configurations = chooser.configurations(several=bool(runs))
    result = QuantizedModel(ready.model, ready.placement, calibration, notes=ready.notes)
    best = next(iter(configurations.values()))
    weights = ready.quantized_weights()
    layers = mean_errors(ready.model, weights, runs) if runs and correct else []
    grids = emit(ready, chooser, weights, best)
    graph.prune(ready.model)
    del weights  # the float weights, which nothing reads any more
    biases = corrected(ready.model, layers)
    if runs:
        feeds = {name: feeds_of_ranges(chooser, grids, ranges) for name, ranges in configurations.items()}
        evaluator = Evaluator(ready.model, runs, [*feeds_of_ranges(chooser, grids, best), *biases])
        best = configurations[_choose_ranges(evaluator, feeds, biases, correct, result)]
    for name, array in (feeds_of_ranges(chooser, grids, best) | biases).items():
        if result.corrected or name not in biases:
            graph.set_initializer(ready.model, name, array)
    if not result.corrected:
        drop_added(ready.model, layers)
        graph.prune(ready.model)
    if ready.short_scales:
        clear_boundaries(ready.model)
    taken = {target.site.value: best[target.key] for target in ready.activations}
    result.methods = {name: one.method for name, one in taken.items()}
    result.ranges = {name: (float(one.ends[0]), float(one.ends[1])) for name, one in taken.items()}
    result.warnings += _zero_ranges(ready.activations, best)
    return result


def _choose_ranges(
    evaluator: Evaluator, feeds: dict[str, dict[str, NDArray]], biases: dict[str, NDArray], correct: Switch,
    result: QuantizedModel,
) -> str:  # fmt: skip
    """The configuration under which the outputs change least, the first of equals; and whether to correct.

    Ranges are compared with corrected biases: what rounding does to the means would drown what they do.

    Args:
        evaluator: Of the quantized model.
        feeds: Scales and zero points by configuration.
        biases: Corrected ones; {} for those that are there.
        correct: True, or "auto": where it helps.
        result: Gets what was found.
    """
    label, errors = evaluator.best({name: ranges | biases for name, ranges in feeds.items()})
    result.errors = {name: relative(error) for name, error in errors.items()}
    result.chosen, result.sqnr, result.corrected = label, sqnr(errors[label]), bool(biases)
    if biases:
        plain = evaluator.errors(feeds[label])
        result.errors[_PLAIN] = relative(plain)
        if correct == "auto" and result.errors[_PLAIN] <= result.errors[label]:
            result.corrected, result.sqnr = False, sqnr(plain)
    return label


def _zero_ranges(targets: Iterable[Target], ranges: Ranges) -> list[str]:
    found = []
    for name, ends in {t.site.value: ranges[t.key].ends for t in targets}.items():
        if max(-float(ends[0]), float(ends[1])) <= ZERO_RANGE:
            found.append(f"tensor '{name}': every value is zero or almost; its scale is 1")
            warnings.warn(found[-1], ZeroRangeWarning, stacklevel=4)
    return found

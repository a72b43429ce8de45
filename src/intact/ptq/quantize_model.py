"""`quantize` turns a float ONNX model and data into a Q/DQ model; `calibrate` is its first half."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from intact import graph, placement
from intact.calib import Calibration, ChosenRange, ZeroRangeWarning
from intact.errors import QuantValueError
from intact.free_memory import gc_frozen
from intact.job_pool import JobPool
from intact.numerics import SHORT_BITS, ZERO_RANGE
from intact.progress import waiting
from intact.ptq.branch_data import BranchRouting, keep_if_read_once
from intact.ptq.measure.measured_outputs import outputs_to_measure
from intact.ptq.measure.output_errors import relative_error, sqnr
from intact.ptq.measure.quantization_state import State
from intact.ptq.mixed.float_budget import GATE_DB, quantize_within_budget
from intact.ptq.result import QuantizedModel
from intact.ptq.scope.settings import Bits16, Overrides, Settings, Switch
from intact.ptq.stages.choose_ranges import label, least_sqnr, least_unseen_sqnr
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.int16_activations import patterns_about
from intact.ptq.stages.prepare_model import nothing_to_quantize, prepare_state, stored_bytes
from intact.ptq.stages.stored_codes import LEAST_BYTES


def quantize(
    source: graph.Source,
    data: Any,
    *,
    method: str = "auto",
    profile: str | placement.Profile = "intact",
    activations: str | None = None,
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
    rounding: Switch = "auto",
    scale_bits: int | None = SHORT_BITS,
    bits16: Bits16 = "never",
    float_budget: float | None = None,
    progress: bool = True,
    pool: JobPool | None = None,
    ranges: Calibration | str | os.PathLike[str] | None = None,
    dynamic_ranges: Switch = "auto",
    **options: Any,
) -> QuantizedModel:
    """Quantize an ONNX model after training: fold, place, calibrate, choose, emit.

    Pairs that it has already keep their scales, and weights in codes their codes; the rest is quantized.

    Equal inputs give a byte-identical file. Where the model allows it samples run one at a time: ranges then
    do not depend on how the data were cut into batches, nor on their order.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, see `intact.ptq.open_data`; or what `calibrate` collected, or its file: then
            ranges are chosen without data.
        method: One of `intact.calib.METHODS` ("max", "percentile", ...), or "auto": for each tensor the least
            expected error, and then the best of that and each method by the outputs of a few hold-out
            samples.
        profile: The engine to place for: a name of `intact.placement.PROFILES`.
        activations: A format; "float" leaves them. An unsigned grid gets a zero point for tensors with
            negative values. None: the profile's, uint8 for "intact" and int8 for others.
        weights: A format; "float" leaves them.
        symmetric: False: activations have a zero point and a range with two ends.
        per_channel: One scale per output channel of each weight; False: one per weight.
        include, exclude: Patterns over node names and operator types, see `intact.placement.place`; "a -> b"
            means the nodes on every path from a to b, these included.
        overrides: Settings by pattern over node names, operator types and tensor names; the first that fits
            decides. Keys: "format" (one word for a layer: "float", "int8", "int16": activations, "int4":
            weights alone, in blocks of 32, "fp8e4m3": both), "activations", "weights", "method",
            "symmetric", "axis" (of the weight; None: one scale) and "block_size". Of activations also a grid
            by hand: "scale" with "zero_point", or "range": [low, high].
        opset: Of the file; None: the model's, or what its formats need (13; fp8 19; int16 and int4 21).
        num_batches: Use at most this many batches.
        batch_size: Samples per batch, where the data have none of their own.
        bias_correction: Take the mean error of each layer's output out of its bias. "auto": where that lowers
            the error of the outputs on the hold-out samples.
        equalization: Balance the channels of consecutive convolutions first, and those of tensors in front of
            matrix products (smoothing: a Mul, or other parameters of a LayerNormalization). "auto": as above.
        rounding: Round the weights of each layer with regard to each other, so that their errors cancel on
            what the layer reads, where that holds for inputs which they were not fitted to. "auto": those of
            layers that sum up few products, as depthwise ones and the first one of an image do: these lose
            most, and it costs next to nothing; all where that halves what weights lose, if that is more than
            1%. False: each to its nearest code.
        scale_bits: Widen each range until its scale has at most so many significant bits: float sums then
            hardly round, and frameworks that add in other orders get the same codes; biases move by less than
            one step of their sum, off the boundaries between codes. None: neither of both
            (docs/decisions/0007-short-scales.md). 4-bit weights keep their ranges.
        bits16: Which activations get 16 bits; the file then needs opset 21. "never"; "auto": as few as bring
            every output to 40 dB on the hold-out samples, in front of weights that keep their 8, which the
            engine multiplies in integers; where it is the weights that lose, or nothing multiplies, float
            (docs/decisions/0043-int16-activations-int8-weights.md); or patterns over names of tensors and
            nodes and operator
            types, with which the weights that multiply them have 16 bits too: such layers compute in float.
        float_budget: Where 8 bits leave an output below 26 dB, what loses most for its time gets 16 bits or
            stays in float, as much as is worth it, and in any file what recurrent layers read: what that
            takes more is at most this part of the time of the whole model, as predicted from products and
            elements. 0: none. None: 0.4 for "intact", also where dynamic ranges without any pairs have more
            decibels (up to 40), and more than 0.4 where that takes an output to 25 dB
            (docs/decisions/0069-gate.md); 0 for other profiles, and where 16 bits are asked for.
        progress: Draw a progress bar on standard error.
        pool: Counts parts of the data in other processes, `intact.ray_pool.RayPool` on other machines: the
            same statistics, bit for bit. None: this process.
        ranges: Statistics of some tensors, or their file, that hold instead of the data's; ranges without a
            histogram, as `intact strip --calib` writes them, as they are.
        dynamic_ranges: Linear layers with constant matrices get the ranges of their inputs while the model
            runs, in blocks of 64, as MatMulNBits of `accuracy_level` 4. "auto": where that brings the outputs
            of the hold-out samples closer, for as few layers as come within 0.5 dB of all of them; for the
            profile "intact", unless `activations` names a format (docs/decisions/0068-dynamic-ranges.md).
            Unless False, embedding tables of 1 MB and more become GatherBlockQuantized of int8 rows there.
        options: Of the methods: `percentile` (99.99), `variant`, `start_bin`, `stride`, `least_values`: of
            how many values entropy chooses, and percentile at 99.99 (16384); of fewer the range is whole.
    Returns:
        The quantized model and everything that was found on the way.
    Raises:
        FileFormatError: The model or data file is damaged; names it.
        QuantValueError: The data do not fit the model, or an option is wrong.
        CalibrationError: NaN, infinities, or no value in a tensor; names it.
        UnsupportedError: The opset cannot write a format, the profile's engine does not read 16 bits, or
            ONNX Runtime cannot run the model.
    Warns:
        ZeroRangeWarning: A tensor is zero throughout; its scale is 1.
    """
    settings = Settings(
        method, profile, activations, weights, symmetric, per_channel, include, exclude, overrides, opset,
        num_batches, batch_size, bias_correction, equalization, rounding, scale_bits, bits16, float_budget,
        progress, pool, options,
        ranges if ranges is None or isinstance(ranges, Calibration) else Calibration.load(ranges),
        dynamic_ranges,
    )  # fmt: skip
    with gc_frozen():
        result = _quantize_with_branches(source, data, settings)
    if result is None:
        raise nothing_to_quantize(graph.load(source))
    placement.record_agreement(result.model, result.placement)
    return result


def _quantize_with_branches(
    source: graph.Source, data: Any, settings: Settings, *, checked: bool = False
) -> QuantizedModel | None:
    """Return the model with its pairs, and those in the branches of its Ifs; None where there are none.

    `checked`: see `intact.graph.load`.
    """
    with waiting("read the model", settings.progress):
        state = prepare_state(source, data, settings, checked=checked)
    state = (
        replace(state, data=keep_if_read_once(state.model, data, settings)) if _has_branches(state) else state
    )
    done = quantize_within_budget(state, own=True) if state.targets else state
    with waiting("measure the result", settings.progress):
        result = _build_result(done)
    if _has_branches(state):
        _quantize_branches(result, state)
    if state.stored_bytes:
        result.warnings += _growth(state.stored_bytes, stored_bytes(result.model))
    return result if state.targets or result.branches else None


def _quantize_branches(result: QuantizedModel, state: State) -> None:
    """Quantize the branches that the data reach, each as a model of its own, in place."""
    branches = list(graph.branches_of(result.model))
    routing = BranchRouting(result.model, branches, state.data, state.settings)
    for branch in branches:
        if not any(routing.routes[branch.name]):
            result.warnings.append(f"{branch.name} stays in float: no batch of the data takes it")
            continue
        bits16 = patterns_about(branch.model, state.settings.bits16)
        try:
            part = _quantize_with_branches(
                branch.model, routing.data_for(branch), replace(state.settings, bits16=bits16), checked=True
            )
        except QuantValueError as error:  # patterns that fit nothing there
            result.warnings.append(f"{branch.name} stays in float: {error}")
            continue
        if part is not None:
            graph.upgrade_opset(result.model, part.model.opset_imports[""])  # it may have got 16 bits
            graph.graft(result.model, branch, part.model)
            result.branches[branch.name] = part
    graph.prune(result.model)


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
    pool: JobPool | None = None,
) -> Calibration:
    """Collect the statistics of every tensor that `quantize` would quantize; it takes them instead of data.

    Statistics of several runs merge exactly (`Calibration.merge`).

    Args:
        source, data: As for `quantize`.
        profile, include, exclude: Which tensors, as for `quantize`: give both the same.
        num_batches: Take so many batches of the data at most.
        batch_size: Run so many samples at once.
        progress: Show a bar on standard error.
        pool: Runs the batches; None: this process does.
    Raises:
        QuantValueError: The model has nothing to quantize, the data do not fit it, or an option is wrong.
        CalibrationError: A tensor holds NaN or infinities, or never had a value.
    """
    settings = Settings(
        profile=profile, include=include, exclude=exclude, num_batches=num_batches, batch_size=batch_size,
        progress=progress, pool=pool,
    )  # fmt: skip
    state = prepare_state(source, None, settings)
    if not state.targets:
        raise nothing_to_quantize(state.model)
    state_with_statistics = with_statistics(replace(state, data=data))
    assert state_with_statistics is not None and state_with_statistics.calibration is not None, (
        "nothing was collected before"
    )
    return state_with_statistics.calibration


def _has_branches(state: State) -> bool:
    """Return whether there is an If whose branches can be calibrated: on data, not on stored statistics."""
    return state.calibration is None and any(graph.is_op(node, "If") for node in state.model.graph)


def _build_result(state: State) -> QuantizedModel:
    chosen_ranges = {target.site.value: state.ranges[target.key] for target in state.activations}
    answers = state.errors[label(state)].answers if state.errors else {}
    expected = {name: state.margins.predict_agreement(name, agreement) for name, agreement in answers.items()}
    return QuantizedModel(
        state.model,
        placement.with_layers_of(
            state.placement, {t.format for t in state.targets}, state.model, lacks_pairs=bool(state.in_float)
        ),
        Calibration() if state.calibration is None else state.calibration,
        methods={name: range_of_tensor.method for name, range_of_tensor in chosen_ranges.items()},
        ranges={
            name: (float(range_of_tensor.ends[0]), float(range_of_tensor.ends[1]))
            for name, range_of_tensor in chosen_ranges.items()
        },
        errors={name: relative_error(errors) for name, errors in state.errors.items()},
        chosen=state.chosen,
        sqnr=sqnr(state.errors[label(state)]) if state.errors else {},
        unseen_sqnr=sqnr(state.unseen),
        extra_time=state.extra_time,
        least_sqnr=least_sqnr(state) if state.errors else float("inf"),
        top1={name: (agreement.same, agreement.rows) for name, agreement in answers.items()},
        top1_expected={name: share for name, share in expected.items() if share is not None},
        corrected=state.corrected,
        equalized=state.equalized,
        not_equalized=state.not_equalized,
        smoothed=list(state.smoothed),
        in_float=dict(state.in_float),
        dynamic=dict(state.dynamic),
        bits16={
            t.site.value: state.bits16.get(t.key, "the format that was asked for")
            for t in state.activations
            if t.key in state.bits16 or t.format in ("int16", "uint16")
        },
        warnings=[
            *_zero_ranges(chosen_ranges),
            *_whole_ranges(state),
            *state.warnings,
            *_poor_outputs(state),
            *_few_samples(state),
        ],
        notes=[*state.notes, *(outputs_to_measure(state.model).notes if state.errors else ())],
        samples=tuple(sample.feeds for sample in state.runs),
    )


BECAME_LARGER = "weights have become larger"
"""First words of the warning about them."""

FEW_SAMPLES = 16
"""Samples below which formats that were chosen by them say little of others: a U-Net with 26.7 dB on ten
inputs had 21.7 on six more (docs/decisions/0069-gate.md)."""


def _growth(before: int, after: int) -> list[str]:
    """Warn about weights that take more bytes than they did, in files that another tool quantized."""
    if after <= before + LEAST_BYTES:
        return []
    return [f"{BECAME_LARGER}, {after:,} bytes of {before:,}: they had fewer bits than they have now"]


def _poor_outputs(state: State) -> list[str]:
    """Warn about outputs that are of no use, whatever was asked for."""
    least = least_unseen_sqnr(state) if state.errors else GATE_DB
    if least >= GATE_DB:
        return []
    return [
        f"an output has {least:.1f} dB, and is of little use below {GATE_DB:g}: choose other formats, leave "
        "layers in float (exclude), or check that the data are like those to come"
    ]


def _few_samples(state: State) -> list[str]:
    """Warn about formats that were chosen by the errors on few samples."""
    calibration = state.calibration
    count = 0 if calibration is None else sum(item.get("samples", 0) for item in calibration.provenance)
    is_chosen = state.settings.has_gate and (state.in_float or state.bits16 or state.dynamic)
    if not state.errors or not is_chosen or count >= FEW_SAMPLES:
        return []
    note = "" if state.unseen else ", and ranges were chosen with all of them"
    return [
        f"16 bits, float or dynamic ranges were chosen by the errors on {count} samples{note}: inputs to "
        f"come may lose more than the report says; give {FEW_SAMPLES} samples or more"
    ]


def _whole_ranges(state: State) -> list[str]:
    """Warn about tensors with too few values for the requested method, which got their whole range."""
    methods = {} if state.chooser is None else state.chooser.with_too_few_values()
    if not methods:
        return []
    shown = ", ".join(list(methods)[:3]) + (", ..." if len(methods) > 3 else "")
    return [
        f"method {', '.join(map(repr, dict.fromkeys(methods.values())))}: {len(methods)} tensors have too "
        f"few values to show a distribution, and got their whole range: {shown}; least_values=0 takes the "
        "method for any number of values"
    ]


def _zero_ranges(chosen_ranges: Mapping[str, ChosenRange]) -> list[str]:
    messages = []
    for name, chosen in chosen_ranges.items():
        if max(-float(chosen.ends[0]), float(chosen.ends[1])) <= ZERO_RANGE:
            messages.append(f"tensor '{name}': every value is zero or almost; its scale is 1")
            warnings.warn(messages[-1], ZeroRangeWarning, stacklevel=4)
    return messages

"""Runs one Q/DQ model in every way, and finds where codes and answers begin to differ.

The integer reference is what engine and module must equal, on every code (numerics N32). The file in ONNX
Runtime, without optimizations, has norms and functions of its own, and sums in an order of its own (N33). A
module is looked at twice: as it runs, and layer by layer, each layer on the reference's codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.compare.comparison_counts import Comparison, Counts, Distance, LayerCounts, TensorCounts
from intact.engine.engine import Engine
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes, FallbackSubgraph
from intact.engine.steps.base.wiring import writes
from intact.errors import QuantValueError
from intact.graph import Model, NamedPair, QuantizerCall, Session, to_proto
from intact.placement import float_steps, read_placement

Feeds = Mapping[str, NDArray]


class Module(Protocol):
    """A fake-quantized module: what `intact.torch.models.array_runner.Runner` makes of one.

    Attributes:
        pairs: The pairs of the file that carry the names of its quantizers.
    """

    pairs: tuple[NamedPair, ...]

    def __call__(self, feeds: Feeds) -> Sequence[NDArray]:
        """Run the module and return its outputs, in the model's order."""

    def trace(
        self, feeds: Feeds, overrides: Mapping[str, NDArray] | None = None
    ) -> tuple[Sequence[NDArray], Sequence[QuantizerCall]]:
        """Return the outputs and the quantizer calls; `overrides` replace the floats that a call returns."""


def compare(
    model: Model,
    engine: Engine,
    batches: Iterable[Feeds],
    *,
    traced: int = 1,
    threads: int = 1,
    module: Module | None = None,
) -> Comparison:
    """Run `model` in ONNX Runtime, in the integer reference and in `engine`, and count the differences.

    Args:
        model: The Q/DQ model, as in its file.
        engine: The engine that was built from it. Where it is not deterministic, the reference goes on from
            what its parts in ONNX Runtime made, and compares all other steps.
        batches: Feeds by input name.
        traced: In so many of the first batches every tensor is compared, and the integer reference runs,
            which takes its time. In the others, the outputs of engine, file and module.
        threads: For ONNX Runtime.
        module: The fake-quantized module that the file was exported from.
    """
    present = {value.name for node in model.graph for value in node.outputs}
    data = bytes(to_proto(model).SerializeToString())
    session: Session | None = None
    pairs = () if module is None else module.pairs
    result = Comparison(
        _tensors(engine.plan, pairs),
        float_steps=float_steps(model, read_placement(model)),
        parts=_parts(engine.plan),
    )
    plan: Plan | None = None
    for number, feeds in enumerate(batches):
        shapes = {name: np.shape(feeds[name]) for name in engine.plan.inputs}
        before, plan = plan, engine.plan_for(shapes, feeds)
        if before is None:
            result.tensors, result.parts = _tensors(plan, pairs), ()
        if plan is not before:
            result.parts = tuple(dict.fromkeys((*result.parts, *_parts(plan))))
        if number < traced:
            if plan is not before:
                inner = [name for name in plan.tensors if name in present]
                watched = Session(data, extra=inner, threads=threads)
            side_outputs = _trace(result, plan, engine, watched, module, feeds)
        else:
            session = Session(data, threads=threads) if session is None else session
            side_outputs = {
                "engine": _outputs(plan, engine.run(feeds)),
                "file": _outputs(plan, session.run(feeds)),
            }
            side_outputs |= {} if module is None else {"module": module(feeds)}
        result.samples += _rows(side_outputs)
        _answers(result, {side: arrays[0] for side, arrays in side_outputs.items()})
        _distances(result, plan.outputs, side_outputs)
    return result


def compare_module(engine: Engine, module: Module, feeds: Feeds) -> Comparison:
    """Compare `module` with `engine` alone: codes of every quantizer, and outputs, each run end to end.

    The counts of module and engine are called "module", as if the engine were the reference, which it equals
    (N32).
    """
    plan = engine.plan_for({name: np.shape(feeds[name]) for name in engine.plan.inputs}, feeds)
    result = Comparison(_tensors(plan, module.pairs), parts=_parts(plan))
    tensors = engine.tap(feeds)
    outputs, calls = module.trace(feeds)
    _count_calls(result, plan, module, calls, tensors, {})
    side_outputs = {"engine": _outputs(plan, tensors), "module": outputs}
    shapes = {side: [array.shape for array in arrays] for side, arrays in side_outputs.items()}
    if shapes["engine"] != shapes["module"]:
        raise QuantValueError(
            "outputs of the engine", f"shapes {shapes['engine']}", f"those of the module, {shapes['module']}",
            "report this model, with the call that makes them",
        )  # fmt: skip
    result.samples = result.traced = _rows(side_outputs)
    _answers(result, {side: arrays[0] for side, arrays in side_outputs.items()})
    _distances(result, plan.outputs, side_outputs)
    return result


def _parts(plan: Plan) -> tuple[str, ...]:
    return tuple(step.name for step in plan.steps if isinstance(step, FallbackSubgraph))


def _tensors(plan: Plan, pairs: Sequence[NamedPair]) -> list[TensorCounts]:
    order = [(name, "") for name in plan.inputs]
    order += [(name, step.name) for step in plan.steps for name in writes(step)]
    counts = []
    for name, layer in order:
        tensor = plan.tensors[name]
        whole = tensor.codes is None and np.dtype(tensor.stored_dtype).kind in "iubO"
        counts.append(TensorCounts(name, layer, tensor.codes is not None, indices=whole))
    for pair in reversed(pairs):
        if pair.stored is not None:
            reader = next((i for i, t in enumerate(counts) if t.layer and t.layer in pair.readers), 0)
            layer = counts[reader].layer if counts else ""
            counts.insert(reader, TensorCounts(pair.real, layer, True, pair.quantizer))
    return counts


def _trace(
    result: Comparison, plan: Plan, engine: Engine, watched: Session, module: Module | None, feeds: Feeds
) -> dict[str, Sequence[NDArray]]:
    """Compare every tensor of one batch; the outputs of all."""
    ours, file = engine.tap(feeds), watched.run(feeds)
    # Parts in ONNX Runtime on several threads have no last bits of their own: what follows them still has.
    reference = evaluate(plan, feeds, None if engine.deterministic else ours)
    for tensor in result.tensors:
        name = tensor.tensor
        if name not in plan.tensors:
            continue
        codes = plan.tensors[name].codes
        tensor.engine.add(ours[name], reference[name], indices=tensor.indices)
        if name in file:
            file_codes = file[name] if codes is None else _codes(file[name], codes)
            tensor.file.add(
                file_codes.reshape(reference[name].shape), reference[name], indices=tensor.indices
            )
    sides = {"reference": reference, "engine": ours, "file": file}
    side_outputs: dict[str, Sequence[NDArray]] = {
        side: _outputs(plan, tensors) for side, tensors in sides.items()
    }
    if module is not None:
        side_outputs["module"] = _trace_module(result, plan, module, feeds, reference, file)
    result.traced += _rows(side_outputs)
    return side_outputs


def _trace_module(
    result: Comparison, plan: Plan, module: Module, feeds: Feeds, reference: Feeds, file: Feeds
) -> Sequence[NDArray]:
    """Compare every tensor that the module quantizes; return its outputs."""
    outputs, calls = module.trace(feeds)
    at = _count_calls(result, plan, module, calls, reference, file)
    counts = {tensor.tensor: tensor for tensor in result.tensors}
    overrides = {real: _real(reference[name], _codes_of(plan, name)) for real, name in at.items()}
    for call in _once(module.trace(feeds, overrides)[1]):
        if call.pair is not None and (name := at.get(call.pair.real)) is not None:
            _alone(counts[name].alone, call, reference[name], _codes_of(plan, name))
    return outputs


def _count_calls(
    result: Comparison, plan: Plan, module: Module, calls: Sequence[QuantizerCall], reference: Feeds,
    file: Feeds,
) -> dict[str, str]:  # fmt: skip
    """Count the codes of the module's quantizer calls; return the plan's tensor of each pair's floats."""
    at = {pair.real: name for pair in module.pairs if (name := _tensor_of(plan, pair)) is not None}
    counts = {tensor.tensor: tensor for tensor in result.tensors}
    done, strange = set[str](), [call.quantizer for call in calls if call.pair is None]
    for call in _once(calls):
        assert call.pair is not None
        done.add(call.pair.real)
        name = at.get(call.pair.real)
        if call.pair.stored is not None:
            _weight(counts[call.pair.real], call)
        elif name is not None:
            codes, tensor = _codes_of(plan, name), counts[name]
            tensor.quantizer = tensor.quantizer or call.quantizer
            module_codes = _codes(call.y, codes).reshape(reference[name].shape)
            tensor.module.add(module_codes, reference[name])
            if name in file:
                tensor.export.add(module_codes, _codes(file[name], codes).reshape(module_codes.shape))
        else:
            strange.append(call.quantizer)
    strange += [pair.quantizer for pair in module.pairs if pair.real not in done]
    result.unmatched = tuple(dict.fromkeys((*result.unmatched, *strange)))
    return at


def _once(calls: Sequence[QuantizerCall]) -> list[QuantizerCall]:
    """Keep the first call of every pair: those that share it quantize alike."""
    return list({call.pair.real: call for call in reversed(calls) if call.pair is not None}.values())[::-1]


def _tensor_of(plan: Plan, pair: NamedPair) -> str | None:
    """Return the plan's tensor of codes that a pair stands for; None where it has none on that grid."""
    if pair.stored is not None or pair.quantized.scale.size != 1:
        return None
    grid = float(pair.quantized.scale.reshape(-1)[0]), int(pair.quantized.zero_point.reshape(-1)[0])
    for name in pair.names:
        codes = plan.tensors[name].codes if name in plan.tensors else None
        if codes is not None and (codes.scale, codes.zero_point) == grid:
            return name
    return None


def _weight(tensor: TensorCounts, call: QuantizerCall) -> None:
    """Count the codes of a weight, which the file may hold transposed: MatMul wants it so."""
    assert call.pair is not None and call.pair.stored is not None
    if tensor.export.compared:
        return  # it is the same in every batch
    quantized, stored = call.pair.quantized, np.asarray(call.pair.stored)
    ways = []
    for y in (call.y, call.y.T):
        if y.shape == stored.shape:
            ways.append(Counts())
            codes = numerics.quantize(y, quantized.scale, quantized.zero_point, quantized.spec)
            ways[-1].add(codes, stored)
    tensor.export = min(ways, key=lambda counts: counts.differing, default=Counts())


def _alone(counts: LayerCounts, call: QuantizerCall, reference: NDArray, codes: Codes) -> None:
    module_codes = _codes(call.y, codes).reshape(reference.shape)
    counts.add(module_codes, reference)
    apart = module_codes != reference
    if apart.any():
        steps = call.x.reshape(reference.shape)[apart].astype(np.float64) / codes.scale
        counts.boundary = max(counts.boundary, float(np.abs(steps - np.floor(steps) - 0.5).max()))


def _codes_of(plan: Plan, name: str) -> Codes:
    codes = plan.tensors[name].codes
    assert codes is not None, "`_tensor_of` finds tensors of codes"
    return codes


def _real(codes: NDArray, grid: Codes) -> NDArray:
    """Dequantize codes of the reference."""
    return numerics.dequantize(codes, np.float32(grid.scale), np.int32(grid.zero_point), grid.spec)


def _codes(real: NDArray, codes: Codes) -> NDArray:
    """Quantize a real tensor; return one that holds codes already (an output of the file) as it is."""
    if real.dtype.kind in "iu":
        return real
    # What is quantized may be guarded against NaN, of which an engine makes the lowest code (N16).
    numbers = np.where(np.isnan(real), np.array(-np.inf, real.dtype), real)
    return numerics.quantize(numbers, np.float32(codes.scale), np.int32(codes.zero_point), codes.spec)


def _outputs(plan: Plan, tensors: Mapping[str, Any]) -> list[NDArray]:
    return [tensors[name] for name in plan.outputs]


def _rows(side_outputs: Mapping[str, Sequence[NDArray]]) -> int:
    """Return the number of rows of a batch, by its first output."""
    first = side_outputs["engine"][0]
    return len(first) if first.ndim else 1


def _answers(result: Comparison, first_outputs: Mapping[str, NDArray]) -> None:
    """Count answers: the output itself where it holds indices or strings, top-1 where its last axis holds
    classes."""
    if first_outputs["engine"].dtype.kind in "iuO":
        answers = {side: array.reshape(-1) for side, array in first_outputs.items()}
    elif first_outputs["engine"].ndim < 2 or first_outputs["engine"].shape[-1] < 2:
        return
    else:
        answers = {
            side: array.reshape(-1, array.shape[-1]).argmax(1) for side, array in first_outputs.items()
        }
    for side, answer in answers.items():
        if side != "engine":
            result.answers.setdefault(side, Counts()).add(answers["engine"], answer, indices=True)


def _distances(
    result: Comparison, names: Sequence[str], side_outputs: Mapping[str, Sequence[NDArray]]
) -> None:
    """Count how far the outputs of each side are from the engine's, and the module's from the file's."""
    pairs = {
        side: (side_outputs["engine"], arrays) for side, arrays in side_outputs.items() if side != "engine"
    }
    if {"module", "file"} <= side_outputs.keys():
        pairs["export"] = side_outputs["module"], side_outputs["file"]
    for side, (ours, theirs) in pairs.items():
        by_name = result.distances.setdefault(side, {})
        for name, a, b in zip(names, ours, theirs, strict=False):
            by_name.setdefault(name, Distance()).add(a, b.reshape(a.shape), indices=a.dtype.kind in "iub")

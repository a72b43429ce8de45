"""Compare an exported file with its module: layer by layer on the same input codes, and end to end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from intact import numerics
from intact.errors import IntactError, QuantValueError
from intact.graph import Pair, Session
from intact.torch.models.array_runner import as_array
from intact.torch.models.batches import tensors_in
from intact.torch.models.quantizer_calls import (
    StableSorts,
    intercept_quantizers,
    module_at,
    path_of,
    same_arguments,
)
from intact.torch.nn.modules._stale_ranges import weights_unwatched
from intact.torch.operators.recurrent import WholeLayers
from intact.torch.private_torch import pytree
from intact.torch.tracing.changed_calls import ChangedCalls

__all__ = ["CodeCheck", "EndToEnd", "compare_codes", "compare_outputs"]

OUTPUT_TOLERANCE = 1e-3
"""Outputs that differ by more than this share of the largest output are counted."""


@dataclass(frozen=True)
class CodeCheck:
    """Compares the codes of one quantizer in module and file, from the same input codes.

    Attributes:
        quantizer: Module path.
        weight: Whether it is a constant, whose codes must be equal.
        codes: How many were compared, over all calls.
        differing: How many differ.
        largest: Largest difference, in codes.
        boundary: Largest distance, in steps, of a differing value from the rounding boundary.
    """

    quantizer: str
    weight: bool
    codes: int
    differing: int
    largest: int
    boundary: float

    def merge(self, other: CodeCheck) -> CodeCheck:
        """Merge the records of two calls of one quantizer."""
        return CodeCheck(
            self.quantizer, self.weight and other.weight, self.codes + other.codes,
            self.differing + other.differing, max(self.largest, other.largest),
            max(self.boundary, other.boundary),
        )  # fmt: skip


@dataclass
class EndToEnd:
    """Compares module and file, each run by itself, over all samples.

    Attributes:
        samples: Rows of the batches.
        answers: Rows with a top-1 answer: outputs of shape [rows, classes]; and outputs that are indices.
        answers_differing: Rows whose top-1 answer differs.
        values, values_differing: Output numbers, and those that differ by more than `OUTPUT_TOLERANCE` of
            the largest.
        max_abs_diff: Largest difference of two outputs.
    """

    samples: int = 0
    answers: int = 0
    answers_differing: int = 0
    values: int = 0
    values_differing: int = 0
    max_abs_diff: float = 0.0

    def add(self, ours: NDArray, file: NDArray, *, first: bool) -> None:
        """Count one output of one batch. The first output carries the answers. Indices have no distance."""
        if ours.dtype.kind in "iub":
            self.samples += (ours.shape[0] if ours.ndim else 1) if first else 0
            self.answers += ours.size
            self.answers_differing += int((ours != file).sum())
            return
        ours, file = ours.astype(np.float64), file.astype(np.float64)
        same = (ours == file) | (np.isnan(ours) & np.isnan(file))
        finite = np.isfinite(ours) & np.isfinite(file)
        difference = np.where(same, 0.0, np.inf)  # of a NaN and a number, for example
        np.abs(np.subtract(ours, file, out=difference, where=finite), out=difference, where=finite)
        largest = np.abs(ours).max(initial=0.0, where=np.isfinite(ours))
        self.values += ours.size
        self.values_differing += int((difference > OUTPUT_TOLERANCE * largest).sum())
        self.max_abs_diff = max(self.max_abs_diff, float(difference.max(initial=0.0)))
        if first:
            self.samples += ours.shape[0] if ours.ndim else 1
        if first and ours.ndim == 2 and ours.shape[1] > 1:
            self.answers += len(ours)
            self.answers_differing += int((ours.argmax(1) != file.argmax(1)).sum())


Batch = tuple[tuple[Any, ...], dict[str, Any]]
_FIX = "export with verify=False, or choose another opset or format"


def compare_outputs(model: nn.Module, data: bytes, batches: Iterable[Batch]) -> EndToEnd:
    """Run module and file on every batch, and count the differences."""
    session, result = Session(data, fix=_FIX), EndToEnd()
    for args, kwargs in batches:
        # Packed sequences have all steps, as in the file.
        with torch.no_grad(), ChangedCalls(WholeLayers()):
            ours = list(tensors_in(model(*args, **kwargs)))
        file = session.run(feeds(session, args, kwargs))
        for index, (name, tensor) in enumerate(zip(session.outputs, ours, strict=True)):
            array = as_array(tensor)
            if array.shape != file[name].shape:
                raise QuantValueError(
                    f"output '{name}' of the file", f"shape {file[name].shape}",
                    f"{array.shape}, as of the module",
                    "write what makes this output with other functions, and export again",
                )  # fmt: skip
            result.add(array, file[name], first=index == 0)
    return result


def compare_codes(
    model: nn.Module, data: bytes, pairs: Sequence[Pair], batch: Batch
) -> tuple[list[CodeCheck], list[str]]:
    """Compare the codes of every quantizer on one batch.

    The file runs first. Then the module runs, with each quantizer's output replaced by the file's. So the
    next layer reads the same in both, and differences do not add up from layer to layer. Sorts are stable, as
    in the file, so that rows which follow sorted values are compared with the same rows.

    Returns:
        One record per quantizer, and the quantizers whose calls the file does not have.
    """
    session = Session(data, extra=[p.real for p in pairs], fix=_FIX)
    file = session.run(feeds(session, *batch))
    replay = _Replay(model, pairs, file)
    intercepting = intercept_quantizers(model, replay.handle)
    with torch.no_grad(), ChangedCalls(WholeLayers()), StableSorts(), intercepting, weights_unwatched():
        model(*batch[0], **batch[1])
    return list(replay.checks.values()), replay.unknown


def feeds(session: Session, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, NDArray]:
    """Return the tensors of a call as the session's inputs, in the exporter's order."""
    tensors = [t for t in pytree.tree_leaves((args, dict(kwargs))) if isinstance(t, Tensor)]
    return {name: as_array(t) for name, t in zip(session.inputs, tensors, strict=True)}


class _Replay:
    """Compares each call of the operator with its pair in the file, and returns the file's value to the
    module.
    """

    def __init__(self, model: nn.Module, pairs: Sequence[Pair], file: Mapping[str, NDArray]) -> None:
        self._model, self._file = model, file
        self._calls: list[tuple[tuple[Any, ...], Pair]] = []
        self._pairs_left: dict[nn.Module, list[Pair]] = defaultdict(list)
        for pair in pairs:
            self._pairs_left[module_at(model, pair.quantizer)].append(pair)
        self.checks: dict[str, CodeCheck] = {}
        self.unknown: list[str] = []

    def handle(self, module: nn.Module, args: tuple[Any, ...], run: Callable[[], Tensor]) -> Tensor:
        """Return the file's value in place of the operator's."""
        pairs_left = self._pairs_left.get(module)
        pair = pairs_left.pop(0) if pairs_left else self._pair_of_equal_call(args)
        if pair is None:
            self.unknown.append(path_of(self._model, module))
            return run()
        self._calls.append((args, pair))
        x = args[0]
        real = pair.as_in_module(self._file[pair.real], tuple(x.shape))
        name = pair.quantizer if pairs_left is not None else path_of(self._model, module)
        check = _check(pair, name, as_array(x), real)
        self.checks[name] = self.checks[name].merge(check) if name in self.checks else check
        return torch.from_numpy(np.array(real)).to(x)

    def _pair_of_equal_call(self, args: tuple[Any, ...]) -> Pair | None:
        """Return the pair of an earlier call with the same arguments, because the exporter writes equal nodes
        once.
        """
        return next((pair for earlier, pair in self._calls if same_arguments(earlier, args)), None)


def _check(pair: Pair, name: str, x: NDArray, real: NDArray) -> CodeCheck:
    parameters = (pair.scale, pair.zero_point, pair.spec)
    try:
        ours = numerics.quantize(x, *parameters)
        # A real of the file is a code times the scale: quantizing it gives the code back, exactly.
        file = numerics.quantize(real, *parameters)
    except IntactError as error:
        raise error.at(name) from None
    different = ours != file
    boundary = 0.0
    if different.any():
        scale = np.broadcast_to(numerics.expand(pair.scale, x.shape, pair.spec), x.shape)
        steps = x[different].astype(np.float64) / scale[different]
        boundary = float(np.abs(steps - np.floor(steps) - 0.5).max())
    largest = int(np.abs(ours.astype(np.float64) - file).max(initial=0))
    return CodeCheck(name, pair.constant, x.size, int(different.sum()), largest, boundary)

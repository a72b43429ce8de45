"""Take one module through `quantize`, `export` and the engine, and tell whether their values are right."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import intact
import intact.torch
from intact.errors import IntactError
from intact.torch.models.batches import tensors_in
from intact.torch.nn import TensorQuantizer

STATUSES = ("equal", "refused", "said", "random", "torch", "wrong")
"""Equal in every bit and near float; an IntactError; a report that says that bits differ; other values at
each call; torch itself raises; none of these."""

NEAR = 2e-4
"""Share of an output's largest value by which float steps in another order may differ from PyTorch's."""


@dataclass(frozen=True)
class Outcome:
    """Holds what became of one module: one of `STATUSES`, and a message."""

    status: str
    message: str = ""


def check_module(net: nn.Module, args: tuple[Any, ...], *, dynamic_batch: bool = False) -> Outcome:
    """Quantize `net` on `args`, and compare it with float and with the engine of its file."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            first, again = _outputs(net, args), _outputs(deepcopy(net), args)
        except Exception as error:  # whatever torch raises
            return Outcome("torch", _text(error))
        if not first:
            return Outcome("torch", "no tensor in its answer")
        if not all(map(_same, first, again)) or _draws(net, args):
            return Outcome("random")
        try:
            return _compare(net, args, first, dynamic_batch)
        except IntactError as error:
            return Outcome("refused", _text(error))
        except Exception as error:
            return Outcome("wrong", f"raw error: {_text(error)}")


def _compare(
    net: nn.Module, args: tuple[Any, ...], float_outputs: Sequence[Tensor], dynamic_batch: bool
) -> Outcome:
    result = intact.torch.quantize(
        net, [(args,)], example=args, progress=False, float_budget=0, correct_bias=False
    )
    model = result.model.eval()
    outside = [n for n, q in model.named_modules() if _is_active(q) and not n.startswith("aux.")]
    if outside:  # beside the layer that makes each network one to quantize
        quantizers = [q for q in model.modules() if _is_active(q)]
        for q in quantizers:
            q.disable()
        unquantized = _outputs(model, args)
        if far := _far(float_outputs, unquantized):
            return Outcome("wrong", f"module without quantizers is far from float: {far}")
        engine = intact.torch.compile(model, args, dynamic_batch=dynamic_batch, threads=1)
        outputs = _run(engine, args)
        if far := _far(float_outputs, [torch.from_numpy(x) for x in outputs]):
            return Outcome("wrong", f"engine without quantizers is far from float: {far}")
        for q in quantizers:
            q.enable()
    ours = _outputs(model, args)
    if far := _far(float_outputs[1:], ours[1:], 0.2 if outside else NEAR):
        kind = "quantized" if outside else "float step of"
        return Outcome("wrong", f"{kind} module is far from float: {far}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        report = intact.torch.export(model, args, path, dynamic_batch=dynamic_batch)
        if report.comparison.equal:  # the module's outputs, which are near
            return Outcome("equal")
        outputs = _run(intact.compile(path, threads=1), args)
    arrays = [torch.from_numpy(x) for x in outputs[1:]]
    if far := _far(float_outputs[1:], arrays, 0.2 if outside else NEAR):
        return Outcome("wrong", f"engine is far from float: {far}; {report.agreement}")
    if report.comparison.skipped or not (different := _different(ours, outputs)):
        return Outcome("wrong", f"the report is wrong: {report.agreement}")
    return Outcome("said", f"{different}; {report.agreement}")


def _draws(net: nn.Module, args: tuple[Any, ...]) -> bool:
    """Return whether the module draws random numbers, maybe from a seed that it sets."""
    with _SeenOperators() as seen:
        _outputs(net, args)
    return any(torch.Tag.nondeterministic_seeded in operator.tags for operator in seen.operators)


class _SeenOperators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.add(func)
        return func(*args, **(kwargs or {}))


def _is_active(module: nn.Module) -> bool:
    return isinstance(module, TensorQuantizer) and not module._disabled


def _outputs(net: nn.Module, args: tuple[Any, ...]) -> list[Tensor]:
    with torch.no_grad():
        outputs = [x.detach().clone() for x in tensors_in(net(*(deepcopy(x) for x in args)))]
    return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in outputs]


def _run(engine: Any, args: tuple[Any, ...]) -> list[np.ndarray]:
    arrays = [x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy() for x in tensors_in(args)]
    feeds = {port.name: array for port, array in zip(engine.inputs, arrays, strict=True)}
    outputs = engine.run(feeds)
    return [outputs[port.name] for port in engine.outputs]


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())


def _far(expected: Sequence[Tensor], actual: Sequence[Tensor], share: float = NEAR) -> str:
    """Say which output is farther from the float module than `share` of its largest value."""
    if len(expected) != len(actual):
        return f"{len(actual)} outputs for {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, actual, strict=True)):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"output {index} is {have.dtype} {tuple(have.shape)}, {want.dtype} {tuple(want.shape)}"
        if want.dtype.is_floating_point:
            a, b = want.double(), have.double()
            finite = a.isfinite() & b.isfinite()
            bound = share * max(float(a[a.isfinite()].abs().max()) if a.isfinite().any() else 0.0, 1e-30)
            apart = torch.where(finite, (a - b).abs(), 0.0)
            strange = ~(finite | (a == b) | (a.isnan() & b.isnan()))
            if bool(strange.any()) or float(apart.max() if apart.numel() else 0) > bound:
                by = float(apart.max()) if apart.numel() else 0.0
                return f"output {index} by {by:.3g} (bound {bound:.3g}), {int(strange.sum())} not finite"
        elif share == NEAR and not torch.equal(want, have):
            return f"output {index}: {int((want != have).sum())} of {want.numel()} integers"
    return ""


def _different(ours: Sequence[Tensor], theirs: Sequence[np.ndarray]) -> str:
    """Say which output of module and engine is not the same in every bit (of a NaN, that it is one)."""
    if len(ours) != len(theirs):
        return f"{len(theirs)} outputs for {len(ours)}"
    for index, (tensor, b) in enumerate(zip(ours, theirs, strict=True)):
        a = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {index} is {b.dtype} {b.shape}, of the module {a.dtype} {a.shape}"
        same = (a == b) | ((a != a) & (b != b))
        if not same.all():
            with np.errstate(all="ignore"):
                by = np.abs(a.astype("f8") - b.astype("f8"))
            return f"output {index}: {int((~same).sum())} of {a.size}, by at most {np.nanmax(by):.3g}"
    return ""


def _text(error: BaseException) -> str:
    at = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)][-3:]
    where = "" if isinstance(error, IntactError) else f" at {', '.join(at)}"
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:400] + where

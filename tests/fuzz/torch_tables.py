"""Modules from PyTorch's own tables of operators and modules, `op_db` and `module_db`, with sample inputs."""

from __future__ import annotations

import random
import sys
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

MOST_ELEMENTS = 20_000
"""Samples with larger tensors are left out."""


def import_tables() -> tuple[Any, Any]:
    """Return PyTorch's tables; what they import of test tools only is stood in for where it is missing."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal import common_methods_invocations, common_modules

    return common_methods_invocations.op_db, common_modules.module_db


@dataclass(frozen=True)
class Call:
    """One call of a function: its arguments, in which numbers stand for tensors of the network's inputs."""

    function: Any
    leaves: tuple[Any, ...]
    spec: Any
    tensors: tuple[int, ...]
    """Places of tensors among `leaves`."""

    def run(self, function: Any, tensors: Sequence[Tensor]) -> Any:
        """Call the function on these tensors."""
        leaves = list(self.leaves)
        for place, x in zip(self.tensors, tensors, strict=True):
            leaves[place] = x
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return function(*args, **kwargs)


@dataclass
class Case:
    """Calls of one operator or module, with their tensors."""

    name: str
    calls: list[Call] = field(default_factory=list)
    inputs: list[list[Tensor]] = field(default_factory=list)

    def part(self, begin: int, end: int) -> Case:
        """Return some of the calls."""
        return Case(self.name, self.calls[begin:end], self.inputs[begin:end])

    def network(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        """Return a module that makes all calls, beside a linear layer, and its inputs."""
        tensors = [x for each in self.inputs for x in each]
        aux = torch.linspace(-1, 1, 64).reshape(2, 32)
        return Network(self.calls), (aux, *tensors)

    def describe(self) -> str:
        """Return the arguments of the first call."""
        call, tensors = self.calls[0], iter(self.inputs[0])
        leaves = [
            f"{str(x.dtype)[6:]}{list(x.shape)}" if i in call.tensors else x
            for i, x in enumerate(call.leaves)
            for x in [next(tensors) if i in call.tensors else x]
        ]
        return str(pytree.tree_unflatten(leaves, call.spec))[:300]


class Network(nn.Module):
    """Makes calls beside a linear layer, which is what there is to quantize."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.aux = nn.Linear(32, 8)
        self.calls = list(calls)
        self.functions = [c.function for c in calls]
        if isinstance(self.functions[0], nn.Module):
            self.functions = nn.ModuleList(self.functions)  # type: ignore[assignment]

    def forward(self, aux: Tensor, *tensors: Tensor) -> tuple[Any, ...]:
        outputs, begin = [self.aux(aux)], 0
        for call, function in zip(self.calls, self.functions, strict=True):
            end = begin + len(call.tensors)
            outputs.append(call.run(function, tensors[begin:end]))
            begin = end
        return tuple(outputs)


def cases(
    most: int, tables: str = "both", is_wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[Case]:
    """Yield the entries of the tables whose names are wanted, with at most so many calls of each dtype."""
    op_db, module_db = import_tables()
    if tables in ("both", "modules"):
        yield from _module_cases(module_db, most, is_wanted)
    if tables in ("both", "operators"):
        yield from _operator_cases(op_db, most, is_wanted)


_OF_INTEGERS = frozenset({
    "abs", "add", "all", "amax", "argmax", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_not", "cat",
    "clamp", "cumsum", "diff", "div", "div.floor_rounding", "div.trunc_rounding", "div.no_rounding_mode",
    "eq", "exp", "floor_divide", "fmod", "gather", "gcd", "histc", "index_add", "logical_and", "masked_fill",
    "max.binary", "max.reduction_no_dim", "mean", "mul", "nn.functional.pad.constant", "pow", "prod",
    "remainder", "rsub", "scatter_add", "sigmoid", "sign", "sqrt", "sub",
    "sum", "true_divide", "tril", "unique",
    "var", "where",
})  # fmt: skip
"""Operators of floats that are called with integers, too."""


def _takes_integers(op: Any, dtype: torch.dtype) -> bool:
    """Return whether the calls of `op` with integers, or else with booleans, are cases."""
    only = torch.float32 not in op.dtypes
    label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    if dtype == torch.int64:
        return only or label in _OF_INTEGERS
    return only and torch.int64 not in op.dtypes


def _operator_cases(op_db: Any, most: int, is_wanted: Callable[[str], bool]) -> Iterator[Case]:
    for op in op_db:
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        for dtype in (torch.float32, torch.int64, torch.bool):
            if dtype not in op.dtypes or (dtype != torch.float32 and not _takes_integers(op, dtype)):
                continue
            case = Case(f"{label}:{str(dtype)[6:]}")
            if not is_wanted(case.name):
                continue
            _seed()
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:  # of libraries that are not here
                continue
            calls = [((s.input, *s.args), dict(s.kwargs)) for s in samples]
            _add_calls(case, op.op, calls, most if dtype == torch.float32 else most // 2)
            if case.calls:
                yield case


def _module_cases(module_db: Any, most: int, is_wanted: Callable[[str], bool]) -> Iterator[Case]:
    for info in module_db:
        if torch.float32 not in info.dtypes or not is_wanted(f"{info.name}:module"):
            continue
        _seed()
        try:
            samples = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
            )
        except Exception:
            continue
        case = Case(f"{info.name}:module")
        for sample in samples:
            if sample.forward_input is None:
                continue
            constructor, call = sample.constructor_input, sample.forward_input
            try:
                torch.manual_seed(1)
                module = info.module_cls(*constructor.args, **constructor.kwargs).eval()
            except Exception:
                continue
            _add_calls(case, module, [(tuple(call.args), dict(call.kwargs))], 1)
        if len(case.calls) > most:
            places = [round(i * (len(case.calls) - 1) / (most - 1)) for i in range(most)]
            case = Case(case.name, [case.calls[i] for i in places], [case.inputs[i] for i in places])
        if case.calls:
            yield case


def _add_calls(case: Case, function: Any, calls: Sequence[tuple[Any, Any]], most: int) -> None:
    """Add calls that differ in kind, evenly chosen."""
    kinds: dict[str, tuple[Call, list[Tensor]]] = {}
    for args, kwargs in calls:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if any(x.numel() > MOST_ELEMENTS or x.layout != torch.strided or x.is_complex() for x in tensors):
            continue
        if not tensors:
            continue
        places = tuple(i for i, x in enumerate(leaves) if isinstance(x, Tensor))
        numbers = tuple(None if i in places else x for i, x in enumerate(leaves))
        kind = f"{numbers}{spec}{[(x.dtype, x.dim()) for x in tensors]}"
        call = Call(function, numbers, spec, places)
        kinds.setdefault(kind, (call, [x.detach().clone() for x in tensors]))
    chosen = list(kinds.values())
    if len(chosen) > most:
        chosen = [chosen[round(i * (len(chosen) - 1) / max(most - 1, 1))] for i in range(most)]
    for call, tensors in chosen:
        case.calls.append(call)
        case.inputs.append(tensors)


def _seed() -> None:
    torch.manual_seed(0)
    random.seed(0)

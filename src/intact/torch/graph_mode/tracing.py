"""A module's forward as a torch.fx graph, in which what cannot be traced is one call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError
from intact.torch.nn.modules._utils import QuantInputMixin
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

WHOLE = (
    nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Transformer, nn.TransformerEncoder,
    nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer,
)  # fmt: skip
"""Modules of PyTorch with layers inside that the graph does not show."""

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Fixed = dict[str, Any]


class Untraceable(Exception):
    """The forward of the module at `path` cannot be traced; `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the model'}: {reason}")
        self.path, self.reason = path, reason


@dataclass
class Traced:
    """What tracing found.

    Attributes:
        graph: Calls of modules and functions; names of nodes depend on the model's code alone.
        leaves: Path of each module that is one call although it has layers inside -> why.
        fixed: The arguments of the model's forward that the graph holds as constants.
    """

    graph: fx.Graph
    leaves: dict[str, str] = field(default_factory=dict)
    fixed: Fixed = field(default_factory=dict)


def fixed_arguments(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fixed:
    """Arguments of a call that hold no tensor, defaults included: the forward may branch on them."""
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    kinds = {name: parameter.kind for name, parameter in bound.signature.parameters.items()}
    plain = {n: v for n, v in bound.arguments.items() if kinds[n] not in _VARIADIC}
    return {n: v for n, v in plain.items() if next(tensors_in(v), None) is None}


def trace(model: nn.Module, fixed: Fixed, leaves: Mapping[str, str] | None = None) -> Traced:
    """Trace `model` in both modes; modules whose forward cannot be traced become leaves, inner ones first.

    Args:
        model: Its class's forward is traced; nothing is run.
        fixed: See `fixed_arguments`.
        leaves: What is known to be untraceable.
    Raises:
        Untraceable: The model's own forward cannot be traced.
    """
    found = dict(leaves or {})
    while True:
        try:
            graphs = [_trace_mode(model, fixed, found, training) for training in (False, True)]
            _join_modes(*graphs)
            called = {str(n.target) for n in graphs[0].nodes if n.op == "call_module"}
            for path in called - found.keys():
                if isinstance(module := model.get_submodule(path), WHOLE):
                    found[path] = f"{_base_name(module)} is one call of PyTorch"
            return Traced(graphs[0], {p: r for p, r in found.items() if p in called}, fixed)
        except Untraceable as error:
            if not error.path:
                raise
            found[error.path] = error.reason


def _base_name(module: nn.Module) -> str:
    return next(c.__name__ for c in type(module).__mro__ if c.__module__.startswith("torch.nn"))


def _trace_mode(model: nn.Module, fixed: Fixed, leaves: Mapping[str, str], training: bool) -> fx.Graph:
    before = [(module, module.training) for module in model.modules()]
    tracer = _Tracer(leaves)
    try:
        model.train(training)
        graph = tracer.trace(model, concrete_args=dict(fixed) or None)
    except Untraceable:
        raise
    except Exception as error:  # whatever the user's code does with a proxy
        raise Untraceable("", _said(error)) from error
    finally:
        for module, mode in before:
            module.training = mode
    for node in list(graph.nodes):
        if node.op == "placeholder" and (name := str(node.target).rpartition("_")[0]) in fixed:
            _hold(graph, node, name, fixed[name])
    return graph


def _hold(graph: fx.Graph, node: fx.Node, name: str, value: Any) -> None:
    """Give an argument that is constant in `graph` its own name, which torch.fx numbered, and our check."""
    node.target = name
    checks = list(node.users)
    for check in checks:
        for last in list(check.users):
            graph.erase_node(last)
        graph.erase_node(check)
    if checks:
        with graph.inserting_after(node):
            graph.call_function(require_fixed, (node, name, value))


def require_fixed(given: Any, name: str, value: Any) -> None:
    """
    Raises:
        QuantValueError: An argument that graph mode holds constant has another value.
    """
    if given is not value and not (type(given) is type(value) and given == value):
        raise QuantValueError(
            f"argument '{name}' of forward", f"a {type(given).__name__}" if value is None else repr(given),
            f"{value!r}, as when the model was quantized",
            "pass an example that has this argument to intact.torch.quantize",
        )  # fmt: skip


class _Tracer(fx.Tracer):
    def __init__(self, leaves: Mapping[str, str]) -> None:
        super().__init__()
        self._leaves = leaves

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = isinstance(m, (TensorQuantizer, QuantInputMixin)) or module_qualified_name in self._leaves
        return known or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        path = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(path, _said(error)) from error


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"it cannot be traced: {type(error).__name__}: {text[:200]}"


def scope_of(node: fx.Node) -> str:
    """Path of the module whose forward makes the call of `node`; "" for the model itself."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    own = node.op == "call_module" and stack and stack[-1][0] == node.target
    places = [entry[0] for entry in (stack[:-1] if own else stack)]
    return str(places[-1]) if places else ""


def _join_modes(evaluating: fx.Graph, training: fx.Graph) -> None:
    """Let `evaluating` serve both modes: where a flag is the module's `training`, read it when it runs."""
    ours, theirs = list(evaluating.nodes), list(training.nodes)
    for a, b in zip(ours, theirs, strict=False):
        if (a.op, a.target, a.name) != (b.op, b.target, b.name):
            raise Untraceable(scope_of(a), "it does something else in training mode")
        if not _join_arguments(evaluating, a, b):
            raise Untraceable(scope_of(a), f"'{a.name}' gets other arguments in training mode")
    if len(ours) != len(theirs):
        raise Untraceable("", "it does something else in training mode")


def _join_arguments(graph: fx.Graph, a: fx.Node, b: fx.Node) -> bool:
    flat_a, spec = pytree.tree_flatten((a.args, a.kwargs))
    flat_b, spec_b = pytree.tree_flatten((b.args, b.kwargs))
    if spec != spec_b:
        return False
    differing = [i for i, (x, y) in enumerate(zip(flat_a, flat_b, strict=True)) if not _same(x, y)]
    if not differing:
        return True
    if any((flat_a[i], flat_b[i]) != (False, True) for i in differing):
        return False
    scope = scope_of(a)
    with graph.inserting_before(a):
        flag = graph.create_node("get_attr", f"{scope}.training" if scope else "training")
    for i in differing:
        flat_a[i] = flag
    a.args, a.kwargs = pytree.tree_unflatten(flat_a, spec)
    return True


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, fx.Node) or isinstance(y, fx.Node):
        return isinstance(x, fx.Node) and isinstance(y, fx.Node) and x.name == y.name
    if isinstance(x, Tensor) or isinstance(y, Tensor):
        return x is y
    return type(x) is type(y) and bool(x == y)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in a call's arguments or result."""
    return (x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor))

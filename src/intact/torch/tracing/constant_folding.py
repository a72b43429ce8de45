"""What a model computes of its parameters alone, by operators that ONNX lacks, is a constant in a file.

Orthogonal weights are exponentials or Householder products of matrices, others come out of a decomposition
or a linear system. What ONNX can write is folded in the file, where its operators are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram
from torch.onnx._internal.exporter import _fx_passes

from intact.torch.tracing.assertions import remove_unread
from intact.torch.tracing.decompose_program import decompose_calls

__all__ = ["constants_folded"]


@contextmanager
def constants_folded() -> Iterator[None]:
    """Let torch's exporter compute such values while it decomposes a program."""
    known = getattr(_fx_passes, "decompose_with_registry", None)
    if known is None:
        yield
        return

    def decompose(program: ExportedProgram, registry: Any) -> ExportedProgram:
        done: ExportedProgram = decompose_calls(program, registry) or known(program, registry)
        _Folding(done, registry).run()
        return done

    _fx_passes.decompose_with_registry = decompose  # type: ignore[assignment]
    try:
        yield
    finally:
        _fx_passes.decompose_with_registry = known


class _Folding:
    def __init__(self, program: ExportedProgram, registry: Any) -> None:
        self._program, self._registry = program, registry
        self._module, self._graph = program.graph_module, program.graph_module.graph
        self._constant = self._constant_nodes()
        self._values: dict[fx.Node, Any] = {}

    def _constant_nodes(self) -> set[fx.Node]:
        """Parameters, buffers, and the calls that read nothing else: ``eye(3)`` reads nothing at all."""
        signature = self._program.graph_signature
        names = {
            *signature.inputs_to_parameters, *signature.inputs_to_buffers,
            *signature.inputs_to_lifted_tensor_constants,
        }  # fmt: skip
        found = set[fx.Node]()
        for node in self._graph.nodes:
            if node.op == "placeholder":
                constant = node.name in names
            else:
                constant = node.op == "call_function" and found.issuperset(node.all_input_nodes)
                constant = constant and not _is_different_each_time(node)
            if constant:
                found.add(node)
        return found

    def run(self) -> None:
        lacking = [node for node in self._graph.nodes if node in self._constant and self._has_no_form(node)]
        made = [tensor for node in lacking for tensor in _tensors_of(node)]
        for tensor in made:
            self._replace(tensor)
        if lacking:
            remove_unread([*lacking, *made])
            self._module.recompile()

    def _has_no_form(self, node: fx.Node) -> bool:
        call = isinstance(node.target, torch._ops.OpOverload)
        return call and not self._registry.is_registered(node.target)

    def _replace(self, node: fx.Node) -> None:
        with unset_fake_temporarily(), torch.no_grad():
            value = self._value(node)
        if not isinstance(value, Tensor):
            return
        name = f"_folded_{node.name}"
        self._module.register_buffer(name, value, persistent=False)
        with self._graph.inserting_before(node):
            constant = self._graph.get_attr(name)
        constant.meta = {**node.meta, "val": value}  # the exporter stores the tensor that it finds here
        node.replace_all_uses_with(constant)

    def _value(self, node: fx.Node) -> Any:
        if node not in self._values:
            self._values[node] = self._given(node) if node.op == "placeholder" else self._computed(node)
        return self._values[node]

    def _given(self, node: fx.Node) -> Tensor:
        program, signature = self._program, self._program.graph_signature
        held = {
            **signature.inputs_to_parameters, **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }  # fmt: skip
        name = held[node.name]
        value: Tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
        return value.detach()

    def _computed(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._value)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _tensors_of(node: fx.Node) -> list[fx.Node]:
    """`node`, or the tensors that are taken out of the several that it makes."""
    several = isinstance(node.meta.get("val"), (tuple, list))
    return list(node.users) if several else [node] if node.users else []


def _is_different_each_time(node: fx.Node) -> bool:
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return random or "empty" in getattr(node.target, "__name__", "")

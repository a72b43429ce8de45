"""Fold values that a model computes from parameters alone by operators that ONNX lacks.

Orthogonal weights are matrix exponentials or Householder products. Others come from a decomposition or a
linear system. Values that ONNX operators can compute stay in the file, where later passes fold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from intact.torch.private_torch import DECOMPOSE_WITH_REGISTRY, OpOverload, unset_fake_temporarily
from intact.torch.tracing.assertions import remove_dead_calls
from intact.torch.tracing.decompose_program import decompose_calls

__all__ = ["fold_constants"]


@contextmanager
def fold_constants() -> Iterator[None]:
    """Make torch's exporter compute such values when it decomposes a program inside the context."""

    def wrap(original: Any) -> Any:
        def decompose(program: ExportedProgram, registry: Any) -> ExportedProgram:
            decomposed: ExportedProgram = decompose_calls(program, registry) or original(program, registry)
            _Folding(decomposed, registry).run()
            return decomposed

        return decompose

    with DECOMPOSE_WITH_REGISTRY.wrapping(wrap):
        yield


class _Folding:
    def __init__(self, program: ExportedProgram, registry: Any) -> None:
        self._program, self._registry = program, registry
        self._module, self._graph = program.graph_module, program.graph_module.graph
        self._constant = self._constant_nodes()
        self._values: dict[fx.Node, Any] = {}

    def _constant_nodes(self) -> set[fx.Node]:
        """Return parameters, buffers, and the calls that read nothing else; ``eye(3)`` reads nothing
        at all.
        """
        signature = self._program.graph_signature
        names = {
            *signature.inputs_to_parameters, *signature.inputs_to_buffers,
            *signature.inputs_to_lifted_tensor_constants,
        }  # fmt: skip
        constant_nodes = set[fx.Node]()
        for node in self._graph.nodes:
            if node.op == "placeholder":
                constant = node.name in names
            else:
                constant = node.op == "call_function" and constant_nodes.issuperset(node.all_input_nodes)
                constant = constant and not _is_random(node)
            if constant:
                constant_nodes.add(node)
        return constant_nodes

    def run(self) -> None:
        lacking = [
            node for node in self._graph.nodes if node in self._constant and self._lacks_onnx_form(node)
        ]
        tensors = [tensor for node in lacking for tensor in _tensors_of(node)]
        for tensor in tensors:
            self._replace(tensor)
        if lacking:
            remove_dead_calls([*lacking, *tensors])
            self._module.recompile()

    def _lacks_onnx_form(self, node: fx.Node) -> bool:
        call = isinstance(node.target, OpOverload)
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
            self._values[node] = (
                self._parameter_value(node) if node.op == "placeholder" else self._compute(node)
            )
        return self._values[node]

    def _parameter_value(self, node: fx.Node) -> Tensor:
        program, signature = self._program, self._program.graph_signature
        names = {
            **signature.inputs_to_parameters, **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }  # fmt: skip
        name = names[node.name]
        value: Tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
        return value.detach()

    def _compute(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._value)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _tensors_of(node: fx.Node) -> list[fx.Node]:
    """Return `node`, or the tensors that are taken out of its tuple of results."""
    several = isinstance(node.meta.get("val"), (tuple, list))
    return list(node.users) if several else [node] if node.users else []


def _is_random(node: fx.Node) -> bool:
    random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return random or "empty" in getattr(node.target, "__name__", "")

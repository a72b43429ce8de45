"""Turn a graph of Dynamo into a module for the exporter: parameters inside, tensors in, tensors out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from intact.errors import UnsupportedError
from intact.torch.block_weights.layers import BlockWeightLinear
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.private_torch import is_static_input

__all__ = ["DynamoGraph", "holds_quantizers", "is_constant"]

_OPERATORS = (torch.ops.intact.fake_quantize.default, torch.ops.intact.block_linear.default)


def holds_quantizers(gm: fx.GraphModule) -> bool:
    """Return whether a graph or its subgraphs quantize anything, or have block weights."""
    return any(
        isinstance(module, TensorQuantizer | BlockWeightLinear)
        or (isinstance(module, fx.GraphModule) and any(n.target in _OPERATORS for n in module.graph.nodes))
        for module in gm.modules()
    )


def is_constant(x: Any) -> bool:
    """Return whether an input of a graph is a parameter or a buffer, as Dynamo marks it."""
    return isinstance(x, nn.Parameter) or is_static_input(x)


class DynamoGraph:
    """Wraps a graph of Dynamo, whose inputs are parameters and buffers, tensors of each call, and sizes.

    Args:
        gm: The graph, while Dynamo compiles it: later it forgets the sizes.
    Attributes:
        gm: It.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        self.gm = gm
        self._sizes = [_sizes(node) for node in gm.graph.nodes if node.op == "placeholder"]
        outputs: Any = gm.graph.output_node().args[0]
        self._outputs = [_sizes(node) for node in outputs]

    def numbers(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Return the numbers among `args` that are no tensor's size; `module` takes them for constants."""
        return tuple(
            x for place, x in enumerate(args) if isinstance(x, int) and self._owner(place, args) is None
        )

    def open_sizes(self, args: Sequence[Any]) -> tuple[dict[int, Any] | None, ...]:
        """Return the sizes that Dynamo left open in each tensor of `args`, as `torch.export.export` takes
        them.
        """
        open_axes = (
            {axis: torch.export.Dim.AUTO for axis, size in enumerate(sizes or ()) if isinstance(size, str)}
            for sizes, x in zip(self._sizes, args, strict=True)
            if isinstance(x, Tensor) and not is_constant(x)
        )
        return tuple(sizes or None for sizes in open_axes)

    def module(self, args: Sequence[Any]) -> nn.Module:
        """Return the graph as a module with the constants of `args` inside, which takes its tensors.

        Sizes that Dynamo made inputs are read off the tensors; one that is no tensor's stays what it is.

        Raises:
            UnsupportedError: Something else than tensors and sizes goes in, or than tensors comes out.
        """
        if not all(isinstance(sizes, tuple) for sizes in self._outputs):
            raise _graph_error("a number that comes out")
        graph, root = copy.deepcopy(self.gm.graph), fx.GraphModule(self.gm, fx.Graph())
        for node in graph.nodes:
            node.meta = {}  # Dynamo's own fake tensors
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        tensor_inputs = [node for node, x in zip(inputs, args, strict=True) if _is_tensor(x)]
        with graph.inserting_after(inputs[-1]):
            for place, (node, x) in enumerate(zip(inputs, args, strict=True)):
                if is_constant(x):
                    node.replace_all_uses_with(_attribute(graph, root, f"{node.name}held", x))
                elif isinstance(x, int):
                    node.replace_all_uses_with(self._number(graph, inputs, place, args))
                elif not _is_tensor(x):
                    raise _graph_error(f"a {type(x).__name__} that goes in")
        for node in set(inputs) - set(tensor_inputs):
            graph.erase_node(node)
        return fx.GraphModule(root, graph)

    def _number(self, graph: fx.Graph, inputs: Sequence[fx.Node], place: int, args: Sequence[Any]) -> Any:
        owner = self._owner(place, args)
        if owner is None:
            return args[place]
        return graph.call_method("size", (inputs[owner[0]], owner[1]))

    def _owner(self, place: int, args: Sequence[Any]) -> tuple[int, int] | None:
        """Return the tensor among `args`, and its axis, whose size the number at `place` is; None where there
        is none.
        """
        for tensor, sizes in enumerate(self._sizes):
            if _is_tensor(args[tensor]) and isinstance(sizes, tuple) and self._sizes[place] in sizes:
                return tensor, sizes.index(self._sizes[place])
        return None


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor) and not is_constant(x)


def _attribute(graph: fx.Graph, root: nn.Module, name: str, x: Tensor) -> fx.Node:
    if isinstance(x, nn.Parameter):
        root.register_parameter(name, x)
    else:
        root.register_buffer(name, x)
    return graph.get_attr(name)


def _sizes(node: Any) -> tuple[int | str, ...] | str | None:
    """Return a tensor's sizes, with a name for each open one; a size's name; or None for anything else."""
    example = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    if isinstance(example, torch.SymInt):
        return str(example)
    if not isinstance(example, Tensor):
        return None
    return tuple(size if isinstance(size, int) else str(size) for size in example.shape)


def _graph_error(got: str) -> UnsupportedError:
    return UnsupportedError(
        "torch.compile", got, "a graph from tensors to tensors", "compile the part of the model without it"
    )

"""Run GraphModules as modules with a forward.

torch.export runs the graph of a ``torch.fx.GraphModule`` node by node, and never its forward, which holds the
quantizers of graph mode. Copies and pickles of a GraphModule are rebuilt from the graph, too. So during an
export, and once it is quantized, such a module is a `RunsGraph`, which holds the same attributes and runs the
same code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torch import fx, nn

__all__ = ["ClassPlaceholder", "RunsGraph", "with_forward"]

_M = TypeVar("_M", bound=nn.Module)


class RunsGraph(nn.Module):
    """Base of the class that replaces a class of GraphModules; each GraphModule has a class of its own.

    ``graph``, ``code`` and methods of a user's class are those of the GraphModule.
    """

    _graph_class: type[fx.GraphModule]

    def _as_graph_module(self) -> fx.GraphModule:
        """Return the GraphModule with this module's attributes."""
        return _share_attributes(self, self._graph_class)

    def __getattr__(self, name: str) -> Any:
        owner = next((kind for kind in self._graph_class.__mro__ if name in vars(kind)), nn.Module)
        if issubclass(nn.Module, owner) or name.startswith("__"):  # or it would copy itself its own way
            return super().__getattr__(name)
        if owner is fx.GraphModule:
            return getattr(self._as_graph_module(), name)
        attribute = vars(owner)[name]  # of a user's class; a method may call the forward
        return attribute.__get__(self, type(self)) if hasattr(attribute, "__get__") else attribute

    @property
    def graph(self) -> fx.Graph:
        """Return the graph. Assigning a graph compiles its code again."""
        return self._as_graph_module().graph

    @graph.setter
    def graph(self, graph: fx.Graph) -> None:
        self._as_graph_module().graph = graph

    def train(self, mode: bool = True) -> RunsGraph:
        """Set the mode as the GraphModule does; torchvision's feature extractors have a graph for either
        mode.
        """
        self._as_graph_module().train(mode)
        return self


def _share_attributes(module: nn.Module, kind: type[_M]) -> _M:
    shared: _M = object.__new__(kind)
    shared.__dict__ = module.__dict__
    return shared


def with_forward(model: Any) -> Any:
    """Return `model`; for a GraphModule, a module with the same attributes whose forward is run."""
    if not isinstance(model, fx.GraphModule):
        return model
    return _share_attributes(model, _class_of(type(model)))


def _class_of(kind: type[fx.GraphModule]) -> type[RunsGraph]:
    @functools.wraps(kind.forward)
    def forward(self: RunsGraph, *args: Any, **kwargs: Any) -> Any:
        return kind.forward(self, *args, **kwargs)

    return type(kind.__name__, (RunsGraph,), {"forward": forward, "_graph_class": kind})


# ---- copies and pickles ----


class ClassPlaceholder:
    """Stands for the class of a GraphModule in a copy or a pickle of it.

    Args:
        kind: The class.
        model: A module that holds what the GraphModule does.
    """

    def __init__(self, kind: type[fx.GraphModule], model: nn.Module) -> None:
        self.kind, self._model = kind, model

    def __deepcopy__(self, memo: dict[int, Any]) -> ClassPlaceholder:
        kind = type(self.kind.__name__, (self.kind,), {"forward": self.kind.forward})  # of another graph
        return ClassPlaceholder(kind, self._model)

    def __reduce__(self) -> tuple[Callable[..., ClassPlaceholder], tuple[str]]:
        attributes, imports = _share_attributes(self._model, self.kind).__reduce__()[1]
        return _compile_class, (imports + attributes["_code"],)


def _compile_class(source: str) -> ClassPlaceholder:
    """Compile the code of a pickled GraphModule and return its class, as PyTorch's own pickles do."""
    names: dict[str, Any] = {}
    exec(source, names)
    return ClassPlaceholder(
        type("GraphModule", (fx.GraphModule,), {"forward": names["forward"]}), nn.Module()
    )

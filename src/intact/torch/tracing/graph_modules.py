"""GraphModules as modules with a forward.

torch.export runs the graph of a ``torch.fx.GraphModule`` node by node, and never its forward, in which the
quantizers of graph mode are; copies and pickles of one are made anew from the graph. So while it is exported,
and from when it is quantized on, such a module is a `RunsGraph`: it holds the same and runs the same code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torch import fx, nn

__all__ = ["Blank", "RunsGraph", "with_forward"]

_M = TypeVar("_M", bound=nn.Module)


class RunsGraph(nn.Module):
    """Base of the class that stands for a class of GraphModules; each GraphModule has a class of its own.

    What it does not have itself, ``graph``, ``code`` or a method of a user's class, is the GraphModule's.
    """

    _graph_class: type[fx.GraphModule]

    def _as_graph_module(self) -> fx.GraphModule:
        """The GraphModule that holds what this module holds."""
        return _sharing(self, self._graph_class)

    def __getattr__(self, name: str) -> Any:
        of = next((kind for kind in self._graph_class.__mro__ if name in vars(kind)), nn.Module)
        if issubclass(nn.Module, of) or name.startswith("__"):  # or it would copy itself its own way
            return super().__getattr__(name)
        if of is fx.GraphModule:
            return getattr(self._as_graph_module(), name)
        found = vars(of)[name]  # of a user's class; a method may call the forward
        return found.__get__(self, type(self)) if hasattr(found, "__get__") else found

    @property
    def graph(self) -> fx.Graph:
        """The graph; its code is run anew once it is set."""
        return self._as_graph_module().graph

    @graph.setter
    def graph(self, graph: fx.Graph) -> None:
        self._as_graph_module().graph = graph

    def train(self, mode: bool = True) -> RunsGraph:
        """As the GraphModule does it: torchvision's feature extractors have a graph for either mode."""
        self._as_graph_module().train(mode)
        return self


def _sharing(module: nn.Module, kind: type[_M]) -> _M:
    made: _M = object.__new__(kind)
    made.__dict__ = module.__dict__
    return made


def with_forward(model: Any) -> Any:
    """`model`, or for a GraphModule a module that holds the same, and is run and not read."""
    if not isinstance(model, fx.GraphModule):
        return model
    return _sharing(model, _class_of(type(model)))


def _class_of(kind: type[fx.GraphModule]) -> type[RunsGraph]:
    @functools.wraps(kind.forward)
    def forward(self: RunsGraph, *args: Any, **kwargs: Any) -> Any:
        return kind.forward(self, *args, **kwargs)

    return type(kind.__name__, (RunsGraph,), {"forward": forward, "_graph_class": kind})


# ---- copies and pickles ----


class Blank:
    """The class of a GraphModule, in a copy or a pickle of it: a class with the same code.

    Args:
        kind: The class.
        model: A module that holds what the GraphModule does.
    """

    def __init__(self, kind: type[fx.GraphModule], model: nn.Module) -> None:
        self.kind, self._model = kind, model

    def __deepcopy__(self, memo: dict[int, Any]) -> Blank:
        kind = type(self.kind.__name__, (self.kind,), {"forward": self.kind.forward})  # of another graph
        return Blank(kind, self._model)

    def __reduce__(self) -> tuple[Callable[..., Blank], tuple[str]]:
        held, imports = _sharing(self._model, self.kind).__reduce__()[1]
        return _compiled, (imports + held["_code"],)


def _compiled(source: str) -> Blank:
    """What a pickle of a GraphModule of PyTorch does, too: it is code, as every pickle."""
    names: dict[str, Any] = {}
    exec(source, names)
    return Blank(type("GraphModule", (fx.GraphModule,), {"forward": names["forward"]}), nn.Module())
